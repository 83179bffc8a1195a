import { afterEach, expect, test } from 'vitest'
import { settleFromProvider } from '../../src/billing/collection/settle-from-provider.ts'
import { sendRefund } from '../../src/billing/refunds/send-refund.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

test('money taken without an answer is found by one lookup before the caller is answered', async () => {
  world = await openBillingWorld()
  world.script.nextCharges({ kind: 'lost_answer' })
  expect(await world.subscribe('acct_1')).toMatchObject({ status: 201, data: { status: 'active' } })
  expect(world.script.calls.charge).toBe(1)
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })
})

test('while nobody knows, the answer is 202; once the provider speaks it becomes final and stays', async () => {
  world = await openBillingWorld()
  world.script.state.silent = true
  const first = await world.subscribe('acct_1', { key: 'k' })
  expect(first).toMatchObject({
    status: 202,
    data: { status: 'incomplete', access: false, next_billing_at: '2026-04-05T09:00:00.000+09:00' },
  })
  expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(202)
  expect(await world.subscribe('acct_1', { key: 'other' })).toMatchObject({ status: 409 })

  world.script.state.silent = false
  await world.forgetLeases()
  await world.runDue()
  const settled = await world.subscribe('acct_1', { key: 'k' })
  expect(settled).toMatchObject({ status: 201, data: { status: 'active' } })
  expect((await world.subscribe('acct_1', { key: 'k' })).text).toBe(settled.text)
  expect(world.script.book.size).toBe(1)
  expect(new Set([...world.script.book.keys()]).size).toBe(1)
  expect((await world.invoices('acct_1'))[0].payments).toHaveLength(1)
})

test('a request that never arrived is sent again under its own key and charges once', async () => {
  world = await openBillingWorld()
  world.script.nextCharges({ kind: 'lost_request' })
  expect((await world.subscribe('acct_1')).status).toBe(202)
  await world.runDue()
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
  expect(world.script.calls.charge).toBe(2)
  expect(world.script.book.size).toBe(1)
})

test('after the key window and three lookups over an hour a first charge never arrived, and nothing remains', async () => {
  world = await openBillingWorld()
  world.script.nextCharges(...Array.from({ length: 20 }, () => ({ kind: 'lost_request' as const })))
  const { data } = await world.subscribe('acct_1', { key: 'k' })
  await world.advanceTo('2026-03-06T09:59:59+09:00')
  expect((await world.subscription(data.subscription_id)).status).toBe('incomplete')
  const sent = world.script.calls.charge
  await world.advanceTo('2026-03-06T10:00:00+09:00')
  expect(world.script.calls.charge).toBe(sent)
  expect(await world.subscription(data.subscription_id)).toMatchObject({
    status: 'canceled',
    cancel_reason: 'provider_error',
  })
  expect(await world.invoices('acct_1')).toMatchObject([
    { status: 'void', payments: [{ status: 'failed', failure_code: 'never_arrived' }] },
  ])
  expect(await world.subscribe('acct_1', { key: 'k' })).toMatchObject({ status: 502 })
})

test('money found after its attempt was given up goes back in full by itself', async () => {
  world = await openBillingWorld()
  world.script.nextCharges(...Array.from({ length: 20 }, () => ({ kind: 'lost_request' as const })))
  await world.subscribe('acct_1')
  await world.advanceTo('2026-03-06T10:00:00+09:00')
  const { reference } = (await world.invoices('acct_1'))[0].payments[0]
  const amount = { minor: 9900n, currency: 'KRW' as const }
  world.script.book.set(reference, {
    reference,
    accountId: 'acct_1',
    amount,
    status: 'paid',
    code: null,
    refunds: [],
    at: world.app.clock(),
    dispute: null,
  })
  await settleFromProvider(world.app, reference)
  await settleFromProvider(world.app, reference)
  expect(await world.books()).toEqual({ provider: 9900, unclaimed: -9900 })
  await world.runDue()
  expect(await world.books()).toEqual({ provider: 0, unclaimed: 0 })
  expect(world.script.balance('KRW')).toBe(0n)
  expect(await world.invoices('acct_1')).toMatchObject([
    { status: 'void', amount_paid: 0, refunds: [{ status: 'succeeded', amount: 9900 }] },
  ])
})

