import { afterAll, beforeAll, expect, test } from 'vitest'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let source: SourceSandbox
const many = 1_100

const collect = async () => {
  const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
  await collectRanks(world.app.batch, { runId: started.body.data.run_id })
  expect((await world.get(`/api/batch/runs/${started.body.data.run_id}`)).body.data.status).toBe('succeeded')
}

beforeAll(async () => {
  source = await openSourceSandbox({ wire: serpapiWire, slowMs: 1 })
  world = await openWorld({
    now: '2030-01-15T00:00:00Z',
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: source.url,
      SERPAPI_RATE: '900',
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'last', keywords: ['shoes'] })
  const body = {
    workspace_id: 'last',
    site: 'example.com',
    match: 'domain',
    engine: 'google',
    device: 'mobile',
    location: 'KR',
    depth: 10,
    source: 'serpapi',
    every: 'day',
    window: { from: '06:00', to: '08:00', zone: 'UTC' },
    keywords: 'all',
  }
  expect((await world.ask('PUT', '/api/batch/trackers/main', { body })).status).toBe(200)
})
afterAll(async () => {
  await world.close()
  await source.close()
})

test('trackers whose budgets are used up, however many, keep nobody else waiting', async () => {
  await world.query(
    `insert into batch.keyword (workspace_id, key, display, created_at)
     select 'spent_' || n, 'shoes', 'shoes', now() from generate_series(1, $1::int) n`,
    [many],
  )
  await world.query(
    `insert into batch.tracker
     select (jsonb_populate_record(t, jsonb_build_object('workspace_id', 'spent_' || n, 'budget_per_day', 1))).*
     from batch.tracker t, generate_series(1, $1::int) n`,
    [many],
  )
  await world.query(
    `insert into batch.source_spending (source, day, scope, spent)
     select 'serpapi', '2030-01-15', 'tracker spent_' || n || ' main', 1 from generate_series(1, $1::int) n`,
    [many],
  )
  const moved = new Date('2030-01-15T06:00:00Z')
  await world.app.clock.moveTo(moved)
  await collect()
  // All of them have waited for longer than the last one.
  await world.query(
    `update batch.rank_check set due_at = '2030-01-15T06:00:01Z' where workspace_id <> 'last'`,
  )
  await world.app.clock.moveTo(new Date('2030-01-15T08:00:00Z'))
  await collect()
  const checks = await world.query<{ status: string; reason: string | null; count: number }>(
    `select status, reason, count(*)::int as count from batch.rank_check group by status, reason order by status`,
  )
  expect(checks).toEqual([
    { status: 'done', reason: null, count: 1 },
    { status: 'due', reason: 'budget_exhausted', count: many },
  ])
  expect(source.book.calls).toBe(1)
})
