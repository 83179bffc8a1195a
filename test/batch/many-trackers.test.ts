import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSerpapiWorld, type SerpapiWorld } from './serpapi-world.ts'

let stage: SerpapiWorld
let world: SerpapiWorld['world']
let source: SerpapiWorld['source']
const many = 1_100

beforeAll(async () => {
  stage = await openSerpapiWorld('last', ['shoes'])
  world = stage.world
  source = stage.source
})
afterAll(() => stage.close())

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
  await stage.collect()
  // All of them have waited for longer than the last one.
  await world.query(
    `update batch.rank_check set due_at = '2030-01-15T06:00:01Z' where workspace_id <> 'last'`,
  )
  await world.app.clock.moveTo(new Date('2030-01-15T08:00:00Z'))
  await stage.collect()
  const checks = await world.query<{ status: string; reason: string | null; count: number }>(
    `select status, reason, count(*)::int as count from batch.rank_check group by status, reason order by status`,
  )
  expect(checks).toEqual([
    { status: 'done', reason: null, count: 1 },
    { status: 'due', reason: 'budget_exhausted', count: many },
  ])
  expect(source.book.calls).toBe(1)
})