test('canceling while the first charge is in doubt ends it at once, and money that was taken goes back', async () => {
  world = await openBillingWorld()
  world.script.hooks.afterCharge = async () => {
    world.script.state.silent = true
  }
  world.script.nextCharges({ kind: 'lost_answer' })
  const { status, data } = await world.subscribe('acct_1', { key: 'k' })
  expect(status).toBe(202)
  expect(await world.post('/cancel', { subscription_id: data.subscription_id })).toMatchObject({
    status: 200,
    data: { status: 'canceled' },
  })
  expect((await world.invoices('acct_1'))[0].status).toBe('void')
  world.script.state.silent = false
  await world.forgetLeases()
  await world.runDue()
  await world.runDue()
  expect(world.script.balance('KRW')).toBe(0n)
  expect(await world.books()).toEqual({ provider: 0, unclaimed: 0 })
  expect((await world.subscription(data.subscription_id)).status).toBe('canceled')
  expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(409)
})

test('a renewal without an answer keeps access and is settled by itself, once', async () => {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1')).data.subscription_id
  world.script.nextCharges({ kind: 'lost_answer' })
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect((await world.invoices('acct_1')).map((one: { status: string }) => one.status)).toEqual([
    'paid',
    'paid',
  ])
  world.script.nextCharges({ kind: 'lost_request' })
  await world.advanceTo('2026-05-05T09:00:00+09:00')
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
  expect((await world.subscription(id)).status).toBe('active')
  expect(world.script.book.size).toBe(3)
})

test('a renewal that cannot be sent waits and goes out as soon as the provider is back', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  world.script.nextCharges({ kind: 'not_sent' })
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect((await world.invoices('acct_1'))[0].status).toBe('open')
  await world.forgetLeases()
  await world.runDue()
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
  expect(world.script.calls.findPayment).toBe(0)
})

test('a process that dies after the charge and before the record leaves work that is found and not repeated', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  world.script.hooks.afterCharge = async () => {
    throw new Error('the process is gone')
  }
  world.skipTo('2026-04-05T09:00:00+09:00')
  await world.runDue()
  expect((await world.invoices('acct_1'))[0].status).toBe('open')
  world.script.hooks.afterCharge = async () => {}
  await world.runDue()
  expect((await world.invoices('acct_1'))[0].status).toBe('open') // its wait still runs
  await world.forgetLeases()
  await world.runDue()
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
  expect(world.script.book.size).toBe(2)
  expect(world.script.calls.charge).toBe(2)
})

test('a subscribe whose process died is continued by the repeat, with the same key and no second charge', async () => {
  world = await openBillingWorld()
  world.script.hooks.afterCharge = async () => {
    throw new Error('the process is gone')
  }
  // The request ends as the fault it is, and nothing of it is kept that a repeat could get.
  expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(500)
  expect(world.faults.splice(0)).toHaveLength(1)
  world.script.hooks.afterCharge = async () => {}
  await world.forgetLeases()
  const repeated = await world.subscribe('acct_1', { key: 'k' })
  expect(repeated).toMatchObject({ status: 201, data: { status: 'active' } })
  expect(world.script.book.size).toBe(1)
})

test('canceling while a lost request is in doubt sends nothing more, also when the provider is back', async () => {
  world = await openBillingWorld()
  world.script.state.silent = true
  const { data } = await world.subscribe('acct_1')
  await world.post('/cancel', { subscription_id: data.subscription_id })
  world.script.state.silent = false
  const sent = world.script.calls.charge
  await world.forgetLeases()
  await world.advanceTo('2026-03-07T00:00:00+09:00')
  expect(world.script.calls.charge).toBe(sent)
  expect(world.script.book.size).toBe(0)
  expect(await world.invoices('acct_1')).toMatchObject([
    { status: 'void', payments: [{ status: 'failed', failure_code: 'never_arrived' }] },
  ])
})

test('a charge that takes long is answered 202 in time; repeats wait for it and send nothing themselves', async () => {
  world = await openBillingWorld({ terms: { answerWithinMs: 50 } })
  let answer = () => {}
  const held = new Promise<void>((resolve) => {
    answer = resolve
  })
  world.script.hooks.beforeCharge = () => held
  expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(202)
  expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(202)
  await world.runDue()
  expect(world.script.calls.charge).toBe(1)
  expect(world.script.calls.findPayment).toBe(0)
  answer()
  await expect.poll(async () => (await world.invoices('acct_1'))[0].status).toBe('paid')
  expect(await world.subscribe('acct_1', { key: 'k' })).toMatchObject({
    status: 201,
    data: { status: 'active' },
  })
  expect(world.script.calls.charge).toBe(1)
})

