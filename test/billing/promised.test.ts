import { afterEach, expect, test } from 'vitest'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

// Once a request was answered with 202 its work is ours: that the provider cannot be reached for a while does not end it.

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  expect(await checkLedger(world.app.db)).toMatchObject({ faults: [] })
  await world.close()
})

const offer = (subscriptionId: string, card: string, key: string) =>
  world.post(
    '/payment-method',
    { subscription_id: subscriptionId, payment_method: { billing_key: card } },
    { key },
  )

/** The process is told to stop while it works on a request, and another takes its place. */
async function stopDuring<R>(ask: () => Promise<R>): Promise<R> {
  Object.assign(world.app, { stopping: AbortSignal.abort() })
  try {
    return await ask()
  } finally {
    Object.assign(world.app, { stopping: undefined })
  }
}

async function sweep(): Promise<void> {
  await world.forgetLeases()
  await world.runDue()
}

/** What the timeline says will happen. */
async function nextOf(subscriptionId: string): Promise<string[]> {
  const { data } = await world.get(`/subscriptions/${subscriptionId}/timeline`)
  return data.next.map(({ what }: { what: string }) => what)
}

/** The card that pays the next month. */
async function chargedInApril(): Promise<string | undefined> {
  let card: string | undefined
  world.script.hooks.afterCharge = async ({ billingKey }) => {
    card = billingKey
  }
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  return card
}

test('a refund that was promised is sent once its provider can be reached', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  const [{ invoice_id }] = await world.invoices('acct_1')
  const refund = () => world.post('/refund', { invoice_id, amount: 100 }, { key: 'k' })
  world.script.nextRefunds({ kind: 'not_sent' }, { kind: 'not_sent' }, { kind: 'not_sent' })
  const first = await stopDuring(refund)
  expect(first).toMatchObject({ status: 202, data: { status: 'pending' } })
  await sweep()
  await world.forgetLeases()
  expect(await refund()).toMatchObject({ status: 202, data: { status: 'pending' } })
  await sweep()
  expect(await refund()).toMatchObject({ status: 200, data: { refund_id: first.data.refund_id } })
  expect([world.script.calls.refund, world.script.balance('KRW')]).toEqual([4, 9800n])
})

test('a refund whose caller was answered meanwhile is not given up either', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  Object.assign(world.app.terms, { answerWithinMs: 200 })
  const [{ invoice_id }] = await world.invoices('acct_1')
  const refund = () => world.post('/refund', { invoice_id }, { key: 'k' })
  let answered = () => {}
  const told = new Promise<void>((resolve) => {
    answered = resolve
  })
  world.script.nextRefunds({ kind: 'not_sent' })
  world.script.hooks.beforeRefund = () => told
  expect((await refund()).status).toBe(202)
  answered()
  await expect
    .poll(() => world.rows(`select step from billing.refund`), { interval: 20 })
    .toEqual([{ step: 'queued' }])
  await sweep()
  expect(await refund()).toMatchObject({ status: 200, data: { status: 'succeeded' } })
  expect(world.script.balance('KRW')).toBe(0n)
})

test('a subscription whose caller was answered meanwhile starts once its provider can be reached', async () => {
  world = await openBillingWorld({ terms: { answerWithinMs: 200 } })
  let answered = () => {}
  const told = new Promise<void>((resolve) => {
    answered = resolve
  })
  world.script.nextCharges({ kind: 'not_sent' })
  world.script.hooks.beforeCharge = () => told
  expect(await world.subscribe('acct_1', { key: 'k' })).toMatchObject({
    status: 202,
    data: { status: 'incomplete' },
  })
  answered()
  await expect
    .poll(() => world.rows(`select sent_at is null as unsent, status from billing.payment`), { interval: 20 })
    .toEqual([{ unsent: true, status: 'sending' }])
  await sweep()
  expect(await world.subscribe('acct_1', { key: 'k' })).toMatchObject({
    status: 201,
    data: { status: 'active' },
  })
  expect([world.script.calls.charge, world.script.balance('KRW')]).toEqual([2, 9900n])
})

