import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BatchApp } from '../../src/batch/app.ts'
import type { RankQueue, RankSource } from '../../src/batch/sources/port.ts'
import { openSources } from '../../src/batch/sources/registry.ts'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { dataforseoWire } from '../../src/sandbox/sources/dataforseo-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWeb } from '../../src/sandbox/sources/web.ts'
import { openWorld, type World } from '../world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let source: SourceSandbox
const words = Array.from({ length: 130 }, (_, n) => `word ${n}`)
const sites = /\/\/([a-z]+\.)?example\.com\//

beforeAll(async () => {
  source = await openSourceSandbox({ wire: dataforseoWire, slowMs: 5 })
  world = await openWorld({
    now: '2030-01-15T00:00:00Z',
    environment: {
      DATAFORSEO_LOGIN: 'login',
      DATAFORSEO_PASSWORD: 'sandbox-password',
      DATAFORSEO_BASE_URL: source.url,
      DATAFORSEO_QUEUE_RATE: '900',
      DATAFORSEO_QUEUE_BUDGET_PER_DAY: '1000',
    },
  })
  for (const keywords of [words.slice(0, 100), words.slice(100)])
    expect((await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords })).status).toBe(200)
})
afterAll(async () => {
  await world.close()
  await source.close()
})

const putTracker = (id: string, more: Record<string, unknown> = {}) =>
  world.ask('PUT', `/api/batch/trackers/${id}`, {
    body: trackerBody({ source: 'dataforseo_queue', ...more }),
  })
/** Both clocks, and nobody collects meanwhile. */
const turnTo = async (instant: string) => {
  const body = JSON.stringify({ advance_to: instant })
  await fetch(`${source.url}/__sandbox/clock`, { method: 'POST', body })
  await world.app.clock.moveTo(new Date(instant))
}
const collect = async (app: BatchApp = world.app.batch) => {
  const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
  // A check by hand has started one already.
  const [queued] = await world.query<{ id: string }>(`select id from batch.run where status = 'queued'`)
  const runId = started.body.data?.run_id ?? queued?.id
  await collectRanks(app, { runId })
  const [run] = await world.query('select status, error_code, metrics from batch.run where id = $1', [runId])
  expect(run).toMatchObject({ status: 'succeeded' })
}
/** A run whose worker dies. */
const collectAndDie = async (app: BatchApp) => {
  await collect(app).catch(() => {})
  await world.query(`update batch.run set status = 'failed', error_code = 'worker_lost', finished_at = now()
                     where status in ('queued', 'running')`)
}
/** A run whose worker dies while it orders: before the order leaves, or before its answer is stored. */
const dieOrdering = async ({ isSent }: { isSent: boolean }) => {
  const { batch } = world.app
  const sources = openSources([batch.sources.get('dataforseo_queue')!.settings])
  const source = sources.get('dataforseo_queue')!
  const { queue } = source.ranks!
  let isDead = false
  const order: RankQueue['order'] = async (asks) => {
    isDead = true
    return isSent ? queue!.order(asks) : []
  }
  const ranks = { ...source.ranks!, queue: { ...queue!, order } } as RankSource
  const fence = async () => {
    if (isDead) throw new Error('killed')
  }
  await collectAndDie({ ...batch, fence, sources: new Map([['dataforseo_queue', { ...source, ranks }]]) })
  expect(isDead).toBe(true)
  source.close()
}
const checks = () =>
  world.query<{ status: string; reason: string | null; count: number }>(
    `select status, reason, count(*)::int as count from batch.rank_check
     where day = (select max(day) from batch.rank_check) group by status, reason order by status, reason`,
  )
const rows = (day: string, device = 'mobile') =>
  world.query<{ status: string; reason: string | null; count: number }>(
    `select status, reason, count(*)::int as count from batch.rank
     where workspace_id = 'ws' and device = $1 and day = $2 group by status, reason order by status, reason`,
    [device, day],
  )
const spending = async () =>
  (
    await world.query<{ spent: number; reserved: number; lost: number }>(
      `select coalesce(sum(spent), 0)::int as spent, coalesce(sum(reserved), 0)::int as reserved,
              coalesce(sum(lost), 0)::int as lost
       from batch.source_spending where scope = '' and source = 'dataforseo_queue'`,
    )
  )[0]!