const won = (minor: bigint) => ({ minor, currency: 'KRW' as const })

/** A charge whose answer is lost; then somebody gives a part of it back by hand, the bank takes the rest, and nobody tells us. */
async function meetsTroubleInDoubt(): Promise<string> {
  world = await openBillingWorld()
  world.script.hooks.afterCharge = async () => {
    world.script.state.silent = true
  }
  world.script.nextCharges({ kind: 'lost_answer' })
  expect((await world.subscribe('acct_1')).status).toBe(202)
  world.script.hooks.afterCharge = async () => {}
  world.script.state.silent = false
  const [reference] = world.script.book.keys()
  world.script.book.get(reference!)!.refunds.push({ reference: null, amount: won(400n), status: 'succeeded' })
  world.script.dispute(reference!, 'lost', world.app.clock())
  return reference!
}

async function expectAllOfIt() {
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, refunds: 400, disputes: 9500 })
  expect(await world.invoices('acct_1')).toMatchObject([
    { status: 'partially_refunded', amount_refunded: 400, payments: [{ dispute: { status: 'lost' } }] },
  ])
}

test('a payment that a lookup takes out of doubt brings along what became of it meanwhile', async () => {
  await meetsTroubleInDoubt()
  await world.forgetLeases()
  await world.runDue()
  await expectAllOfIt()
})

test('so does one that a repeated send takes out of doubt, because its search lags', async () => {
  const reference = await meetsTroubleInDoubt()
  const { findPayment, charge } = world.script.provider
  world.script.provider.findPayment = async (asked, providerId) =>
    providerId === null ? { kind: 'none' } : findPayment(asked, providerId)
  // A replay is the answer of then.
  world.script.provider.charge = async (request) => {
    const answer = await charge(request)
    if (answer.kind !== 'done') return answer
    return { kind: 'done', payment: { ...answer.payment, refunded: won(0n), refunds: [], dispute: null } }
  }
  await world.forgetLeases()
  await world.runDue()
  expect([...world.script.book.keys()]).toEqual([reference])
  await expectAllOfIt()
})

test('a refund that a lookup takes out of doubt brings along what else went back meanwhile', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  const [invoice] = await world.invoices('acct_1')
  world.script.hooks.beforeRefund = async () => {
    world.script.state.silent = true
  }
  expect((await world.post('/refund', { invoice_id: invoice.invoice_id, amount: 400 })).status).toBe(202)
  world.script.hooks.beforeRefund = async () => {}
  world.script.state.silent = false
  const record = world.script.book.get(invoice.payments[0].reference)!
  const [sent] = await world.rows<{ name: string }>('select provider_reference as name from billing.refund')
  record.refunds.push({ reference: sent!.name, amount: won(400n), status: 'succeeded' })
  record.refunds.push({ reference: null, amount: won(4700n), status: 'succeeded' })
  await world.forgetLeases()
  await world.runDue()
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ amount_refunded: 5100 })
  expect(await world.books()).toEqual({ provider: 4800, revenue: -9900, refunds: 5100 })
})

test('a refund that is taken out of doubt by an answer from before another one failed does not count that one once more', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  const [invoice] = await world.invoices('acct_1')
  const refund = (amount: number) => world.post('/refund', { invoice_id: invoice.invoice_id, amount })
  expect((await refund(900)).status).toBe(200)
  const { provider, state, book } = world.script
  const { refund: give } = provider
  provider.refund = async (request) => {
    await give(request)
    state.silent = true
    return { kind: 'unknown' }
  }
  const { data } = await refund(400)
  provider.refund = give
  state.silent = false

  const { read, arrive } = world.script.slowNextLookup()
  await world.forgetLeases()
  const resolving = sendRefund(world.app, data.refund_id)
  await read
  const { reference } = invoice.payments[0]
  book.get(reference)!.refunds[0]!.status = 'failed'
  await settleFromProvider(world.app, reference)
  arrive()
  expect(await resolving).toBe('settled')
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ amount_refunded: 400 })
  expect(await world.books()).toEqual({ provider: 9500, revenue: -9900, refunds: 400 })
})
