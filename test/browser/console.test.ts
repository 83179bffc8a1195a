import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { simulateRanks } from '../../src/demo/demo-batch.ts'
import { addDays, dayOf } from '../../src/platform/time.ts'
import type { World } from '../world.ts'
import { whyNoBrowser } from './open-browser.ts'
import { type OpenedConsole, openConsole } from './open-console.ts'

/** One world, one browser, one customer: each story goes on where the one before ended. */
let opened: OpenedConsole
let world: World
let page: Page
const axeSource = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

beforeAll(async () => {
  if (whyNoBrowser !== null) return console.warn(`The console is not tried. ${whyNoBrowser}`)
  opened = await openConsole()
  world = opened.world
  page = opened.page
})
beforeEach(({ skip }) => skip(whyNoBrowser !== null, whyNoBrowser ?? ''))
afterAll(() => opened?.close())

const open: OpenedConsole['open'] = (path) => opened.open(path)
const button: OpenedConsole['button'] = (...named) => opened.button(...named)
const dialog = () => opened.dialog()

test('a newcomer signs in, subscribes, turns the clock, refunds and cancels', async () => {
  await open('/')
  await page.getByLabel('Access token').first().fill('rl_test_wrong')
  await button('Sign in').click()
  await page.getByText('This token is not valid').waitFor()
  await page.getByLabel('Access token').first().fill(world.token)
  await button('Sign in').click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()

  await page.getByRole('link', { name: 'Open the sandbox' }).click()
  await button('Subscribe').click()
  await dialog().getByLabel('Account id').fill('acct_first')
  await button('Subscribe', dialog()).click()
  await page.getByText('acct_first').waitFor()
  const before = await page.getByTestId('clock').textContent()
  await button('1 month').click()
  await expect
    .poll(
      async () => (await world.get('/api/billing/invoices?account_id=acct_first')).body.data.invoices.length,
    )
    .toBe(2)
  await expect.poll(() => page.getByTestId('clock').textContent()).not.toBe(before)

  await open('/invoices')
  await page.getByRole('table').getByRole('link').first().click()
  await button('Refund').click()
  await dialog().getByLabel('Amount to refund').fill('9000')
  await dialog().getByText('₩20,000 remains of ₩29,000').waitFor()
  await button(/^Refund ₩9,000/, dialog()).click()
  await page.getByText('Partially refunded').waitFor()
  await page.locator('iframe[title^="PDF"]').waitFor()

  await page.getByRole('link', { name: /^sub_/ }).click()
  await button('Cancel subscription').click()
  await dialog()
    .getByText(/The subscription ends just before/)
    .waitFor()
  await button('Cancel subscription', dialog()).click()
  await page.getByText('Canceling').first().waitFor()
  await button('Resume').waitFor()
  await expect.poll(() => button('Cancel subscription').count()).toBe(0)
})

const keywords = Array.from({ length: 20 }, (_, at) => `running shoes ${at + 1}`)

test('keywords are pasted, their ranks drawn, and a model is trained and active', async () => {
  await open('/keywords?workspace=shop')
  await button('Add keywords').click()
  await dialog()
    .getByRole('textbox')
    .fill(['👟', ...keywords].join('\n'))
  await button('Register 21', dialog()).click()
  await dialog().getByText('Nothing was registered.').waitFor()
  await button('Remove the marked lines', dialog()).click()
  await button('Register 20', dialog()).click()
  await dialog().getByText('20 registered, 0 already there').waitFor()
  await dialog().getByRole('textbox').fill(['running shoes 1', 'trail shoes', 'TRAIL SHOES'].join('\n'))
  await button('Register 3', dialog()).click()
  await dialog().getByText('1 registered, 2 already there').waitFor()
  expect(
    await dialog().getByRole('list', { name: 'Verdict on each line' }).getByRole('listitem').allInnerTexts(),
  ).toEqual(['running shoes 1 already there', 'trail shoes registered', 'TRAIL SHOES already there'])
  await page.keyboard.press('Escape')

  const lastDay = addDays(dayOf(world.app.clock(), 'UTC'), -1)
  const observations = simulateRanks(keywords, { days: 60, lastDay, seed: 7 })
  for (let at = 0; at < observations.length; at += 1000)
    await world.post('/api/batch/ranks', {
      workspace_id: 'shop',
      observations: observations.slice(at, at + 1000),
    })
  await page.reload()
  await page.getByRole('img', { name: '30 days: running shoes 1', exact: true }).waitFor()
  await page.getByRole('link', { name: 'running shoes 1', exact: true }).click()
  await page.getByRole('img', { name: /^Rank, last 90 days/ }).waitFor()

  await open('/training')
  await button('Train a model').click()
  await page.getByRole('link', { name: 'v1' }).first().waitFor()
  await page.getByRole('link', { name: 'v1' }).first().click()
  await page.getByRole('img', { name: 'Reliability' }).waitFor()
  await button('Retire').waitFor()
})

