import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { BatchApp } from '../../src/batch/app.ts'
import { startScheduledRuns } from '../../src/batch/scheduling/start-scheduled-runs.ts'
import { openSources } from '../../src/batch/sources/registry.ts'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { openSourceRow } from '../../src/batch/tracking/source-rows.ts'
import type { World } from '../world.ts'
import { openWorldAtSerpapi } from './serpapi-world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let close: () => Promise<void>
const words = Array.from({ length: 12 }, (_, n) => `word ${n}`)
const path = '/api/batch/trackers/main/check'
const budget = 150

const check = (keywords: readonly string[], more = {}) =>
  world.post(path, { workspace_id: 'ws', keywords, ...more })
const statusOf = async (keyword: string) =>
  (
    await world.query<{ status: string; reason: string | null }>(
      `select c.status, c.reason from batch.rank_check c
       join batch.keyword k on k.workspace_id = c.workspace_id and k.id = c.keyword_id
       where k.display = $1`,
      [keyword],
    )
  )[0]
/** Works whatever run waits. No worker lives here. */
const workQueued = async (app: BatchApp) => {
  for (const { id } of await world.query<{ id: string }>(`select id from batch.run where status = 'queued'`))
    await collectRanks(app, { runId: id })
}
/** What a worker does every second, and the run that it may have started. */
const look = async (app: BatchApp) => {
  await startScheduledRuns(app)
  await workQueued(app)
}
const runsByHand = async () =>
  (await world.query(`select 1 from batch.run where task = 'collect_ranks' and trigger = 'manual'`)).length

beforeAll(async () => {
  ;({ world, close } = await openWorldAtSerpapi(words, {
    now: '2030-01-15T12:00:00Z',
    source: { slowMs: 5 },
    environment: { SERPAPI_BUDGET_PER_DAY: String(budget) },
  }))
  const made = await world.ask('PUT', '/api/batch/trackers/main', {
    body: trackerBody({
      every: 'month',
      // Its window is over: nothing is checked but what is asked for.
      window: { from: '01:00', to: '02:00', zone: 'UTC' },
    }),
  })
  expect(made.status).toBe(200)
  await openSourceRow(world.app.batch.db, world.app.batch.sources.get('serpapi')!.settings)
})
afterAll(() => close())
const rest = (state: string, why: string) =>
  world.query(
    `update batch.source set state = $1, last_error = $2, last_error_at = now(), until = '2030-01-16T00:00:00Z'`,
    [state, why],
  )
const wake = () => world.query(`update batch.source set state = 'ready', until = null`)
const spend = (calls: number) =>
  world.query(
    `insert into batch.source_spending (source, day, scope, spent) values ('serpapi', '2030-01-15', '', $1)
     on conflict (source, day, scope) do update set spent = excluded.spent`,
    [calls],
  )
beforeEach(async () => {
  await world.query(`delete from batch.rank_check`)
  await wake()
  await spend(0)
})

test.each([
  ['an empty quota', () => rest('resting', 'quota_exhausted'), wake, 'quota_exhausted'],
  ['a refused key', () => rest('refused', 'credentials_refused'), wake, 'credentials_refused'],
  ['a budget that is gone', () => spend(budget), () => spend(0), 'budget_exhausted'],
])(
  'a check by hand that waits for %s starts no run after its own; the next slot makes it',
  async (...told) => {
    const [, stop, goOn, reason] = told
    const { batch } = world.app
    await look(batch)
    expect((await check(['word 1'])).status).toBe(202)
    await stop()
    await workQueued(batch)
    expect(await statusOf('word 1')).toEqual({ status: 'due', reason })
    const before = await runsByHand()
    for (let second = 0; second < 3; second++) await look(batch)
    expect(await runsByHand()).toBe(before)
    await goOn()
    await world.app.clock.moveTo(new Date(batch.clock().getTime() + 5 * 60_000))
    await look(batch)
    expect(await statusOf('word 1')).toEqual({ status: 'done', reason: null })
  },
)

test('a check by hand at a source that is no longer set up starts no run after its own', async () => {
  const { batch } = world.app
  const { settings } = batch.sources.get('serpapi')!
  const sources = openSources([{ ...settings, name: 'searchapi' }])
  const without: BatchApp = { ...batch, sources }
  expect((await check(['word 2'])).status).toBe(202)
  await workQueued(without)
  const before = await runsByHand()
  for (let second = 0; second < 3; second++) await look(without)
  expect(await runsByHand()).toBe(before)
  expect(await statusOf('word 2')).toMatchObject({ status: 'due' })
  for (const one of sources.values()) one.close()
})

test('a check by hand that came a moment too late for the run it was told has one of its own', async () => {
  const { batch } = world.app
  const { run_id } = (await check(['word 3'])).body.data
  expect((await check(['word 4'])).body.data.run_id).toBe(run_id)
  await world.query(
    `update batch.run set status = 'succeeded', started_at = queued_at, finished_at = queued_at where id = $1`,
    [run_id],
  )
  const before = await runsByHand()
  await look(batch)
  expect(await runsByHand()).toBe(before + 1)
  expect(await statusOf('word 4')).toEqual({ status: 'done', reason: null })
  await look(batch)
  expect(await runsByHand()).toBe(before + 1)
})

test('a check by hand that finds another one starting the run at the same time is told that run', async () => {
  const other = new pg.Client({ connectionString: world.databaseUrl })
  await other.connect()
  try {
    await other.query('begin')
    await other.query(
      `insert into batch.run (id, task, trigger, status, queued_at, leased_until)
       values ('run_of_the_other', 'collect_ranks', 'manual', 'queued', now(), now() + interval '1 hour')`,
    )
    const asking = check(['word 5'])
    const waiting = () =>
      world.query(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
    await expect.poll(waiting).toHaveLength(1)
    await other.query('commit')
    const { status, body } = await asking
    expect([status, body.data]).toEqual([202, { run_id: 'run_of_the_other', checks: 1, cost: 1 }])
  } finally {
    await other.end()
  }
  await workQueued(world.app.batch)
  expect(await statusOf('word 5')).toEqual({ status: 'done', reason: null })
})

test('a check by hand of unknown keywords names each of them by its place in the list that was sent', async () => {
  const sent = ['word 6', 'WORD 6', 'nobody knows', 'word 7', 'unheard of', 'Nobody Knows']
  const { status, body } = await check(sent, { dry_run: true })
  expect([status, body.error.code]).toEqual([404, 'keyword_not_found'])
  expect(body.error.details.map(({ path, code }: { path: string; code: string }) => [path, code])).toEqual(
    [2, 4, 5].map((at) => [`keywords[${at}]`, 'keyword_not_found']),
  )
})

test('keywords that are under way already cost nothing more, and no budget', async () => {
  const sent = ['word 8', 'word 9', 'word 10']
  const wanted = await check(sent, { dry_run: true })
  expect(wanted.body.data).toEqual({ run_id: null, checks: 3, cost: 3 })
  expect((await check(['word 8', 'word 9'])).status).toBe(202)
  await world.query(
    `update batch.rank_check set status = 'asked', asked_by = 'somebody', reserved = 1, spent_on = '2030-01-15'`,
  )
  expect((await check(sent, { dry_run: true })).body.data).toEqual({ run_id: null, checks: 1, cost: 1 })
  await spend(budget - 1)
  const made = await check(sent)
  expect([made.status, made.body.data]).toMatchObject([202, { checks: 1, cost: 1 }])
  const none = await check(['word 8'], { dry_run: true })
  expect(none.body.data).toEqual({ run_id: null, checks: 0, cost: 0 })
})
