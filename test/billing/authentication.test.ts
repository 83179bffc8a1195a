import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { reseal } from '../../src/billing/reseal.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

// Charges that wait for their customer: 3-D Secure, off session.

let world: BillingWorld
let count = 0
beforeAll(async () => {
  world = await openBillingWorld({ now: '2026-03-05T09:00:00.400+09:00' })
})
afterAll(async () => {
  expect(world.faults).toEqual([])
  expect(await checkLedger(world.app.db)).toMatchObject({ faults: [] })
  await world.close()
})

const asksCard = () => `bk_test_asks_${count++}`
const dayMs = 86_400_000
const inDays = (days: number) => new Date(world.app.clock().getTime() + days * dayMs)
const inMs = (ms: number) => new Date(world.app.clock().getTime() + ms)
const newest = async (account: string) => (await world.invoices(account))[0]
const referenceOf = async (account: string): Promise<string> =>
  (await newest(account)).payments.at(-1).reference
const takenOf = (account: string) =>
  [...world.script.book.values()].filter((one) => one.accountId === account && one.status === 'paid').length

/** What the sweep does once its turn has come, however long the waits between lookups have grown. */
async function sweep(): Promise<void> {
  await world.forgetLeases()
  await world.runDue()
}

async function asked(account: string) {
  const card = asksCard()
  world.script.askCustomer(card)
  const answer = await world.subscribe(account, { card, key: `key-${account}` })
  return { card, answer }
}

/** A customer whose first charge passed and whose renewal waits. */
async function askedOnRenewal(account: string): Promise<{ id: string; card: string }> {
  const card = asksCard()
  const answer = await world.subscribe(account, { card })
  expect(answer.status).toBe(201)
  world.script.askCustomer(card)
  await world.advanceTo(answer.data.next_billing_at)
  return { id: answer.data.subscription_id, card }
}

test('a first charge that waits answers 202 with what to do, and its confirmation finishes it', async () => {
  const { answer } = await asked('first')
  expect([answer.status, answer.data.status]).toEqual([202, 'incomplete'])
  const { next_action } = answer.data
  expect(next_action).toEqual({
    type: 'authenticate',
    client_secret: expect.stringMatching(/^pi_\w+_secret_/),
    expires_at: '2026-03-06T09:00:00.400+09:00',
  })
  const invoice = await newest('first')
  expect(invoice).toMatchObject({ status: 'open', next_action })
  const own = await world.makeToken({ account: 'first', scopes: ['billing:read'] })
  expect((await world.get(`/invoices/${invoice.invoice_id}`, { token: own })).data.next_action).toEqual(
    next_action,
  )
  // Nothing of it stands in the database as it is, nor in what happened.
  const [row] = await world.rows<{ all: string }>(
    `select (select json_agg(a)::text from billing.next_action a) || (select json_agg(p)::text from billing.payment p)
       || (select json_agg(e)::text from billing.event e) || (select json_agg(k)::text from platform.idempotency_key k) as all`,
  )
  expect(row!.all).not.toContain(next_action.client_secret)
  expect(row!.all).toContain('payment.action_required')
  const again = await world.subscribe('first', { card: 'bk_test_asks_0', key: 'key-first' })
  expect([again.status, again.data.next_action]).toEqual([202, next_action])

  expect(world.script.confirm(await referenceOf('first'))).toBe(true)
  await sweep()
  expect(await newest('first')).toMatchObject({ status: 'paid', next_action: null })
  expect(await world.subscription(answer.data.subscription_id)).toMatchObject({ status: 'active' })
  expect(
    await world.rows(`select from billing.next_action where invoice_id = $1`, [invoice.invoice_id]),
  ).toEqual([])
  expect(await world.subscribe('first', { card: 'bk_test_asks_0', key: 'key-first' })).toMatchObject({
    status: 201,
    data: { next_action: null },
  })
})

test('a first charge that nobody confirms in time is ended at the provider and with it the subscription', async () => {
  const { answer } = await asked('idle')
  const reference = await referenceOf('idle')
  await world.advanceTo(inMs(dayMs - 1000))
  expect(await world.subscription(answer.data.subscription_id)).toMatchObject({ status: 'incomplete' })
  await world.advanceTo(inMs(2000))
  expect(await world.subscription(answer.data.subscription_id)).toMatchObject({
    status: 'canceled',
    cancel_reason: 'payment_declined',
  })
  expect(await newest('idle')).toMatchObject({
    status: 'void',
    next_action: null,
    payments: [{ status: 'failed', failure_code: 'authentication_required' }],
  })
  // Whoever confirms it now finds it ended.
  expect(world.script.confirm(reference)).toBe(false)
})

test('a provider that does not confirm the end leaves the attempt open, and the customer may still pay', async () => {
  const { answer } = await asked('late')
  world.script.nextCancels('unknown')
  await world.advanceTo(inDays(1.01))
  expect(await world.subscription(answer.data.subscription_id)).toMatchObject({ status: 'incomplete' })
  expect(await newest('late')).toMatchObject({ status: 'open', next_action: null })
  expect(world.script.confirm(await referenceOf('late'))).toBe(true)
  await sweep()
  expect(await world.subscription(answer.data.subscription_id)).toMatchObject({ status: 'active' })
  expect(takenOf('late')).toBe(1)
})

