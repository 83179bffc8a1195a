import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BatchApp } from '../../src/batch/app.ts'
import { nextDue } from '../../src/batch/due.ts'
import { openSources } from '../../src/batch/sources/registry.ts'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { openPacer } from '../../src/batch/tracking/pacer.ts'
import type { SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import type { World } from '../world.ts'
import { openWorldAtSerpapi } from './serpapi-world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let source: SourceSandbox
let close: () => Promise<void>
const words = Array.from({ length: 60 }, (_, n) => `word ${n}`)
const budget = 150

const tracker = (device: string, more: Record<string, unknown> = {}) => trackerBody({ device, ...more })
const put = (id: string, body: Record<string, unknown>) =>
  world.ask('PUT', `/api/batch/trackers/${id}`, { body })
const rowsOf = (device: string) =>
  world.query<{ day: string; status: string; reason: string | null; count: number }>(
    `select day, status, reason, count(*)::int as count from batch.rank
     where workspace_id = 'ws' and device = $1 group by day, status, reason order by day, status, reason`,
    [device],
  )
const spending = async () =>
  (
    await world.query<{ spent: number; reserved: number; lost: number; most: number }>(
      `select sum(spent)::int as spent, sum(reserved)::int as reserved, sum(lost)::int as lost, max(spent)::int as most
       from batch.source_spending where scope = ''`,
    )
  )[0]!

/** Whatever went wrong meanwhile: a row that is not failed tells what the web showed on its day. */
async function expectTheWebsPlaces(device: string): Promise<void> {
  const web = openWeb('web')
  const stored = await world.query<{ keyword: string; day: string; position: number | null }>(
    `select k.display as keyword, r.day, r.position from batch.rank r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id
     where r.workspace_id = 'ws' and r.device = $1 and r.status <> 'failed'`,
    [device],
  )
  expect(stored.length).toBeGreaterThan(words.length)
  for (const { keyword, day, position } of stored) {
    const results = web.results({ keyword, engine: 'google', device, location: 'KR', day })
    const at = results.slice(0, 10).findIndex((url) => /\/\/([a-z]+\.)?example\.com\//.test(url))
    expect([keyword, day, position]).toEqual([keyword, day, at < 0 ? null : at + 1])
  }
}

/** A worker that dies at its n-th transaction: what was asked is paid for, and never stored. */
function dyingAt(app: BatchApp, transaction: number): BatchApp {
  let count = 0
  return {
    ...app,
    fence: async () => {
      if (++count >= transaction) throw new Error('killed')
    },
  }
}

beforeAll(async () => {
  ;({ world, source, close } = await openWorldAtSerpapi(words, {
    source: { slowMs: 5 },
    environment: { SERPAPI_BUDGET_PER_DAY: String(budget) },
  }))
})
afterAll(() => close())

test('under faults and crashes every keyword has one row a day, and nothing is paid twice but what a crash lost', async () => {
  source.setFaults({
    unavailable: 0.06,
    unreadable: 0.04,
    wrong_device: 0.04,
    hang_up: 0.03,
    broken: 0.02,
  })
  expect((await put('main', tracker('mobile'))).status).toBe(200)
  const { batch } = world.app
  for (const day of ['15', '16', '17']) {
    // Half the day's checks are due; whoever makes them dies in the middle of it.
    await world.app.clock.moveTo(new Date(`2030-01-${day}T12:00:00Z`))
    const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
    await collectRanks(dyingAt(batch, 6), { runId: started.body.data.run_id }).catch(() => {})
    await world.query(`update batch.run set status = 'failed', error_code = 'worker_lost', finished_at = now()
                       where status in ('queued', 'running')`)
    expect(await nextDue(batch)).toBeInstanceOf(Date)
    expect((await world.advanceTo(`2030-01-${Number(day) + 1}T00:00:00Z`)).status).toBe(200)
  }
  source.setFaults({ unavailable: 0, unreadable: 0, wrong_device: 0, hang_up: 0, broken: 0 })
  const rows = await rowsOf('mobile')
  for (const day of ['2030-01-15', '2030-01-16', '2030-01-17']) {
    const ofDay = rows.filter((row) => row.day === day)
    expect([day, ofDay.reduce((sum, { count }) => sum + count, 0)]).toEqual([day, words.length])
  }
  for (const { status, reason } of rows) expect(reason === null).toBe(status !== 'failed')
  await expectTheWebsPlaces('mobile')
  const { spent, reserved, lost, most } = await spending()
  expect(lost).toBeGreaterThan(0)
  expect(reserved).toBe(0)
  expect(most).toBeLessThanOrEqual(budget)
  // We count what may have been paid for: never less than the source itself.
  expect(spent).toBeGreaterThanOrEqual(source.book.paid)
  expect(source.book.paidAgain).toBeLessThanOrEqual(lost)
  const shown = (await world.get('/api/batch/sources')).body.data.sources
  expect(shown.find((one: { source: string }) => one.source === 'serpapi')).toMatchObject({
    configured: true,
    budget_per_day: budget,
    rate_per_second: 900,
  })
})

test('a budget is never exceeded: what it does not reach for has failed for the day, and says so', async () => {
  const before = source.book.paid
  expect((await put('main', tracker('mobile', { budget_per_day: 20 }))).status).toBe(200)
  await world.advanceTo('2030-01-19T00:00:00Z')
  const rows = (await rowsOf('mobile')).filter(({ day }) => day === '2030-01-18')
  expect(source.book.paid - before).toBe(20)
  expect(rows.find(({ status }) => status === 'failed')).toMatchObject({
    reason: 'budget_exhausted',
    count: 40,
  })
  const dear = await world.post('/api/batch/trackers/main/check', {
    workspace_id: 'ws',
    keywords: words.slice(0, 21),
  })
  expect([dear.status, dear.body.error.code]).toEqual([409, 'budget_exhausted'])
})

test('a dry check says what it would cost and asks nothing; a real one takes today’s rank again', async () => {
  await put('main', tracker('mobile', { depth: 30 }))
  const before = source.book.calls
  const path = '/api/batch/trackers/main/check'
  const body = { workspace_id: 'ws', keywords: ['word 1', 'WORD 1', 'word 2'] }
  const dry = await world.post(path, { ...body, dry_run: true })
  expect([dry.status, dry.body.data]).toEqual([200, { run_id: null, checks: 2, cost: 6 }])
  expect(source.book.calls).toBe(before)
  const unknown = await world.post(path, { workspace_id: 'ws', keywords: ['nobody knows'] })
  expect(unknown.body.error.code).toBe('keyword_not_found')
  const real = await world.post(path, body)
  expect([real.status, real.body.data]).toEqual([
    202,
    { run_id: expect.stringMatching(/^run_/), checks: 2, cost: 6 },
  ])
  await collectRanks(world.app.batch, { runId: real.body.data.run_id })
  expect(
    (await rowsOf('mobile')).filter(({ day }) => day === '2030-01-19').reduce((n, { count }) => n + count, 0),
  ).toBe(2)
})

test('a source that fails for more than 30 % rests, and the rest of the day is not paid for', async () => {
  // What it answered in the tests before counts for it, and would delay the verdict.
  await world.query('update batch.source set recent_good = 0, recent_failed = 0')
  source.setFaults({ unavailable: 1 })
  const before = source.book.calls
  // All 58 checks that are left are due: a run that did not stop would ask for every one of them.
  await world.app.clock.moveTo(new Date('2030-01-19T22:00:00Z'))
  const collectOnce = async () => {
    const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
    await collectRanks(world.app.batch, { runId: started.body.data.run_id })
    return source.book.calls - before
  }
  const asked = await collectOnce()
  // It is judged at the twentieth answer at the latest; 32 calls may be under way by then.
  expect(asked).toBeGreaterThanOrEqual(20)
  expect(asked).toBeLessThanOrEqual(19 + 32)
  const [serpapi] = (await world.get('/api/batch/sources')).body.data.sources.filter(
    (one: { source: string }) => one.source === 'serpapi',
  )
  expect(serpapi).toMatchObject({ state: 'resting', last_error: { code: 'source_error' } })
  const restMs = Date.parse(serpapi.until) - Date.parse('2030-01-19T22:00:00Z')
  expect(restMs).toBeGreaterThanOrEqual(30 * 60_000)
  expect(restMs).toBeLessThan(32 * 60_000)
  expect(Date.parse(serpapi.next_check_at)).toBeLessThanOrEqual(Date.parse('2030-01-19T22:00:00Z'))
  // While it rests nobody asks it, whoever starts a run.
  expect(await collectOnce()).toBe(asked)
  await world.advanceTo('2030-01-20T00:00:00Z')
  const rows = (await rowsOf('mobile')).filter(
    ({ day, status }) => day === '2030-01-19' && status === 'failed',
  )
  expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(words.length - 2)
  source.setFaults({ unavailable: 0 })
})

test('calls leave at their rate, whoever sends them', async () => {
  const [one, two] = [
    openPacer(world.app.batch.db, 'serpapi', 100),
    openPacer(world.app.batch.db, 'serpapi', 100),
  ]
  const began = performance.now()
  await Promise.all(Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? one : two).turn()))
  expect(performance.now() - began).toBeGreaterThan(39 * 10)
})

