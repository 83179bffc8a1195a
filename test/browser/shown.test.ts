import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { addDays, type Day, dayOf } from '../../src/platform/time.ts'
import type { World } from '../world.ts'
import { whyNoBrowser } from './open-browser.ts'
import { type OpenedConsole, openConsole } from './open-console.ts'

/** Whether pages show what the API tells. */
let opened: OpenedConsole
let world: World
let page: Page

beforeAll(async () => {
  if (whyNoBrowser !== null) return console.warn(`The console is not tried. ${whyNoBrowser}`)
  opened = await openConsole()
  world = opened.world
  page = opened.page
  await opened.signIn(world.token)
})
beforeEach(({ skip }) => skip(whyNoBrowser !== null, whyNoBrowser ?? ''))
afterAll(() => opened?.close())

/** A rank of every day in every series, up to a last day. */
async function recordRanks(
  keyword: string,
  { days, last, series }: { days: number; last: Day; series: number },
) {
  await world.post('/api/batch/keywords', { workspace_id: 'shop', keywords: [keyword] })
  const observations = Array.from({ length: days * series }, (_, at) => ({
    keyword,
    day: addDays(last, -Math.floor(at / series)),
    location: `L${at % series}`,
    status: 'ranked',
    position: 1 + (at % 50),
  }))
  for (let at = 0; at < observations.length; at += 1000)
    await world.post('/api/batch/ranks', {
      workspace_id: 'shop',
      observations: observations.slice(at, at + 1000),
    })
}

/** Opens a keyword's page and counts how many days each line of its chart has. */
async function daysDrawn(keyword: string): Promise<number[]> {
  await opened.open(`/keywords/${encodeURIComponent(keyword)}?workspace=shop`)
  const chart = page.getByRole('img', { name: `Rank, last 90 days: ${keyword}` })
  await chart.or(page.getByText('No ranks are stored yet')).waitFor()
  if ((await chart.count()) === 0) return []
  const lines = chart.locator('path.recharts-line-curve')
  await lines.first().waitFor()
  const paths = await Promise.all((await lines.all()).map((line) => line.getAttribute('d')))
  return paths.map((path) => path!.match(/[ML]/g)!.length)
}

const written = (day: Day) =>
  new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date(`${day}T00:00:00Z`))
const newest = (day: Day) => page.getByText(`Newest day: ${written(day)}`)
const today = () => dayOf(world.app.clock(), 'UTC')

test('a keyword with three series is drawn up to its newest day', async () => {
  const last = addDays(today(), -1)
  await recordRanks('three series', { days: 120, last, series: 3 })
  expect(await daysDrawn('three series')).toEqual([90, 90, 90])
  await newest(last).waitFor()
})

test.each([10, 100, 1000])(
  'ranks that ended %i days ago are drawn for the ninety days before',
  async (ago) => {
    const last = addDays(today(), -ago)
    const keyword = `ended ${ago} days ago`
    await recordRanks(keyword, { days: 120, last, series: 2 })
    expect(await daysDrawn(keyword)).toEqual([90, 90])
    await newest(last).waitFor()
  },
)

test('of more series than can be drawn for ninety days the oldest days are left out, and the page says so', async () => {
  const last = addDays(today(), -1)
  await recordRanks('many series', { days: 90, last, series: 60 })
  const drawn = await daysDrawn('many series')
  expect(drawn).toEqual(Array.from({ length: 60 }, () => drawn[0]))
  expect(drawn[0]).toBeGreaterThan(30)
  expect(drawn[0]).toBeLessThan(90)
  await newest(last).waitFor()
  await page.getByText(`Drawn since ${written(addDays(last, 1 - drawn[0]!))} only`).waitFor()
})

test('the form of a token says what an empty field means, and which scopes reach nobody by it', async () => {
  await opened.open('/tokens')
  await opened.button('New token').click()
  const form = opened.dialog()
  const [account, workspace] = [form.getByLabel('Account'), form.getByLabel('Workspace')]
  await account.waitFor()
  expect(await form.getByText('An id, or * for all. Empty is none.').count()).toBe(2)
  const billing = form.getByText('Without an account the billing scopes reach nobody’s data.')
  const batch = form.getByText('Without a workspace the batch scopes reach nobody’s data.')
  const warnings = async () => [await billing.count(), await batch.count()]
  expect(await warnings()).toEqual([1, 0])
  await form.getByLabel('batch:read').check()
  await account.fill('acct_1')
  await expect.poll(warnings).toEqual([0, 1])
  await workspace.fill('*')
  await expect.poll(warnings).toEqual([0, 0])
  await workspace.fill('')
  await form.getByLabel('batch:read').uncheck()
  await form.getByLabel('Name').fill('reader of one')
  await form.getByLabel('Expires after').first().click()
  await page.getByRole('option', { name: '90 days' }).click()
  await opened.button('Create', form).click()
  await opened.button('Done', form).click()
  const row = page.getByRole('row', { name: /reader of one/ })
  const { tokens } = (await world.get('/api/tokens')).body.data
  const [made] = tokens.filter(({ name }: { name: string }) => name === 'reader of one')
  expect(Date.parse(made.expires_at) - Date.parse(made.created_at)).toBe(90 * 86_400_000)
  await row.getByText('Workspace: None · Account: acct_1').waitFor()
  const own = page.getByRole('row', { name: /\btest\b/ })
  await own.getByText('everything').waitFor()
})

test('a comparison of books that failed says why, and so does a payment that could not be compared', async () => {
  const why = 'The book of the provider "sandbox" cannot be read just now. Compare again once it answers.'
  await world.post('/api/sandbox/provider/faults', { lookup_error_rate: 1 })
  await opened.open('/reconciliation')
  await opened.button('Compare the last 30 days').click()
  await page.getByRole('table').getByText('Failed').waitFor()
  expect(await page.getByRole('alert').allInnerTexts()).toEqual([why])
  expect(await page.getByRole('table').getByText(why).count()).toBe(1)

  await world.post('/api/sandbox/provider/faults', {})
  await opened.button('Compare the last 30 days').click()
  await page.getByText('Both books agree').waitFor()
  expect(await page.getByRole('alert').count()).toBe(0)
  expect(await page.getByRole('table').getByText(why).count()).toBe(1)

  await world.query(
    `update billing.reconciliation set differences = 1, examples = $1
     where id = (select max(id) from billing.reconciliation)`,
    [JSON.stringify([{ kind: 'failed', reference: 'rl_1', reason: 'SQLSTATE 23514' }])],
  )
  await page.reload()
  await page.getByText('reason: SQLSTATE 23514').waitFor()
})

test('no page made the browser complain', () => {
  expect(opened.complaints).toEqual([])
})
