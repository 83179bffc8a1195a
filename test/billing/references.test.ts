import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { chargeHeldInvoice } from '../../src/billing/collection/charge-held-invoice.ts'
import { sendRefund } from '../../src/billing/refunds/send-refund.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
beforeEach(async () => {
  world = await openBillingWorld()
})
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

const unrecordedDecline = { kind: 'decline_unrecorded', code: 'insufficient_funds' } as const

type Sent = { reference: string }
const references = () =>
  world.rows<Sent>('select provider_reference as reference from billing.payment order by attempt, id')

/** The provider has taken this money already, for a database that is lost. */
async function takenBefore(place: { k: number; attempt: number }): Promise<string> {
  const [row] = await world.rows<Sent>(
    'select billing.charge_reference(id, $1::int, $2::int) as reference from billing.subscription',
    [place.k, place.attempt],
  )
  const [record] = world.script.book.values()
  world.script.book.set(row!.reference, { ...record!, reference: row!.reference, refunds: [] })
  return row!.reference
}

/** Of a subscription that a backup still knows, with a one-time key that somebody has used since. */
async function subscribeWithSpentKey(): Promise<string> {
  await world.rows(`update billing.installation set lookup_first_before = '2026-03-05T09:00:30+09:00'`)
  const { status } = await world.post('/subscribe', {
    account_id: 'acct_1',
    plan_id: 'starter-monthly',
    payment_method: { auth_key: 'ak_spent', customer_key: 'customer_1' },
  })
  expect(status).toBe(202)
  const [{ reference }] = (await references()) as [Sent]
  return reference
}

describe('the provider’s key is derived from the obligation’s place', () => {
  test('each attempt of a period has its own, in a form that every provider takes, and the book carries it', async () => {
    await world.subscribe('acct_1')
    world.script.declineCard('bk_test_ok', 'insufficient_funds')
    await world.advanceTo('2026-04-07T09:00:00+09:00')
    const sent = (await references()).map(({ reference }) => reference)
    expect(sent).toHaveLength(3)
    expect(new Set(sent).size).toBe(3)
    for (const reference of sent) expect(reference).toMatch(/^rl_[0-9a-f]{40}$/)
    expect([...world.script.book.keys()].sort()).toEqual([...sent].sort())
    const shown = (await world.invoices('acct_1')).flatMap((one: { payments: Sent[] }) => one.payments)
    expect(shown.map(({ reference }: Sent) => reference).sort()).toEqual([...sent].sort())
  })

  test('installation, subscription, period and number are all that it depends on', async () => {
    await world.subscribe('acct_1')
    const [place] = await world.rows<{ installation: string; subscription: string }>(
      'select i.id as installation, s.id as subscription from billing.installation i, billing.subscription s',
    )
    const words = `charge ${place!.installation} ${place!.subscription} 0 1`
    const hash = createHash('sha256').update(words).digest('hex').slice(0, 40)
    expect(await references()).toEqual([{ reference: `rl_${hash}` }])
  })

  test.each([
    ['is done', 'succeeded', 300],
    ['comes back, so that more is left', 'failed', 200],
  ] as const)(
    'the n-th refund of a payment has its own, and every send of it says the same, also if the one before it %s',
    async (_, became, gone) => {
      await world.subscribe('acct_1')
      const [invoice] = await world.invoices('acct_1')
      const asked: unknown[] = []
      world.script.hooks.beforeRefund = async (request) => void asked.push(request)
      const refund = (amount: number) => world.post('/refund', { invoice_id: invoice.invoice_id, amount })
      world.script.nextRefunds({ kind: 'pending' }, { kind: 'lost_request' })
      const { data: before } = await refund(100)
      expect((await refund(200)).status).toBe(202)
      ;[...world.script.book.values()][0]!.refunds[0]!.status = became
      expect(await sendRefund(world.app, before.refund_id)).toBe('settled')
      await world.forgetLeases()
      await world.runDue()
      expect((await world.invoices('acct_1'))[0].amount_refunded).toBe(gone)
      expect(asked).toHaveLength(3)
      expect(asked[2]).toEqual(asked[1])
      const [first, second] = asked as { key: string }[]
      expect(first!.key).toMatch(/^rl_[0-9a-f]{40}$/)
      expect(second!.key).not.toBe(first!.key)
    },
  )
})