test('a refused key stops everything at once, with an alarm and without a cent; another key goes on', async () => {
  const { settings } = world.app.batch.sources.get('serpapi')!
  const withKey = (key: string): BatchApp => ({
    ...world.app.batch,
    sources: openSources([{ ...settings, credentials: { key } }]),
  })
  const collectAs = async (key: string) => {
    const started = await world.post('/api/batch/trackers/main/check', {
      workspace_id: 'ws',
      keywords: words.slice(0, 40),
    })
    const app = withKey(key)
    await collectRanks(app, { runId: started.body.data.run_id })
    for (const one of app.sources.values()) one.close()
  }
  const stateOf = async () =>
    (await world.get('/api/batch/sources')).body.data.sources.find(
      (one: { source: string }) => one.source === 'serpapi',
    )
  // What rested because of its failures is ready again by then.
  await world.advanceTo('2030-01-20T01:00:00Z')
  await put('main', tracker('mobile', { depth: 1 }))
  const { paid } = source.book
  await collectAs('key-refused')
  expect(source.book.paid).toBe(paid)
  expect(await stateOf()).toMatchObject({ state: 'refused', last_error: { code: 'credentials_refused' } })
  const alarms = () => world.query(`select subject from platform.alarm where kind = 'source_refused'`)
  expect(await alarms()).toEqual([{ subject: 'serpapi' }])
  expect(JSON.stringify(await world.query('select reason from batch.rank_check'))).not.toMatch(/key.refused/)
  const asked = source.book.calls
  await collectAs('key-refused')
  expect(source.book.calls).toBe(asked)
  await collectAs('another-key')
  expect(source.book.paid - paid).toBe(40)
  expect(await alarms()).toEqual([])
  expect(await stateOf()).toMatchObject({ state: 'ready' })
})