async function expectTheWebsPlaces(day: string, engine: string, device: string): Promise<void> {
  const web = openWeb('web')
  const stored = await world.query<{ keyword: string; position: number | null; searched_depth: number }>(
    `select k.display as keyword, r.position, r.searched_depth from batch.rank r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id
     where r.workspace_id = 'ws' and r.day = $1 and r.engine = $2 and r.device = $3 and r.status <> 'failed'`,
    [day, engine, device],
  )
  expect(stored.length).toBeGreaterThan(0)
  for (const { keyword, position, searched_depth } of stored) {
    const results = web.results({ keyword, engine, device, location: 'KR', day }).slice(0, searched_depth)
    const at = results.findIndex((url) => sites.test(url))
    expect([keyword, position]).toEqual([keyword, at < 0 ? null : at + 1])
  }
}

test('what is ordered waits, is not ordered again, and is collected when it is ready', async () => {
  expect((await putTracker('main')).status).toBe(200)
  expect((await putTracker('naver', { engine: 'naver', location: 'US' })).body.error.code).toBe(
    'location_not_supported',
  )
  await turnTo('2030-01-15T22:05:00Z')
  await collect()
  expect(await checks()).toEqual([{ status: 'ordered', reason: null, count: words.length }])
  expect(source.book.paid).toBe(words.length)
  expect(await spending()).toEqual({ spent: words.length, reserved: 0, lost: 0 })
  // Two calls took a hundred each at most.
  expect(source.book.calls).toBe(2)
  await collect()
  expect([source.book.paid, source.book.calls]).toEqual([words.length, 2])
  // By hand neither: it is under way.
  const byHand = await world.post('/api/batch/trackers/main/check', {
    workspace_id: 'ws',
    keywords: ['word 1'],
  })
  expect(byHand.body.data.checks).toBe(0)
  await collectRanks(world.app.batch, { runId: byHand.body.data.run_id })
  expect(source.book.paid).toBe(words.length)
  await turnTo('2030-01-15T22:15:00Z')
  await collect()
  expect(await checks()).toEqual([{ status: 'done', reason: null, count: words.length }])
  expect((await rows('2030-01-15')).reduce((sum, { count }) => sum + count, 0)).toBe(words.length)
  await expectTheWebsPlaces('2030-01-15', 'google', 'mobile')
  expect([source.book.paid, source.book.paidAgain]).toEqual([words.length, 0])
})

test('who dies after ordering leaves orders that are known by their tags: nothing is paid for twice', async () => {
  const { paid } = source.book
  await turnTo('2030-01-16T22:05:00Z')
  await dieOrdering({ isSent: true })
  expect(source.book.paid - paid).toBe(100)
  await collect()
  expect(await checks()).toEqual([{ status: 'ordered', reason: null, count: words.length }])
  const nameless = await world.query(
    `select 1 from batch.rank_order where state = 'waiting' and order_id is null`,
  )
  expect(nameless).toHaveLength(100)
  await turnTo('2030-01-16T22:20:00Z')
  await collect()
  expect(await checks()).toEqual([{ status: 'done', reason: null, count: words.length }])
  await expectTheWebsPlaces('2030-01-16', 'google', 'mobile')
  expect([source.book.paid - paid, source.book.paidAgain]).toEqual([words.length, 0])
  expect((await spending()).lost).toBe(0)
})

test('an order whose answer broke off is found again, and a result that broke off is collected again', async () => {
  const { paid } = source.book
  await turnTo('2030-01-17T22:05:00Z')
  source.setFaults({ hang_up: 1 })
  await collect()
  source.setFaults({ hang_up: 0 })
  expect(await checks()).toEqual([{ status: 'ordered', reason: null, count: words.length }])
  await turnTo('2030-01-17T22:20:00Z')
  // Who collects dies before anything is stored: the list has forgotten them.
  let count = 0
  await collectAndDie({
    ...world.app.batch,
    fence: async () => {
      if (++count > 8) throw new Error('killed')
    },
  })
  expect((await checks()).some(({ status }) => status === 'asked')).toBe(true)
  await collect()
  await turnTo('2030-01-17T22:40:00Z')
  await collect()
  expect(await checks()).toEqual([{ status: 'done', reason: null, count: words.length }])
  await expectTheWebsPlaces('2030-01-17', 'google', 'mobile')
  expect([source.book.paid - paid, source.book.paidAgain]).toEqual([words.length, 0])
  expect(source.book.throttled).toBe(0)
})