describe('what may have been sent before is looked up before its first send', () => {
  test('a renewal that comes more than an hour late and that the provider knows is recorded, not charged again', async () => {
    await world.subscribe('acct_1')
    const reference = await takenBefore({ k: 1, attempt: 1 })
    world.skipTo('2026-04-12T09:00:00+09:00')
    await world.runDue()
    expect(world.script.calls.charge).toBe(1)
    expect((await world.invoices('acct_1'))[0]).toMatchObject({
      status: 'paid',
      payments: [{ reference, status: 'succeeded' }],
    })
    expect(await world.books()).toEqual({ provider: 19_800, revenue: -19_800 })
  })

  test('soon after a restore everything that was due before it is looked up, late or not', async () => {
    await world.subscribe('acct_1')
    await takenBefore({ k: 1, attempt: 1 })
    await world.rows(`update billing.installation set lookup_first_before = '2026-04-05T09:00:30+09:00'`)
    world.skipTo('2026-04-05T09:01:00+09:00')
    await world.runDue()
    expect(world.script.calls.charge).toBe(1)
    expect((await world.invoices('acct_1'))[0].status).toBe('paid')
  })

  test('a retry that a lost database had made with another card is found', async () => {
    await world.subscribe('acct_1')
    world.script.declineCard('bk_test_ok', 'insufficient_funds')
    await world.advanceTo('2026-04-05T09:00:00+09:00')
    await takenBefore({ k: 1, attempt: 2 })
    await world.advanceTo('2026-04-06T09:00:00+09:00')
    expect(await world.rows('select status from billing.subscription')).toEqual([{ status: 'active' }])
    expect(world.script.calls.charge).toBe(2)
  })

  test('a late one that the provider does not know is charged once, and nothing is sent while nobody answers', async () => {
    await world.subscribe('acct_1')
    world.skipTo('2026-04-05T10:00:01+09:00')
    world.script.state.silent = true
    const { charge, findPayment } = { ...world.script.calls }
    await world.runDue()
    expect(world.script.calls).toMatchObject({ charge, findPayment: findPayment + 1 })
    expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'open', attempt_count: 1 })
    expect(await world.rows('select status from billing.subscription')).toEqual([{ status: 'active' }])
    world.script.state.silent = false
    await world.forgetLeases()
    await world.runDue()
    expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
    expect(world.script.balance('KRW')).toBe(19_800n)
  })

  test('a "no" soon after a restore is no proof: what the lost database sent may still be running', async () => {
    await world.subscribe('acct_1')
    await world.rows(`update billing.installation set lookup_first_before = '2026-04-05T09:00:30+09:00'`)
    world.script.nextCharges(...Array.from({ length: 9 }, () => unrecordedDecline))
    world.skipTo('2026-04-05T09:01:00+09:00')
    await world.runDue()
    expect((await world.rows('select status from billing.payment order by id desc limit 1'))[0]).toEqual({
      status: 'unknown',
    })
    await takenBefore({ k: 1, attempt: 1 })
    await world.advanceTo('2026-04-05T09:40:00+09:00')
    expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
    expect(world.script.balance('KRW')).toBe(19_800n)
  })

  test('a card that is gone may have paid for a database since lost', async () => {
    await world.subscribe('acct_1')
    await world.rows(`update billing.installation set lookup_first_before = '2026-04-05T09:00:30+09:00'`)
    await world.rows('update billing.payment_method set sealed = null')
    world.skipTo('2026-04-05T09:01:00+09:00')
    await world.runDue()
    await takenBefore({ k: 1, attempt: 1 })
    await world.advanceTo('2026-04-05T11:00:00+09:00')
    expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
  })

  test('a one-time key that cannot be exchanged may have been spent, and charged, by a database since lost', async () => {
    const reference = await subscribeWithSpentKey()
    await world.forgetLeases()
    await world.runDue()
    expect(await world.rows('select status from billing.payment')).toEqual([{ status: 'unknown' }])

    const amount = { minor: 9900n, currency: 'KRW' } as const
    const at = new Date('2026-03-05T09:00:10+09:00')
    const charge = { reference, accountId: 'acct_1', amount, at, code: null, refunds: [], dispute: null }
    world.script.book.set(reference, { ...charge, status: 'paid' })
    await world.advanceTo('2026-03-05T11:00:00+09:00')
    expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
  })

  test('a one-time key that cannot be exchanged after a restore ends its attempt once nothing can arrive any more', async () => {
    await subscribeWithSpentKey()
    await world.advanceTo('2026-03-06T11:00:00+09:00')
    expect(await world.rows('select status, code from billing.payment')).toEqual([
      { status: 'failed', code: 'never_arrived' },
    ])
    expect(await world.rows('select status from billing.subscription')).toEqual([{ status: 'canceled' }])
  })

  test('a "no" soon after a restore counts once it was said for an hour', async () => {
    await world.subscribe('acct_1')
    await world.rows(`update billing.installation set lookup_first_before = '2026-04-05T09:00:30+09:00'`)
    world.script.nextCharges(...Array.from({ length: 9 }, () => unrecordedDecline))
    world.skipTo('2026-04-05T09:01:00+09:00')
    await world.runDue()
    await world.advanceTo('2026-04-05T12:00:00+09:00')
    expect(await world.rows('select status from billing.subscription')).toEqual([{ status: 'past_due' }])
  })

  test('a refund whose number a lost refund of another amount has is turned down, and the next one has the next number', async () => {
    await world.subscribe('acct_1')
    const [invoice] = await world.invoices('acct_1')
    const record = world.script.book.get(invoice.payments[0].reference)!
    const [lost] = await world.rows<Sent>(
      `select billing.refund_reference('${invoice.payments[0].reference}', 1) as reference`,
    )
    const amount = { minor: 100n, currency: record.amount.currency }
    record.refunds.push({ reference: lost!.reference, amount, status: 'failed' })
    await world.rows(`update billing.installation set lookup_first_before = '2026-04-05T09:00:30+09:00'`)
    const refund = () => world.post('/refund', { invoice_id: invoice.invoice_id, amount: 400 })
    expect(await refund()).toMatchObject({ status: 402, body: { error: { code: 'refund_declined' } } })
    expect(await refund()).toMatchObject({ status: 200, body: { data: { amount: 400 } } })
    expect(await world.rows('select from platform.alarm')).toEqual([])
  })

  test('a refund in doubt ends once a lost refund of another amount is seen to have its number', async () => {
    await world.subscribe('acct_1')
    const [invoice] = await world.invoices('acct_1')
    const record = world.script.book.get(invoice.payments[0].reference)!
    await world.rows(`update billing.installation set lookup_first_before = '2026-04-05T09:00:30+09:00'`)
    const refund = () => world.post('/refund', { invoice_id: invoice.invoice_id, amount: 400 })
    world.script.nextRefunds({ kind: 'lost_request' })
    expect((await refund()).status).toBe(202)
    const [ours] = await world.rows<Sent>('select provider_reference as reference from billing.refund')
    const amount = { minor: 100n, currency: record.amount.currency }
    record.refunds.push({ reference: ours!.reference, amount, status: 'failed' })

    await world.forgetLeases()
    await world.runDue()
    expect(await world.rows('select status, code from billing.refund')).toEqual([
      { status: 'failed', code: 'refund_declined' },
    ])
    expect(await refund()).toMatchObject({ status: 200, body: { data: { amount: 400 } } })
    expect(await world.rows('select from platform.alarm')).toEqual([])
  })

  test('a refund for which a lost one of another number left no room is not asked for, and the lost one is recorded', async () => {
    await world.subscribe('acct_1')
    const [invoice] = await world.invoices('acct_1')
    const record = world.script.book.get(invoice.payments[0].reference)!
    const [lost] = await world.rows<Sent>(
      `select billing.refund_reference('${invoice.payments[0].reference}', 2) as reference`,
    )
    record.refunds.push({ reference: lost!.reference, amount: record.amount, status: 'succeeded' })
    await world.rows(`update billing.installation set lookup_first_before = '2026-04-05T09:00:30+09:00'`)
    expect(await world.post('/refund', { invoice_id: invoice.invoice_id, amount: 400 })).toMatchObject({
      status: 402,
      body: { error: { code: 'refund_declined' } },
    })
    expect(world.script.calls.refund).toBe(0)
    expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'refunded', amount_refunded: 9900 })
    expect(await world.rows('select n, amount, origin, status from billing.refund order by n')).toEqual([
      { n: 1, amount: 400n, origin: 'request', status: 'failed' },
      { n: 2, amount: 9900n, origin: 'provider', status: 'succeeded' },
    ])
  })

  test('a refund that is turned down soon after a restore waits until that proves something', async () => {
    await world.subscribe('acct_1')
    const [invoice] = await world.invoices('acct_1')
    await world.rows(`update billing.installation set lookup_first_before = '2026-04-05T09:00:30+09:00'`)
    world.script.nextRefunds({ kind: 'declined' })
    expect((await world.post('/refund', { invoice_id: invoice.invoice_id })).status).toBe(202)
  })

  test('one in time is not looked up', async () => {
    await world.subscribe('acct_1')
    await world.advanceTo('2026-04-05T09:59:00+09:00')
    expect(world.script.calls).toMatchObject({ charge: 2, findPayment: 0 })
  })

  test('an invoice that was held back is looked up when an operator charges it', async () => {
    await world.subscribe('acct_1')
    world.skipTo('2026-06-06T09:00:00+09:00')
    await world.runDue()
    const looks = world.script.calls.findPayment
    const [held] = await world.rows<{ id: string }>('select id from billing.invoice where hold is not null')
    expect(await chargeHeldInvoice(world.app, held!.id, 'operator')).toBe('paid')
    expect(world.script.calls.findPayment).toBe(looks + 1)
  })
})