test('a renewal that waits is past due; confirmed, it goes on', async () => {
  const { id } = await askedOnRenewal('renews')
  expect(await world.subscription(id)).toMatchObject({ status: 'past_due', access: true })
  expect(await newest('renews')).toMatchObject({
    status: 'open',
    attempt_count: 1,
    next_action: { type: 'authenticate', client_secret: expect.any(String) },
  })
  world.script.confirm(await referenceOf('renews'))
  await sweep()
  expect(await world.subscription(id)).toMatchObject({ status: 'active' })
  expect(takenOf('renews')).toBe(2)
})

test('dunning ends the waiting attempt before each new one, and gives up after the last', async () => {
  const { id } = await askedOnRenewal('never')
  const first = (await newest('never')).payments[0]
  await world.advanceTo(inDays(1.01))
  expect(world.script.confirm(first.reference)).toBe(false)
  const second = await newest('never')
  expect(second).toMatchObject({ attempt_count: 2, next_action: expect.any(Object) })
  expect(second.payments).toMatchObject([
    { status: 'failed', failure_code: 'authentication_required' },
    { status: 'pending' },
  ])
  await world.advanceTo(inDays(8))
  const last = await newest('never')
  expect(last).toMatchObject({ status: 'uncollectible', attempt_count: 5, next_action: null })
  const ended = [...world.script.book.values()].filter(
    (one) => one.accountId === 'never' && one.status === 'canceled',
  )
  expect(ended).toHaveLength(5)
  expect(await world.subscription(id)).toMatchObject({ status: 'canceled', cancel_reason: 'payment_failed' })
  expect(takenOf('never')).toBe(1)
})

test('while the end is not confirmed there is no new attempt; once it is, there is', async () => {
  const { id, card } = await askedOnRenewal('doubted')
  world.script.nextCancels('unknown', 'lost_answer')
  await world.advanceTo(inDays(1.01))
  expect((await newest('doubted')).payments).toHaveLength(1)
  await sweep()
  // It was ended, only nobody heard of it: the lookup says so.
  world.script.askCustomer(card, false)
  await sweep()
  await sweep()
  expect(await newest('doubted')).toMatchObject({
    status: 'paid',
    payments: [{ status: 'failed' }, { status: 'succeeded' }],
  })
  expect(await world.subscription(id)).toMatchObject({ status: 'active' })
  expect(takenOf('doubted')).toBe(2)
})

test('another card ends the waiting attempt first; where the customer was faster, it is not charged', async () => {
  const slow = await askedOnRenewal('slow')
  const old = await referenceOf('slow')
  const change = (id: string) =>
    world.post('/payment-method', { subscription_id: id, payment_method: { billing_key: 'bk_test_other' } })
  expect(await change(slow.id)).toMatchObject({ status: 200, data: { status: 'active', next_action: null } })
  expect(world.script.confirm(old)).toBe(false)
  expect(takenOf('slow')).toBe(2)

  const fast = await askedOnRenewal('fast')
  world.script.hooks.beforeCancel = async (reference) => void world.script.confirm(reference)
  expect(await change(fast.id)).toMatchObject({ status: 200, data: { status: 'active' } })
  world.script.hooks.beforeCancel = async () => {}
  expect((await newest('fast')).payments).toMatchObject([{ status: 'succeeded' }])
  expect(takenOf('fast')).toBe(2)

  const unsure = await askedOnRenewal('unsure')
  world.script.nextCancels('unknown')
  expect((await change(unsure.id)).status).toBe(202)
  expect((await newest('unsure')).payments).toHaveLength(1)
  await sweep()
  await sweep()
  expect(await world.subscription(unsure.id)).toMatchObject({ status: 'active' })
  expect(takenOf('unsure')).toBe(2)
})

test('an offered card that asks its customer is kept once they confirm', async () => {
  const { id } = await askedOnRenewal('offers')
  const offered = asksCard()
  world.script.askCustomer(offered)
  const answer = await world.post('/payment-method', {
    subscription_id: id,
    payment_method: { billing_key: offered },
  })
  expect(answer).toMatchObject({ status: 202, data: { status: 'past_due', next_action: expect.any(Object) } })
  world.script.confirm(await referenceOf('offers'))
  await sweep()
  expect(await world.subscription(id)).toMatchObject({ status: 'active' })
  expect(takenOf('offers')).toBe(2)
})

