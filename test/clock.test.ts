import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from './world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00Z' })
})
afterAll(() => world.close())

const now = async () => new Date((await world.get('/api/sandbox/clock')).body.data.now)

test('the clock ticks, moves by durations and to instants, and says what it did on the way', async () => {
  const subscribed = await world.post('/api/billing/subscribe', {
    account_id: 'acct_1',
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })
  expect(subscribed.status).toBe(201)
  const before = await now()
  const moved = await world.advanceBy('P3M')
  expect(moved.status).toBe(200)
  expect(moved.body.data).toMatchObject({ done: { renewals: 3 }, unsettled: 0 })
  expect((await now()).getTime()).toBeGreaterThan(before.getTime() + 90 * 86_400_000)
  expect((await world.advanceTo('2026-07-01T00:00:00Z')).status).toBe(200)
  expect((await now()).toISOString()).toMatch(/^2026-07-01T00:0/)
})

test('a passed batch slot runs once per task, not once per day', async () => {
  await world.query('delete from batch.run')
  await world.advanceBy('P10D')
  const runs = await world.query<{ task: string; count: number }>(
    `select task, count(*)::int as count from batch.run where trigger = 'schedule' group by task order by task`,
  )
  expect(runs).toEqual([
    { task: 'aggregate_volumes', count: 1 },
    { task: 'predict', count: 1 },
    { task: 'train_classifier', count: 1 },
  ])
})

test.each([
  [{ advance_to: '2020-01-01T00:00:00Z' }, 'clock_backwards'],
  [{ advance_by: '-P1D' }, 'clock_backwards'],
  [{ advance_by: 'PT0S' }, 'clock_backwards'],
  [{ advance_by: 'soon' }, 'validation_failed'],
  [{ advance_to: '2027-01-01T00:00:00' }, 'validation_failed'],
  [{ advance_by: 'P1D', advance_to: '2030-01-01T00:00:00Z' }, 'validation_failed'],
  [{ advance_by: 'P100Y' }, 'validation_failed'],
  [{}, 'validation_failed'],
])('%j is refused with %s and moves nothing', async (body, code) => {
  const before = await now()
  const answer = await world.post('/api/sandbox/clock', body)
  expect([answer.status, answer.body.error.code]).toEqual([400, code])
  expect((await now()).getTime() - before.getTime()).toBeLessThan(60_000)
})

test('of several movers at once one moves and the others are told', async () => {
  const answers = await Promise.all(Array.from({ length: 5 }, () => world.advanceBy('P1Y')))
  const moved = answers.filter(({ status }) => status === 200)
  expect(moved.length).toBeGreaterThanOrEqual(1)
  for (const { status, body } of answers.filter((one) => !moved.includes(one))) {
    expect([status, body.error.code]).toEqual([409, 'clock_moving'])
  }
})

test('a mover that died blocks nobody for long', async () => {
  await world.query("update platform.clock set moving_until = clock_timestamp() + interval '10 seconds'")
  expect((await world.advanceBy('P1D')).body.error.code).toBe('clock_moving')
  await world.query("update platform.clock set moving_until = clock_timestamp() - interval '1 second'")
  expect((await world.advanceBy('P1D')).status).toBe(200)
})

test('only an admin may touch it', async () => {
  const token = await world.makeToken({ scopes: ['billing:write', 'batch:write'] })
  expect((await world.get('/api/sandbox/clock', { token })).status).toBe(403)
})
