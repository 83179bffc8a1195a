import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { tokenIdOf } from '../../src/platform/access/token.ts'
import type { World } from '../world.ts'
import { whyNoBrowser } from './open-browser.ts'
import { type OpenedConsole, openConsole } from './open-console.ts'

/** What a page says and offers when something is not as it was a moment ago. */
let opened: OpenedConsole
let world: World
let page: Page

beforeAll(async () => {
  if (whyNoBrowser !== null) return console.warn(`The console is not tried. ${whyNoBrowser}`)
  opened = await openConsole()
  world = opened.world
  page = opened.page
  page.setDefaultTimeout(20_000)
  await opened.signIn(world.token)
})
beforeEach(({ skip }) => skip(whyNoBrowser !== null, whyNoBrowser ?? ''))
afterAll(() => opened?.close())

const button: OpenedConsole['button'] = (...named) => opened.button(...named)
const dialog = () => opened.dialog()

test('a dead job is given up only once that was confirmed', async () => {
  await world.query(`select graphile_worker.add_job('gone.job', '{}')`)
  await world.query('update graphile_worker._private_jobs set attempts = max_attempts, run_at = now()')
  const left = async () => (await world.get('/api/jobs?status=dead')).body.data.jobs.length
  await opened.open('/jobs')
  await button('Discard').click()
  await dialog().getByText('gone.job').waitFor()
  expect(await left()).toBe(1)
  await button('Discard', dialog()).click()
  await expect.poll(left).toBe(0)
})

test('a filter shows what the address says, also when a link of the menu takes it away', async () => {
  await opened.open('/accounts?q=acct_')
  const field = page.getByRole('main').getByRole('textbox').first()
  await expect.poll(() => field.inputValue()).toBe('acct_')
  await page.getByRole('navigation').getByRole('link', { name: 'Accounts' }).click()
  await page.waitForURL(/accounts$/)
  await expect.poll(() => field.inputValue(), { timeout: 10_000 }).toBe('')
})

test('a token that was replaced is revoked by its name before it would end by itself', async () => {
  const token = await world.makeToken({ scopes: ['batch:read'], workspace: '*', account: null })
  await world.query(
    `update platform.token set name = 'leaked', replaced_by = 'another' where id = '${tokenIdOf(token)}'`,
  )
  await opened.open('/tokens')
  const row = page.getByRole('row', { name: /leaked/ })
  await button('Revoke', row).click()
  await dialog().getByText('leaked').waitFor()
  await button('Revoke', dialog()).click()
  await row.getByText('Revoked').waitFor()
})

test('a fault that is switched on beside others leaves them as often as they were', async () => {
  const path = '/api/sandbox/provider/faults'
  await world.post(path, { webhook_drop_rate: 0.25, slow_ms: 5 })
  const inForce = async () => (await world.get(path)).body.data.faults
  await opened.open('/sandbox')
  const drops = page.getByLabel('Sends no webhooks')
  const doubles = page.getByLabel('Sends every webhook twice')
  await doubles.click()
  await expect.poll(inForce).toEqual({ webhook_drop_rate: 0.25, slow_ms: 5, webhook_duplicate_rate: 1 })
  await drops.click()
  await expect.poll(inForce).toEqual({ slow_ms: 5, webhook_duplicate_rate: 1 })
  await world.post(path, {})
})

test('where no workspace is in sight, keywords are registered into the one that is named', async () => {
  await opened.open('/keywords')
  await button('Add keywords').click()
  await dialog().getByLabel('One keyword a line, up to 100').fill('first words')
  expect(await button('Register 1', dialog()).isDisabled()).toBe(true)
  const field = dialog().getByLabel('Workspace')
  await field.fill('no blanks')
  await dialog().getByText('Letters, digits and . _ : - only, 64 at most').waitFor()
  await field.fill('first.shop')
  await button('Register 1', dialog()).click()
  await dialog().getByText('1 registered, 0 already there').waitFor()
  await page.waitForURL(/workspace=first\.shop/)
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: 'first words', exact: true }).waitFor()
})