test('an offered card that asks its customer in vain brings no retry of one that was stolen', async () => {
  const card = asksCard()
  const { data } = await world.subscribe('robbed', { card })
  world.script.declineCard(card, 'lost_or_stolen')
  await world.advanceTo(data.next_billing_at)
  const charged: string[] = []
  world.script.hooks.beforeCharge = async ({ billingKey }) => void charged.push(billingKey)
  const offered = asksCard()
  world.script.askCustomer(offered)
  const id = data.subscription_id
  const answer = await world.post('/payment-method', {
    subscription_id: id,
    payment_method: { billing_key: offered },
  })
  expect([answer.status, answer.data.status]).toEqual([202, 'past_due'])
  await world.advanceTo(inDays(6))
  await sweep()
  expect(await newest('robbed')).toMatchObject({ status: 'open', next_action: null, next_attempt_at: null })
  await world.advanceTo(inDays(2))
  world.script.hooks.beforeCharge = async () => {}
  expect(await world.subscription(id)).toMatchObject({ status: 'canceled', cancel_reason: 'payment_failed' })
  expect(charged).toContain(offered)
  expect(charged).not.toContain(card)
})

test('a cancellation ends the waiting attempt too, and what was confirmed meanwhile goes back', async () => {
  const { id } = await askedOnRenewal('leaves')
  expect((await world.post('/cancel', { subscription_id: id })).data.status).toBe('canceled')
  expect(world.script.confirm(await referenceOf('leaves'))).toBe(false)
  expect(await newest('leaves')).toMatchObject({ status: 'void', next_action: null })

  const torn = await askedOnRenewal('torn')
  const reference = await referenceOf('torn')
  world.script.hooks.beforeCancel = async () => void world.script.confirm(reference)
  await world.post('/cancel', { subscription_id: torn.id })
  world.script.hooks.beforeCancel = async () => {}
  await sweep()
  expect(world.script.book.get(reference)).toMatchObject({
    status: 'paid',
    refunds: [{ status: 'succeeded' }],
  })
})

test('a lost answer is found waiting, and a new vault key opens what was kept', async () => {
  const card = asksCard()
  world.script.nextCharges({ kind: 'lost_answer' })
  world.script.askCustomer(card)
  const answer = await world.subscribe('lost', { card })
  expect(answer).toMatchObject({ status: 202, data: { next_action: { client_secret: expect.any(String) } } })
  expect((await reseal(world.app)).checked).toBeGreaterThan(0)
  world.script.confirm(await referenceOf('lost'))
  await sweep()
  expect(await newest('lost')).toMatchObject({ status: 'paid' })
})

/** A first charge whose requests are lost until the attempt is given up; then one arrives, and waits for its customer. */
async function arrivesTooLate(account: string): Promise<string> {
  world.script.nextCharges(...Array.from({ length: 20 }, () => ({ kind: 'lost_request' as const })))
  await world.subscribe(account)
  await world.advanceTo(inMs(dayMs + 3_700_000))
  world.script.forgetPlays()
  const invoice = await newest(account)
  expect(invoice).toMatchObject({ status: 'void', payments: [{ failure_code: 'never_arrived' }] })
  const { reference } = invoice.payments[0]
  world.script.book.set(reference, {
    reference,
    accountId: account,
    amount: { minor: 9900n, currency: 'KRW' },
    status: 'awaiting',
    code: null,
    at: world.app.clock(),
    refunds: [],
    dispute: null,
  })
  return reference
}

test('what arrives after it was given up and waits for its customer is ended by reconciling', async () => {
  const reference = await arrivesTooLate('arrives')
  const reconcile = () => reconcilePayments(world.app, inDays(-2), inDays(1))
  world.script.nextCancels('unknown')
  expect((await reconcile()).differences).toMatchObject([{ kind: 'status', reference }])
  expect(await reconcile()).toMatchObject({ differences: [], repaired: [{ kind: 'status', reference }] })
  expect(world.script.confirm(reference)).toBe(false)
  expect(await reconcile()).toMatchObject({ differences: [], repaired: [] })
})

test('what is confirmed while it is ended goes back', async () => {
  const reference = await arrivesTooLate('confirms')
  world.script.hooks.beforeCancel = async () => void world.script.confirm(reference)
  await reconcilePayments(world.app, inDays(-2), inDays(1))
  world.script.hooks.beforeCancel = async () => {}
  await sweep()
  expect(world.script.book.get(reference)).toMatchObject({
    status: 'paid',
    refunds: [{ status: 'succeeded' }],
  })
})

test('a charge that was held up until it was given up does not wait for its customer', async () => {
  const card = asksCard()
  world.script.askCustomer(card)
  let letGo = () => {}
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  world.script.hooks.beforeCharge = async () => {
    world.script.hooks.beforeCharge = async () => {}
    await held
  }
  const sent = world.script.calls.charge
  const asking = world.subscribe('held', { card })
  await expect.poll(() => world.script.calls.charge).toBe(sent + 1)
  world.script.nextCharges(...Array.from({ length: 20 }, () => ({ kind: 'lost_request' as const })))
  // Its key is no longer known, and lookups over more than an hour find nothing.
  for (const minutes of [0, 1_445, 40, 40, 40]) {
    await world.advanceTo(inMs(minutes * 60_000))
    await sweep()
  }
  world.script.forgetPlays()
  const reference = await referenceOf('held')
  expect(await newest('held')).toMatchObject({ status: 'void' })
  letGo()
  await asking
  await expect.poll(() => world.script.book.get(reference)?.status).toBe('canceled')
})