test('what was read in time counts although nobody collected it then; what was not has failed', async () => {
  const { paid } = source.book
  for (const time of ['00:01', '12:00']) {
    await turnTo(`2030-01-18T${time}:00Z`)
    await collect()
  }
  const early = source.book.paid - paid
  expect(early).toBeGreaterThan(0)
  await turnTo('2030-01-18T22:05:00Z')
  source.setFaults({ slow: 1 })
  await collect()
  source.setFaults({ slow: 0 })
  const late = source.book.paid - paid - early
  expect(late).toBeGreaterThan(0)
  // No worker runs until the day is over. Those that were slow are read after midnight.
  await turnTo('2030-01-19T01:30:00Z')
  await collect()
  const told = await rows('2030-01-18')
  expect(told.find(({ status }) => status === 'failed')).toEqual({
    status: 'failed',
    reason: 'not_ready',
    count: late,
  })
  expect(told.reduce((sum, { count }) => sum + count, 0)).toBe(words.length)
  await expectTheWebsPlaces('2030-01-18', 'google', 'mobile')
  expect(
    await world.query(`select 1 from batch.rank_order where state = 'waiting' and day <= '2030-01-18'`),
  ).toEqual([])
})

test('an order that never arrived is lost after 50 minutes, counted so, and placed once more', async () => {
  await turnTo('2030-01-20T12:00:00Z')
  await putTracker('main', { keywords: ['word 7'], every: 'day' })
  await putTracker('naver', { engine: 'naver', depth: 30, keywords: ['word 8'], device: 'desktop' })
  await world.query(`delete from batch.rank_check where status = 'due'`)
  const before = { paid: source.book.paid, lost: (await spending()).lost }
  await world.post('/api/batch/trackers/main/check', { workspace_id: 'ws', keywords: ['word 7'] })
  await world.post('/api/batch/trackers/naver/check', { workspace_id: 'ws', keywords: ['word 8'] })
  await dieOrdering({ isSent: false })
  expect(source.book.paid).toBe(before.paid)
  for (const minute of ['05', '20', '49', '56']) {
    await turnTo(`2030-01-20T12:${minute}:00Z`)
    await collect()
  }
  await turnTo('2030-01-20T13:10:00Z')
  await collect()
  await turnTo('2030-01-20T13:30:00Z')
  await collect()
  const done = await world.query(
    `select tracker_id, status from batch.rank_check where day = '2030-01-20' and by_hand order by tracker_id`,
  )
  expect(done).toEqual([
    { tracker_id: 'main', status: 'done' },
    { tracker_id: 'naver', status: 'done' },
  ])
  await expectTheWebsPlaces('2030-01-20', 'naver', 'desktop')
  expect(source.book.paid - before.paid).toBe(2)
  // The first order, which was that of Google's or of Naver's, died with its worker, and the other one with it.
  expect((await spending()).lost - before.lost).toBe(2)
  expect(source.book.paidAgain).toBe(0)
})

test('a clock that is moved stops to look for orders, under faults, and leaves one row a day', async () => {
  await putTracker('main')
  source.setFaults({ unavailable: 0.02, unreadable: 0.04, wrong_device: 0.03, hang_up: 0.02, broken: 0.02 })
  // Two hours more: what a run broke off at the end of the day is made good by the next.
  expect((await world.advanceTo('2030-01-22T02:00:00Z')).status).toBe(200)
  source.setFaults({ unavailable: 0, unreadable: 0, wrong_device: 0, hang_up: 0, broken: 0 })
  for (const day of ['2030-01-21']) {
    const told = await rows(day)
    expect([day, told.reduce((sum, { count }) => sum + count, 0)]).toEqual([day, words.length])
    for (const { status, reason } of told) expect(reason === null).toBe(status !== 'failed')
    await expectTheWebsPlaces(day, 'google', 'mobile')
  }
  const { spent, reserved, lost } = await spending()
  expect(reserved).toBe(0)
  expect(spent).toBeGreaterThanOrEqual(source.book.paid)
  expect(source.book.paidAgain).toBeLessThanOrEqual(lost)
  expect(source.book.throttled).toBe(0)
})