test('numbers that could not be read anew are not passed off as fresh', async () => {
  await opened.open('/jobs')
  await page.getByRole('heading', { name: 'Jobs' }).waitFor()
  await page.getByText('The queue is empty').waitFor()
  await page.route('**/api/jobs*', (route) => route.abort())
  const stale = page.getByText('What is shown may be old')
  await stale.waitFor()
  await page.unroute('**/api/jobs*')
  await expect.poll(() => stale.count()).toBe(0)
})

test('an action that reached nobody is told in words of the language', async () => {
  await page.route('**/api/tokens', (route) =>
    route.request().method() === 'POST' ? route.abort() : route.continue(),
  )
  await opened.open('/tokens')
  await button('New token').click()
  await button('Create', dialog()).click()
  await page.getByText('The service does not answer').waitFor()
  expect(await page.getByText('Failed to fetch').count()).toBe(0)
  await page.unroute('**/api/tokens')
})

test('signing out says so when the session goes on', async () => {
  await opened.open('/')
  await page.route('**/api/session', (route) =>
    route.request().method() === 'DELETE' ? route.abort() : route.continue(),
  )
  await button('Account').click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await page.getByText('The service does not answer').waitFor()
  expect(new URL(page.url()).pathname).toBe('/console/')
  await page.unroute('**/api/session')
})

test('whoever loses the session is asked to sign in, and comes back to the page with its filters', async () => {
  const token = await world.makeToken({ scopes: ['billing:read'], workspace: null, account: '*' })
  const context = await opened.browser.newContext({ locale: 'en-US' })
  const its = await context.newPage()
  await its.goto(`${world.url}/console/invoices?status=paid`)
  await its.getByLabel('Access token').first().fill(token)
  await its.getByRole('button', { name: 'Sign in', exact: true }).click()
  await its.getByRole('heading', { name: 'Invoices' }).waitFor()
  expect(its.url()).toBe(`${world.url}/console/invoices?status=paid`)
  await world.ask('DELETE', `/api/tokens/${tokenIdOf(token)}`)
  const status = async () => (await context.request.get(`${world.url}/api/billing/plans`)).status()
  await expect.poll(status, { timeout: 10_000 }).toBe(401)
  await its.getByRole('navigation').getByRole('link', { name: 'Subscriptions' }).click()
  await its.waitForURL(/sign-in/, { timeout: 20_000 })
  expect(new URL(its.url()).searchParams.get('next')).toBe('/subscriptions')
  await context.close()
})

test('a list whose first page holds nothing that fits reads on', async () => {
  await page.route('**/api/batch/keywords?*', (route) => {
    const isFirst = !new URL(route.request().url()).searchParams.has('cursor')
    const data = isFirst
      ? { keywords: [], next_cursor: 'later' }
      : {
          keywords: [{ keyword: 'far behind', registered_at: '2026-01-01T00:00:00.000+00:00', ranks: [] }],
          next_cursor: null,
        }
    return route.fulfill({ json: { success: true, data } })
  })
  await opened.open('/keywords?workspace=shop&q=far')
  await page.getByRole('link', { name: 'far behind' }).waitFor()
  await page.unroute('**/api/batch/keywords?*')
})

test('in live mode a form offers no test card, and no plan that is not there', async () => {
  await page.route('**/api/session', async (route) => {
    const answer = await route.fetch()
    const body = (await answer.json()) as { data: { mode: string } }
    body.data.mode = 'live'
    await route.fulfill({ response: answer, json: body })
  })
  await world.query(`update billing.plan set active = false where id = 'pro-monthly'`)
  await opened.open('/subscriptions')
  await button('Subscribe').click()
  await dialog().getByLabel('Account id').fill('acct_live')
  expect(await dialog().getByLabel('Billing key').inputValue()).toBe('')
  await page.waitForTimeout(500)
  expect(await button('Subscribe', dialog()).isEnabled()).toBe(false)
  await page.unroute('**/api/session')
})
