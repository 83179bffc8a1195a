import { afterAll, beforeAll, expect, test } from 'vitest'
import { retention } from '../../src/cli/retention.ts'
import { runCommand } from '../billing/run-command.ts'
import { openSerpapiWorld, type SerpapiWorld } from './serpapi-world.ts'

let stage: SerpapiWorld
let world: SerpapiWorld['world']

beforeAll(async () => {
  stage = await openSerpapiWorld('ws', ['shoes', 'boots'])
  world = stage.world
})
afterAll(() => stage.close())

test('checks that were left open in a month that retention dropped end, and collecting goes on', async () => {
  await stage.turnTo('2030-01-15T06:00:00Z')
  await stage.collect()
  // Nobody worked for three months.
  await stage.turnTo('2030-04-20T12:00:00Z')
  const dropped = await runCommand(retention, ['--keep', '2m', '--yes', '--json'], world.environment)
  expect(JSON.parse(dropped.output).months.map(({ period }: { period: string }) => period)).toContain(
    '2030-01',
  )

  await stage.collect()
  const ended = await world.query(
    `select day, status, reason, count(*)::int as count from batch.rank_check where day < '2030-02-01' group by 1, 2, 3`,
  )
  expect(ended).toEqual([{ day: '2030-01-15', status: 'failed', reason: 'not_checked', count: 2 }])
  const days = await world.query(
    `select min(day) as first, max(day) as last, count(*)::int as ranks from batch.rank`,
  )
  expect(days).toEqual([{ first: '2030-03-20', last: '2030-04-20', ranks: 2 * 32 }])
  const months = await world.query(`select 1 from pg_class where relname = 'rank_2030_01'`)
  expect(months).toEqual([])
})