test('the palette opens whatever an id names', async () => {
  const [invoice] = (await world.get('/api/billing/invoices?limit=1')).body.data.invoices
  await open('/')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.keyboard.press('Control+k')
  await page.getByPlaceholder(/paste any id/).fill(invoice.invoice_id)
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/invoices/${invoice.invoice_id}`)
})

test('no page has a serious fault of accessibility, in light or dark, and none is wider than a telephone', async () => {
  const one = async (path: string, list: string) => (await world.get(path)).body.data[list][0]
  const { subscription_id } = await one('/api/billing/subscriptions', 'subscriptions')
  const { invoice_id } = await one('/api/billing/invoices', 'invoices')
  const { model_id } = await one('/api/batch/models', 'models')
  const pages = [
    ...[
      '/',
      '/sandbox',
      '/subscriptions',
      '/accounts',
      '/invoices',
      '/plans',
      '/trials',
      '/keywords?workspace=shop',
    ],
    ...[
      '/tracking?workspace=shop',
      '/training',
      '/webhooks',
      '/events',
      '/jobs',
      '/audit',
      '/tokens',
      '/reconciliation',
      '/accounts/acct_first',
    ],
    ...[`/subscriptions/${subscription_id}`, `/invoices/${invoice_id}`, `/models/${model_id}`],
    '/keywords/running%20shoes%201?workspace=shop',
  ]
  const faults: string[] = []
  for (const path of pages) {
    await page.setViewportSize({ width: 1280, height: 900 })
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' })
    await open(path)
    await page.getByRole('heading', { level: 1 }).waitFor()
    // Live pages ask again and again, so that the network never rests; what waits shows a skeleton.
    await expect.poll(() => page.locator('.mantine-Skeleton-root').count()).toBe(0)
    faults.push(...(await axeFaults(path)))
    // A class that lost its style shows as the browser's own spacing between cells.
    const bare = await page.evaluate<number>(
      `[...document.querySelectorAll('table')].filter((one) => getComputedStyle(one).borderCollapse !== 'collapse').length`,
    )
    if (bare > 0) faults.push(`${path}: ${bare} tables without their style`)
    await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' })
    faults.push(...(await axeFaults(`${path} in the dark`, ['color-contrast'])))
    await page.setViewportSize({ width: 390, height: 844 })
    // Charts follow a moment later.
    const over = () => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    await expect.poll(over, { message: `${path} on a telephone` }).toBeLessThanOrEqual(0)
  }
  expect(faults).toEqual([])
})

type AxeFound = { violations: { id: string; impact: string; nodes: { html: string }[] }[] }

async function axeFaults(name: string, only?: string[]): Promise<string[]> {
  if (await page.evaluate<boolean>('!globalThis.axe')) await page.evaluate(axeSource)
  const how = { resultTypes: ['violations'], ...(only && { runOnly: only }) }
  const found = await page.evaluate<AxeFound>(`axe.run(document, ${JSON.stringify(how)})`)
  return found.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, nodes }) =>
        `${name}: ${id} ${nodes
          .slice(0, 2)
          .map(({ html }) => html.slice(0, 160))
          .join(' | ')}`,
    )
}

test('a token without the scope sees no button, and a forged call is refused', async () => {
  const token = await world.makeToken({ scopes: ['billing:read'], workspace: null, account: 'acct_first' })
  const other = await opened.browser.newContext({ locale: 'ko-KR' })
  const its = await other.newPage()
  opened.listen(its)
  await its.goto(`${world.url}/console/sign-in`)
  await its.getByLabel('액세스 토큰').first().fill(token)
  await its.getByRole('button', { name: '로그인', exact: true }).click()
  await its.getByRole('heading', { name: '개요' }).waitFor()
  const [invoice] = (await world.get('/api/billing/invoices?account_id=acct_first&limit=1')).body.data
    .invoices
  await its.goto(`${world.url}/console/invoices/${invoice.invoice_id}`)
  await its.getByText(invoice.number).first().waitFor()
  expect(await its.getByRole('button', { name: '환불' }).count()).toBe(0)
  expect(await its.getByRole('link', { name: '토큰' }).count()).toBe(0)
  const statuses = await its.evaluate(async (id) => {
    const send = (headers: Record<string, string>) =>
      fetch('/api/billing/refund', {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ invoice_id: id }),
      }).then((answer) => answer.status)
    return [await send({ 'x-console': '1' }), await send({})]
  }, invoice.invoice_id)
  expect(statuses).toEqual([403, 403])
  await other.close()
})

test('another site can do nothing with the session of somebody who visits it', async () => {
  // Another host name is another site to the browser, although both are this machine.
  const before = (await world.get('/api/batch/summary')).body.data.keywords
  const attack = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html')
    response.end('<!doctype html><title>attack</title>')
  })
  await new Promise<void>((resolve) => attack.listen(0, '127.0.0.1', resolve))
  const its = await opened.context.newPage()
  await its.goto(`http://localhost:${(attack.address() as AddressInfo).port}/`)
  const heard = await its.evaluate(async (url) => {
    const ask = (path: string, init: RequestInit) =>
      fetch(url + path, { credentials: 'include', ...init }).then(
        (answer) => `answered ${answer.type}`,
        () => 'refused',
      )
    const body = JSON.stringify({ workspace_id: 'shop', keywords: ['stolen'] })
    return [
      await ask('/api/session', {}),
      await ask('/api/batch/keywords', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-console': '1' },
        body,
      }),
      await ask('/api/batch/keywords', {
        method: 'POST',
        mode: 'no-cors',
        headers: { 'content-type': 'text/plain' },
        body,
      }),
    ]
  }, world.url)
  expect(heard.slice(0, 2)).toEqual(['refused', 'refused'])
  expect((await world.get('/api/batch/summary')).body.data.keywords).toBe(before)
  await its.close()
  await new Promise((resolve) => attack.close(resolve))
})

test('no page made the browser complain, of our scripts or of our own policy', () => {
  expect(opened.complaints).toEqual([])
})
