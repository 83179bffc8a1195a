import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ExchangeOutcome } from '../../src/billing/providers/port.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

// A one-time key is spent by its first exchange, which takes longer than the caller is kept waiting.

let world: BillingWorld
let exchanges: number
let answerExchange: () => void
beforeEach(async () => {
  world = await openBillingWorld()
  const spent = new Set<string>()
  const answered = new Promise<void>((resolve) => {
    answerExchange = resolve
  })
  exchanges = 0
  world.script.provider.exchange = async (authKey): Promise<ExchangeOutcome> => {
    exchanges++
    if (spent.has(authKey)) return { kind: 'refused' }
    spent.add(authKey)
    await answered
    return { kind: 'done', billingKey: 'bk_test_issued', card: world.script.card }
  }
})
afterEach(async () => {
  answerExchange()
  expect(world.faults).toEqual([])
  await world.close()
})

const longEnough = 60_000
const answerWithin = (ms: number) => Object.assign(world.app.terms, { answerWithinMs: ms })

const oneTime = { auth_key: 'ak_test_once', customer_key: 'c' }

async function expectPatience(ask: () => ReturnType<BillingWorld['post']>, done: number): Promise<void> {
  answerWithin(100)
  for (const _repeat of [1, 2, 3]) expect((await ask()).status).toBe(202)
  expect(exchanges).toBe(1)
  answerExchange()
  await expect.poll(async () => (await ask()).status).toBe(done)
  const told = await ask()
  expect(told).toMatchObject({ status: done, headers: { 'idempotent-replayed': 'true' } })
  expect(exchanges).toBe(1)
  expect(
    await world.rows(`select state, exchanged from billing.payment_method order by id desc limit 1`),
  ).toEqual([{ state: 'kept', exchanged: true }])
  await world.runDue()
  expect(world.script.forgotten).not.toContain('bk_test_issued')
}

test('repeats under the key of a change of card wait for the exchange that is under way', async () => {
  const { subscription_id } = (await world.subscribe('acct_1')).data
  const change = { subscription_id, payment_method: oneTime }
  await expectPatience(() => world.post('/payment-method', change, { key: 'k' }), 200)
  expect(world.script.forgotten).toEqual(['bk_test_ok'])
})

test('so do they where a trial gets its card', async () => {
  await world.post('/trial', { account_id: 'acct_1', plan_id: 'starter-monthly' })
  const body = { account_id: 'acct_1', plan_id: 'starter-monthly', payment_method: oneTime }
  await expectPatience(() => world.post('/subscribe', body, { key: 'k' }), 201)
})

test('a card for what is owed is exchanged once, and charged with what came of it', async () => {
  const { subscription_id } = (await world.subscribe('acct_1')).data
  world.script.declineCard('bk_test_ok', 'insufficient_funds')
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  answerExchange()
  const change = { subscription_id, payment_method: oneTime }
  expect(await world.post('/payment-method', change)).toMatchObject({
    status: 200,
    data: { status: 'active' },
  })
  expect(exchanges).toBe(1)
  expect(world.script.forgotten).not.toContain('bk_test_issued')
})

test('so do they, and the sweep, where a charge comes out of doubt meanwhile', async () => {
  const { subscription_id } = (await world.subscribe('acct_1')).data
  world.script.declineCard('bk_test_ok', 'insufficient_funds')
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  world.script.declineCard('bk_test_ok', null)
  world.script.nextCharges({ kind: 'lost_answer' })
  world.script.hooks.afterCharge = async () => {
    world.script.state.silent = true
  }
  world.skipTo('2026-04-06T09:00:00+09:00')
  await world.runDue()
  world.script.hooks.afterCharge = async () => {}
  const change = { subscription_id, payment_method: oneTime }
  const ask = () => world.post('/payment-method', change, { key: 'k' })
  answerWithin(100)
  expect((await ask()).status).toBe(202)
  answerWithin(longEnough)

  world.script.state.silent = false
  await world.rows(`update billing.payment set sending_until = null, next_lookup_at = clock_timestamp()
    where status in ('sending', 'unknown')`)
  await world.runDue()
  await world.runDue()
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'active' })
  await expectPatience(ask, 200)
})

test('a repeat goes on where the process that began is gone, once its lease is over', async () => {
  const { subscription_id } = (await world.subscribe('acct_1')).data
  answerExchange()
  const { exchange } = world.script.provider
  world.script.provider.exchange = () => new Promise<never>(() => {})
  const change = { subscription_id, payment_method: oneTime }
  const ask = () => world.post('/payment-method', change, { key: 'k' })
  answerWithin(100)
  expect((await ask()).status).toBe(202)
  world.script.provider.exchange = exchange
  expect([(await ask()).status, exchanges]).toEqual([202, 0])
  answerWithin(longEnough)
  await world.forgetLeases()
  expect([(await ask()).status, exchanges]).toEqual([200, 1])
})

test('a process that ends before it asks gives its lease back, so that a repeat goes on at once', async () => {
  const { subscription_id } = (await world.subscribe('acct_1')).data
  answerExchange()
  const stopping = new AbortController()
  const { exchange } = world.script.provider
  world.script.provider.exchange = async () => {
    stopping.abort()
    return { kind: 'not_sent' }
  }
  Object.assign(world.app, { stopping: stopping.signal })
  const change = { subscription_id, payment_method: oneTime }
  const ask = () => world.post('/payment-method', change, { key: 'k' })
  expect((await ask()).status).toBe(202)
  Object.assign(world.app, { stopping: undefined })
  world.script.provider.exchange = exchange
  expect([(await ask()).status, exchanges]).toEqual([200, 1])
})