test('every slot lies in its window', async () => {
  await put('early', tracker('tablet', { window: { from: '02:00', to: '03:00', zone: 'Asia/Seoul' } }))
  await world.advanceTo('2030-01-20T17:30:00Z')
  const [slots] = await world.query<{ first: Date; last: Date; count: number }>(
    `select min(due_at) as first, max(due_at) as last, count(*)::int as count from batch.rank_check
     where tracker_id = 'early' and tries <= 1`,
  )
  expect(slots!.count).toBe(words.length)
  expect(slots!.first >= new Date('2030-01-20T17:00:00Z')).toBe(true)
  expect(slots!.last <= new Date('2030-01-20T18:00:00Z')).toBe(true)
})

test('a check or spending of long ago is forgotten when its tracker plans a day, and one that is open or younger is not', async () => {
  const checksOf = (id: string, more: string) =>
    world.query(
      `select day::text, status from batch.rank_check where tracker_id = $1 and day < '2030-01-01' ${more} order by day, status`,
      [id],
    )
  await world.query(
    `insert into batch.rank_check (workspace_id, tracker_id, day, keyword_id, source, due_at, closes_at, status)
     select 'ws', t.id, d.day, k.id, 'serpapi', d.day, 'infinity', k.status
     from unnest(array['main', 'early']) as t (id), unnest(array['2029-11-19', '2029-11-22']::date[]) as d (day),
       lateral (select id, (array['done', 'failed', 'ordered'])[row_number() over (order by id)] as status
                from batch.keyword where workspace_id = 'ws' order by id limit 3) k`,
  )
  const ranks = async () => Number((await world.query('select count(*) as rows from batch.rank'))[0]!['rows'])
  const before = await ranks()
  const spendingBefore = `select day::text from batch.source_spending where day < '2029-01-01' order by day`
  await world.query(
    `insert into batch.source_spending (source, day, scope) values ('serpapi', '2028-12-16', ''), ('serpapi', '2028-12-18', '')`,
  )
  await world.advanceTo('2030-01-21T17:30:00Z')
  expect(await world.query(spendingBefore)).toEqual([{ day: '2028-12-18' }])
  const young = ['done', 'failed', 'ordered'].map((status) => ({ day: '2029-11-22', status }))
  // One without a known order cannot be ended by anybody but the end of its day, which is far away here.
  expect(await checksOf('early', '')).toEqual([{ day: '2029-11-19', status: 'ordered' }, ...young])
  expect(await checksOf('main', `and status <> 'ordered'`)).toEqual(young.slice(0, 2))
  expect(await ranks()).toBeGreaterThan(before)
  await world.query(`delete from batch.rank_check where closes_at = 'infinity'`)
})

test('the metrics tell of each source what it cost, how it fares and when it is asked next', async () => {
  const { text } = await world.get('/metrics', { token: null })
  const sampled = (sample: string) =>
    Number(
      text
        .split('\n')
        .find((line: string) => line.startsWith(`${sample} `))
        ?.split(' ')
        .at(-1),
    )
  expect(sampled('rankledger_source_calls_today{source="serpapi",kind="budget"}')).toBe(budget)
  expect(sampled('rankledger_source_calls_today{source="serpapi",kind="spent"}')).toBeGreaterThan(0)
  expect(sampled('rankledger_source_recent_answers{source="serpapi",outcome="good"}')).toBeGreaterThan(0)
  expect(sampled('rankledger_source_state{source="serpapi",state="ready"}')).toBe(1)
  expect(sampled('rankledger_source_next_check_seconds{source="serpapi"}')).toBeLessThan(86_400)
})