test('a card that was promised to be looked at is put to use once its provider can be asked', async () => {
  world = await openBillingWorld()
  const { subscription_id } = (await world.subscribe('acct_1')).data
  world.script.state.silent = true
  expect((await stopDuring(() => offer(subscription_id, 'bk_test_new', 'k'))).status).toBe(202)
  await sweep()
  expect(await nextOf(subscription_id)).toEqual(['payment_method.lookup', 'renewal.charge'])
  await world.forgetLeases()
  expect((await offer(subscription_id, 'bk_test_new', 'k')).status).toBe(202)
  world.script.state.silent = false
  await sweep()
  expect((await offer(subscription_id, 'bk_test_new', 'k')).status).toBe(200)
  expect(await nextOf(subscription_id)).toEqual(['renewal.charge'])
  expect(await chargedInApril()).toBe('bk_test_new')
})

test('whoever waits is told at once that the provider cannot be asked, and may ask again under the same key', async () => {
  world = await openBillingWorld()
  const { subscription_id } = (await world.subscribe('acct_1')).data
  world.script.state.silent = true
  expect((await offer(subscription_id, 'bk_test_new', 'k')).status).toBe(503)
  world.script.state.silent = false
  expect((await offer(subscription_id, 'bk_test_new', 'k')).status).toBe(200)
})

test('a card that waited takes the place of no card that was offered after it', async () => {
  world = await openBillingWorld()
  const { subscription_id } = (await world.subscribe('acct_1')).data
  world.script.state.silent = true
  expect((await stopDuring(() => offer(subscription_id, 'bk_test_first', 'a'))).status).toBe(202)
  world.script.state.silent = false
  world.skipTo('2026-03-05T09:01:00+09:00')
  expect((await offer(subscription_id, 'bk_test_second', 'b')).status).toBe(200)
  await sweep()
  expect((await offer(subscription_id, 'bk_test_first', 'a')).status).toBe(200)
  expect(await chargedInApril()).toBe('bk_test_second')
  expect(world.script.forgotten.sort()).toEqual(['bk_test_first', 'bk_test_ok'])
})

test('what is owed is charged to a promised card once its provider can be reached', async () => {
  world = await openBillingWorld()
  const { subscription_id } = (await world.subscribe('acct_1')).data
  world.script.declineCard('bk_test_ok', 'insufficient_funds')
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  world.script.state.silent = true
  expect((await stopDuring(() => offer(subscription_id, 'bk_test_new', 'k'))).status).toBe(202)
  world.script.state.silent = false
  world.script.nextCharges({ kind: 'not_sent' })
  const before = world.script.calls.charge
  await sweep()
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'past_due' })
  await sweep()
  expect(await offer(subscription_id, 'bk_test_new', 'k')).toMatchObject({
    status: 200,
    data: { status: 'active' },
  })
  expect(world.script.calls.charge - before).toBe(2)
})

test('a promised card that gives way to the next one is refused for good, not for now', async () => {
  world = await openBillingWorld()
  const { subscription_id } = (await world.subscribe('acct_1')).data
  world.script.declineCard('bk_test_ok', 'insufficient_funds')
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  const stopping = new AbortController()
  Object.assign(world.app, { stopping: stopping.signal })
  world.script.nextCharges({ kind: 'not_sent' })
  world.script.hooks.beforeCharge = async () => stopping.abort()
  expect((await offer(subscription_id, 'bk_test_first', 'a')).status).toBe(202)
  Object.assign(world.app, { stopping: undefined })
  expect((await offer(subscription_id, 'bk_test_second', 'b')).status).toBe(200)
  const last = await offer(subscription_id, 'bk_test_first', 'a')
  expect([last.status, last.body.error.code]).toEqual([502, 'provider_error'])
  expect((await offer(subscription_id, 'bk_test_first', 'a')).text).toBe(last.text)
})
