import { afterEach, expect, test } from 'vitest'
import { settleFromProvider } from '../../src/billing/collection/settle-from-provider.ts'
import { type BillingWorld, openBillingWorld } from '../billing/billing-world.ts'

// What the simulation found, told as short stories.

const lost = (count: number) => Array.from({ length: count }, () => ({ kind: 'lost_request' as const }))

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

test('a refund by hand of the very amount that ours was to give back is recorded once ours has failed', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  const [invoice] = await world.invoices('acct_1')
  const { reference } = invoice.payments[0]
  world.script.nextRefunds(...lost(20))
  await world.post('/refund', { invoice_id: invoice.invoice_id })
  const record = world.script.book.get(reference)!
  record.refunds.push({ reference: 'by-hand', amount: record.amount, status: 'succeeded' })

  // It leaves no room for ours, which therefore cannot arrive any more.
  expect(await settleFromProvider(world.app, reference)).toBe('settled')
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'refunded', amount_refunded: 9900 })
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, refunds: 9900 })
})

test('money that somebody else gave back is not taken for a refund of ours that never arrived', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  const [invoice] = await world.invoices('acct_1')
  const { reference } = invoice.payments[0]
  const record = world.script.book.get(reference)!
  const part = { minor: 4000n, currency: record.amount.currency }
  record.refunds.push({ reference: null, amount: part, status: 'succeeded' })
  world.script.nextRefunds(...lost(20))
  const body = { invoice_id: invoice.invoice_id, amount: 1900 }
  expect(await world.post('/refund', body, { key: 'k' })).toMatchObject({ status: 202 })

  await world.advanceTo('2026-03-06T11:00:00+09:00')
  expect((await world.post('/refund', body, { key: 'k' })).status).toBe(502)
  expect(await settleFromProvider(world.app, reference)).toBe('settled')
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ amount_refunded: 4000 })
  expect(await world.books()).toEqual({ provider: 5900, revenue: -9900, refunds: 4000 })
})

test('money for nothing of which somebody gave back a part by hand goes back in full all the same', async () => {
  world = await openBillingWorld()
  world.script.hooks.afterCharge = async () => {
    world.script.state.silent = true
  }
  world.script.nextCharges({ kind: 'lost_answer' })
  const { data } = await world.subscribe('acct_1')
  await world.post('/cancel', { subscription_id: data.subscription_id })
  world.script.state.silent = false
  const record = [...world.script.book.values()][0]!
  const part = { minor: 5000n, currency: record.amount.currency }
  record.refunds.push({ reference: 'by-hand', amount: part, status: 'succeeded' })
  world.script.nextRefunds(...lost(40))

  await world.forgetLeases()
  await world.runDue()
  await world.runDue()
  await world.advanceTo('2026-03-07T12:00:00+09:00')
  for (let round = 0; round < 45; round++) {
    await world.forgetLeases()
    await world.runDue()
  }
  expect(world.script.balance('KRW')).toBe(0n)
  expect(await world.books()).toEqual({ provider: 0, unclaimed: 0 })
})

test('a refund that arrives after it was given up is seen by the next one and recorded, though nobody tells of it', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  const [invoice] = await world.invoices('acct_1')
  const refund = (amount: number) => world.post('/refund', { invoice_id: invoice.invoice_id, amount })
  world.script.nextRefunds(...lost(60))
  await refund(9900)
  await world.advanceTo('2026-03-07T12:00:00+09:00')
  expect((await world.rows('select code from billing.refund'))[0]).toEqual({ code: 'never_arrived' })

  const record = world.script.book.get(invoice.payments[0].reference)!
  record.refunds.push({ reference: 'arrived-late', amount: record.amount, status: 'succeeded' })
  await refund(1)
  await world.advanceTo('2026-03-09T12:00:00+09:00')
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'refunded', amount_refunded: 9900 })
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, refunds: 9900 })
})

test('when a subscription ends unpaid, each invoice that is given up with it is told of', async () => {
  world = await openBillingWorld({ terms: { catchUpPeriods: 2 } })
  const { data } = await world.subscribe('acct_1')
  world.script.declineCard('bk_test_ok', 'insufficient_funds')
  world.skipTo('2026-05-06T09:00:00+09:00')
  await world.runDue()
  await world.advanceTo('2026-05-20T09:00:00+09:00')
  expect(await world.subscription(data.subscription_id)).toMatchObject({ status: 'canceled' })
  const given = (await world.invoices('acct_1')).filter(
    ({ status }: { status: string }) => status === 'uncollectible',
  )
  expect(given).toHaveLength(2)
  const told = await world.rows<{ invoice_id: string }>(
    `select data->>'invoice_id' as invoice_id from billing.event where type = 'invoice.uncollectible'`,
  )
  const ids = (list: { invoice_id: string }[]) => list.map(({ invoice_id }) => invoice_id).sort()
  expect(ids(told)).toEqual(ids(given))
})

test('a refund that the provider works on stays so while nobody answers, and does not stand in the way of the next', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  const [invoice] = await world.invoices('acct_1')
  const refund = (amount: number) => world.post('/refund', { invoice_id: invoice.invoice_id, amount })
  world.script.nextRefunds({ kind: 'pending' }, { kind: 'lost_request' })
  expect((await refund(1000)).status).toBe(202)
  expect((await refund(2000)).status).toBe(202)
  world.script.state.silent = true
  await world.forgetLeases()
  await world.runDue()
  const steps = await world.rows<{ step: string }>('select step from billing.refund order by id')
  expect(steps).toEqual([{ step: 'accepted' }, { step: 'unknown' }])
})

test('a refund of all in doubt, and a part that a lost database had given back by another number: the part is recorded once', async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  const [invoice] = await world.invoices('acct_1')
  const { reference } = invoice.payments[0]
  world.script.nextRefunds(...lost(20))
  await world.post('/refund', { invoice_id: invoice.invoice_id })
  const record = world.script.book.get(reference)!
  const [second] = await world.rows<{ reference: string }>(
    `select billing.refund_reference('${reference}', 2) as reference`,
  )
  const part = { minor: 900n, currency: record.amount.currency }
  record.refunds.push({ reference: second!.reference, amount: part, status: 'succeeded' })

  // All of the payment is set aside for ours, of which nothing can be learnt just now.
  const { findPayment } = world.script.provider
  world.script.provider.findPayment = async () => {
    world.script.provider.findPayment = findPayment
    return { kind: 'unknown' }
  }
  expect(await settleFromProvider(world.app, reference)).toBe('in_motion')
  // The part leaves no room for it, so it cannot arrive any more.
  expect(await settleFromProvider(world.app, reference)).toBe('settled')
  expect((await world.invoices('acct_1'))[0]).toMatchObject({ amount_refunded: 900 })
  expect(await world.books()).toEqual({ provider: 9000, revenue: -9900, refunds: 900 })
  expect(
    await world.rows('select n, provider_reference as reference, status from billing.refund order by n'),
  ).toEqual([
    { n: 1, reference: expect.any(String), status: 'failed' },
    { n: 2, reference: second!.reference, status: 'succeeded' },
  ])
  await world.post('/refund', { invoice_id: invoice.invoice_id })
  expect(await world.rows('select n, amount::int from billing.refund order by n desc limit 1')).toEqual([
    { n: 3, amount: 9000 },
  ])
})
