import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BatchApp } from '../../src/batch/app.ts'
import { openSources } from '../../src/batch/sources/registry.ts'
import { collectVolumes } from '../../src/batch/tracking/volumes/collect-volumes.ts'
import type { SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import type { World } from '../world.ts'
import { type DatalabWorld, openDatalabWorld } from './datalab-world.ts'

let opened: DatalabWorld
let world: World
let datalab: SourceSandbox
const words = Array.from({ length: 12 }, (_, n) => `나이키 ${n}`)
const budget = 10

beforeAll(async () => {
  opened = await openDatalabWorld(words, budget)
  world = opened.world
  datalab = opened.datalab
  // Another workspace's word is the same word.
  await world.post('/api/batch/keywords', { workspace_id: 'other', keywords: words.slice(0, 2) })
})
afterAll(() => opened.close())

const collectAs = async (app: BatchApp) => {
  // No worker lives here to take up what the schedule has started.
  await world.query(`delete from batch.run where task = 'collect_volumes'`)
  const started = await world.post('/api/batch/trigger', { task: 'collect_volumes' })
  expect(started.status).toBe(202)
  await collectVolumes(app, { runId: started.body.data.run_id }).catch(() => {})
  return (await world.get(`/api/batch/runs/${started.body.data.run_id}`)).body.data.metrics
}
const collect = () => collectAs(world.app.batch)
const trendOf = (word: string) => world.get(`/api/batch/trends/${encodeURIComponent(word)}`)
const checks = () =>
  world.query(
    `select month::text, status, reason, count(*)::int as count from batch.volume_check
     where source = 'naver_datalab' group by 1, 2, 3 order by 1, 2, 3`,
  )
/** A keyword that was asked for on a day; which ones are is drawn. */
const wordAskedOn = async (day: string) =>
  (
    await world.query<{ key: string }>(
      'select key from batch.keyword_trend where asked_on = $1 order by key limit 1',
      [day],
    )
  )[0]!.key
const stateOf = async () =>
  (await world.get('/api/batch/sources')).body.data.sources.find(
    (one: { source: string }) => one.source === 'naver_datalab',
  )

test('nothing is stored before anybody asked, and a bad keyword is none', async () => {
  const none = await trendOf(words[0]!)
  expect([none.status, none.body.error.code]).toEqual([404, 'trend_not_found'])
  expect((await trendOf('!')).body.error.code).toBe('invalid_keyword')
  expect(await stateOf()).toMatchObject({ kinds: ['trends'], configured: true, budget_per_day: budget })
})

test('each keyword is asked for once a month, as far as the day’s budget reaches', async () => {
  expect(await collect()).toMatchObject({ asked: budget, found: budget, calls: budget, failed: 0 })
  expect(await collect()).toMatchObject({ asked: 0, calls: 0 })
  expect(datalab.book.calls).toBe(budget)
  expect(await stateOf()).toMatchObject({ spent_today: budget, state: 'ready' })
  await world.app.clock.moveTo(new Date('2030-01-16T12:00:00Z'))
  expect(await collect()).toMatchObject({ asked: words.length - budget, calls: words.length - budget })
  expect(await collect()).toMatchObject({ asked: 0, calls: 0 })
  expect([datalab.book.calls, datalab.book.paidAgain]).toEqual([words.length, 0])
  expect(await checks()).toEqual([{ month: '2030-01-01', status: 'done', reason: null, count: words.length }])
})

test('a trend is told as ratios of its own highest value, with its span and when it was asked for', async () => {
  const web = openWeb('web')
  const months = Array.from({ length: 36 }, (_, n) =>
    new Date(Date.UTC(2027, n, 1)).toISOString().slice(0, 10),
  )
  const word = await wordAskedOn('2030-01-15')
  const counts = months.map(
    (month) => web.volume(word, 'pc', month.slice(0, 7)) + web.volume(word, 'mobile', month.slice(0, 7)),
  )
  const { data } = (await trendOf(word)).body
  expect(data).toEqual({
    keyword: word,
    unit: 'ratio_of_highest',
    every: 'month',
    from: '2027-01-01',
    to: '2029-12-31',
    values: months.flatMap((period, at) =>
      counts[at]! < 20
        ? []
        : [{ period, ratio: expect.closeTo((counts[at]! / Math.max(...counts)) * 100, 4) }],
    ),
    source: 'naver_datalab',
    asked_on: '2030-01-15',
  })
  // Ratios are no searches: no volume came of them.
  expect(await world.query('select 1 from batch.volume_observation')).toEqual([])
})

test('a new month is asked about when the last one is counted, and replaces the series whole', async () => {
  await world.app.clock.moveTo(new Date('2030-02-02T12:00:00Z'))
  expect(await collect()).toMatchObject({ asked: 0, calls: 0 })
  await world.app.clock.moveTo(new Date('2030-02-03T12:00:00Z'))
  expect(await collect()).toMatchObject({ asked: budget })
  const word = await wordAskedOn('2030-02-03')
  const { data } = (await trendOf(word)).body
  expect(data).toMatchObject({ from: '2027-02-01', to: '2030-01-31', asked_on: '2030-02-03' })
  expect(data.values.map(({ period }: { period: string }) => period)).not.toContain('2027-01-01')
  expect(await world.query('select 1 from batch.keyword_trend where key = $1', [word])).toHaveLength(1)
})

test('an answer without values replaces what was told before: silence is stored as silence', async () => {
  await world.app.clock.moveTo(new Date('2030-02-04T12:00:00Z'))
  datalab.setFaults({ empty: 1 })
  expect(await collect()).toMatchObject({ asked: 2, found: 0, no_data: 2 })
  datalab.setFaults({ empty: 0 })
  const [silent] = await world.query<{ key: string }>(
    `select key from batch.volume_check where month = '2030-02-01' and status = 'no_data' limit 1`,
  )
  expect((await trendOf(silent!.key)).body.data).toMatchObject({ values: [], asked_on: '2030-02-04' })
})

test('what fails keeps the old series, costs one of three tries and is never a zero', async () => {
  const before = (await trendOf(words[0]!)).body.data
  await world.app.clock.moveTo(new Date('2030-03-03T12:00:00Z'))
  datalab.setFaults({ broken: 1 })
  expect(await collect()).toMatchObject({ asked: budget, found: 0, failed: budget, calls: budget })
  datalab.setFaults({ broken: 0 })
  expect((await trendOf(words[0]!)).body.data).toEqual(before)
  expect((await checks()).filter(({ month }) => month === '2030-03-01')).toEqual([
    { month: '2030-03-01', status: 'failed', reason: 'not_json', count: budget },
  ])
})

test('a worker that dies leaves a call that counts as lost, and the next one asks again', async () => {
  await world.app.clock.moveTo(new Date('2030-03-04T12:00:00Z'))
  let transactions = 0
  await collectAs({
    ...world.app.batch,
    fence: async () => {
      // It frees, forgets twice, claims a call, and dies before it stores what was told.
      if (++transactions > 4) throw new Error('killed')
    },
  })
  await world.query(`update batch.run set status = 'failed', error_code = 'worker_lost', finished_at = now()
                     where status in ('queued', 'running')`)
  expect(await collect()).toMatchObject({ lost: 1, asked: budget - 1, found: budget - 1 })
  expect(await stateOf()).toMatchObject({ spent_today: budget, lost_today: 1 })
})

test('a refused key stops at once with an alarm, and a quota that is used up rests until the next day', async () => {
  const { settings } = world.app.batch.sources.get('naver_datalab')!
  const collectWith = async (credentials: Record<string, string>) => {
    const app = { ...world.app.batch, sources: openSources([{ ...settings, credentials }]) }
    const { calls } = datalab.book
    await collectAs(app)
    for (const one of app.sources.values()) one.close()
    return datalab.book.calls - calls
  }
  await world.app.clock.moveTo(new Date('2030-04-03T12:00:00Z'))
  expect(await collectWith({ id: 'client', secret: 'key-refused', host: 'open' })).toBe(1)
  expect(await stateOf()).toMatchObject({ state: 'refused', spent_today: 0 })
  expect(await world.query(`select subject from platform.alarm where kind = 'source_refused'`)).toEqual([
    { subject: 'naver_datalab' },
  ])
  // The hub says 429 of a service that was not chosen: nobody asks again today.
  expect(await collectWith({ id: 'unchosen', secret: 'good-key', host: 'hub' })).toBe(1)
  expect(await stateOf()).toMatchObject({ state: 'resting', last_error: { code: 'quota_exhausted' } })
  expect(await collectWith({ id: 'unchosen', secret: 'good-key', host: 'hub' })).toBe(0)
  await world.app.clock.moveTo(new Date('2030-04-04T12:00:00Z'))
  expect(await collectWith({ id: 'client', secret: 'good-key', host: 'open' })).toBe(budget)
  const last = await wordAskedOn('2030-04-04')
  expect((await trendOf(last)).body.data).toMatchObject({ to: '2030-03-31', asked_on: '2030-04-04' })
})
