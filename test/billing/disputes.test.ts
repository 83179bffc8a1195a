import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { settleFromProvider } from '../../src/billing/collection/settle-from-provider.ts'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
let paymentId: string
let reference: string
let invoiceId: string
const at = (day: number) => new Date(`2026-03-${String(day).padStart(2, '0')}T00:00:00Z`)

beforeEach(async () => {
  world = await openBillingWorld()
  await world.subscribe('acct')
  const [invoice] = await world.invoices('acct')
  invoiceId = invoice.invoice_id
  paymentId = invoice.payments[0].payment_id
  const [payment] = await world.rows<{ provider_reference: string }>('select * from billing.payment')
  reference = payment!.provider_reference
})
afterEach(async () => {
  expect(await checkLedger(world.app.db)).toMatchObject({ faults: [] })
  expect(BigInt((await world.books())['provider']!)).toBe(world.script.balance('KRW'))
  expect(world.faults).toEqual([])
  await world.close()
})

const invoice = async () => (await world.get(`/invoices/${invoiceId}`)).data
const refund = (amount: number) => world.post('/refund', { invoice_id: invoiceId, amount })
const eventTypes = async () =>
  (
    await world.rows<{ type: string }>(
      `select type from billing.event where type like 'payment.%' order by id`,
    )
  ).map(({ type }) => type)
async function bankSays(status: 'open' | 'won' | 'lost', day: number, minor?: bigint) {
  world.script.dispute(reference, status, at(day), minor)
  // Being told twice changes nothing.
  for (let times = 0; times < 2; times++) await settleFromProvider(world.app, reference)
}

test('a dispute that is won leaves the payment refundable again', async () => {
  expect((await invoice()).payments[0]).toMatchObject({ disputed: false, dispute: null })
  await bankSays('open', 6, 5000n)
  expect((await invoice()).payments[0]).toMatchObject({
    disputed: true,
    dispute: { status: 'open', amount: 5000, opened_at: '2026-03-06T09:00:00.000+09:00', closed_at: null },
  })
  expect(await refund(100)).toMatchObject({ status: 409, body: { error: { code: 'payment_disputed' } } })
  await bankSays('won', 9)
  expect((await invoice()).payments[0]).toMatchObject({
    disputed: false,
    dispute: { status: 'won', closed_at: '2026-03-09T09:00:00.000+09:00' },
  })
  expect((await refund(100)).status).toBe(200)
  expect(await eventTypes()).toEqual(['payment.disputed', 'payment.dispute_won'])
  expect(await world.books()).toEqual({ provider: 9800, revenue: -9900, refunds: 100 })
})

test('a dispute that is lost is booked as money gone, and the invoice stays as issued', async () => {
  await refund(900)
  await bankSays('open', 6)
  await bankSays('lost', 9)
  expect(await invoice()).toMatchObject({
    status: 'partially_refunded',
    amount_paid: 9900,
    amount_refunded: 900,
    payments: [{ disputed: true, dispute: { status: 'lost', amount: 9000 } }],
  })
  expect(await refund(100)).toMatchObject({ status: 409, body: { error: { code: 'payment_disputed' } } })
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, refunds: 900, disputes: 9000 })
  expect(await world.rows('select cause from billing.ledger_transfer order by id offset 2')).toEqual([
    { cause: `dispute_lost:${paymentId}` },
  ])
  expect(await eventTypes()).toEqual(['payment.disputed', 'payment.dispute_lost'])
})

test('a bank that thinks again is followed, however often', async () => {
  for (const status of ['lost', 'won', 'lost', 'won'] as const) await bankSays(status, 9)
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900, disputes: 0 })
  await bankSays('lost', 12)
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, disputes: 9900 })
})

describe('what a record names in another currency than the payment’s is believed in nothing', () => {
  const dollars = { minor: 9900n, currency: 'USD' } as const
  const record = () => world.script.book.get(reference)!
  const alarms = async (): Promise<string[]> =>
    (await listAlarms(world.app.db, 10)).map(({ kind, subject }) => `${kind} ${subject.slice(0, 4)}`)
  const compared = async (): Promise<string[]> =>
    (await reconcilePayments(world.app, at(1), at(28))).differences.map(({ kind }) => kind)

  test.each<[string, 409 | 202, () => void]>([
    [
      'a dispute',
      409,
      () => {
        record().dispute = { status: 'lost', amount: dollars, openedAt: at(6), closedAt: at(9) }
      },
    ],
    [
      'what another dispute took before',
      409,
      () => {
        const amount = { minor: 5000n, currency: 'KRW' } as const
        const times = { openedAt: at(6), closedAt: null }
        record().dispute = { status: 'open', amount, ...times, alreadyLost: dollars }
      },
    ],
    [
      'a refund by hand',
      202,
      () => {
        const amount = { minor: 100n, currency: 'USD' } as const
        record().refunds.push({ reference: null, amount, status: 'succeeded' })
      },
    ],
  ])('%s: an alarm says so, the books differ, and nothing is booked', async (_, refundAnswer, happen) => {
    happen()
    expect(await settleFromProvider(world.app, reference)).toBe('not_known')
    expect(await alarms()).toEqual(['amount_differs pay_'])
    expect(await compared()).toEqual(['amount'])
    expect(await invoice()).toMatchObject({
      amount_refunded: 0,
      payments: [{ disputed: false, dispute: null }],
    })
    expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })
    expect(await eventTypes()).toEqual([])

    // Nor is anything concluded about a refund of ours, until somebody has looked.
    world.script.nextRefunds({ kind: 'lost_answer' })
    expect((await refund(100)).status).toBe(refundAnswer)
    const isSent = refundAnswer === 202
    expect(await alarms()).toEqual(['amount_differs pay_', ...(isSent ? ['amount_differs ref_'] : [])])

    // Somebody has, and it was about the payment's own currency.
    const isDisputed = record().dispute !== null
    record().dispute = null
    if (isDisputed) world.script.dispute(reference, 'won', at(10))
    record().refunds = record().refunds.filter(({ reference: name }) => name !== null)
    await world.forgetLeases()
    await world.runDue()
    expect(await compared()).toEqual([])
    expect(await alarms()).toEqual([])
    expect(await world.books()).toEqual(
      isSent ? { provider: 9800, revenue: -9900, refunds: 100 } : { provider: 9900, revenue: -9900 },
    )
  })
})

/** The bank has the money from now on, whatever it has decided. */
async function bankTakes() {
  world.script.withdraw(reference)
  for (let times = 0; times < 2; times++) await settleFromProvider(world.app, reference)
}
const postings = async () =>
  (await world.rows<{ cause: string }>('select cause from billing.ledger_transfer order by id')).map(
    ({ cause }) => cause.replace(paymentId, 'ours'),
  )

test('what the bank takes when a dispute is opened is booked at once, and stays gone when it is lost', async () => {
  await bankSays('open', 6, 5000n)
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })
  await bankTakes()
  expect((await invoice()).payments[0]).toMatchObject({
    disputed: true,
    dispute: { status: 'open', amount: 5000, closed_at: null },
  })
  expect(await world.books()).toEqual({ provider: 4900, revenue: -9900, disputes: 5000 })
  expect(await refund(100)).toMatchObject({ status: 409, body: { error: { code: 'payment_disputed' } } })
  await bankSays('lost', 9)
  expect(await world.books()).toEqual({ provider: 4900, revenue: -9900, disputes: 5000 })
  expect(await postings()).toEqual(['payment:ours', 'dispute_lost:ours'])
  expect(await eventTypes()).toEqual(['payment.disputed', 'payment.dispute_lost'])
})

test('a dispute that is won brings back what the bank took when it was opened, once the bank gives it back', async () => {
  await bankSays('open', 6)
  await bankTakes()
  world.script.dispute(reference, 'won', at(9))
  await bankTakes()
  expect((await invoice()).payments[0]).toMatchObject({ disputed: false, dispute: { status: 'won' } })
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, disputes: 9900 })
  await bankSays('won', 9)
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900, disputes: 0 })
  expect(await postings()).toEqual(['payment:ours', 'dispute_lost:ours', 'dispute_reversal:ours:2'])
  expect(await eventTypes()).toEqual(['payment.disputed', 'payment.dispute_won'])
  expect((await refund(100)).status).toBe(200)
})

test('of a dispute that was recorded before anybody counted what the bank took, the next lookup books it', async () => {
  await bankSays('open', 5)
  world.script.withdraw(reference)
  await world.advanceTo('2026-03-06T12:00:00+09:00')
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, disputes: 9900 })
  expect(await eventTypes()).toEqual(['payment.disputed'])
})

test('a refund that was on its way when the bank took the money is refused, and goes when the dispute is won', async () => {
  world.script.nextRefunds({ kind: 'lost_request' })
  expect(await refund(900)).toMatchObject({ status: 202 })
  world.script.dispute(reference, 'open', at(5))
  await bankTakes()
  expect((await world.books())['disputes']).toBe(9900)
  await world.advanceTo('2026-03-08T09:00:00+09:00')
  expect((await invoice()).refunds).toMatchObject([{ status: 'failed' }])
  await bankSays('won', 9)
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900, disputes: 0 })
  expect((await refund(900)).status).toBe(200)
})

test('what one dispute took stays gone while another is open, and comes together with what that one takes', async () => {
  await bankSays('open', 6, 5000n)
  await bankSays('lost', 9)
  const record = world.script.book.get(reference)!
  const second = { amount: { minor: 2000n, currency: 'KRW' as const }, openedAt: at(12) }
  const first = { minor: 5000n, currency: 'KRW' as const }
  record.dispute = { ...second, status: 'open', closedAt: null, alreadyLost: first }
  await settleFromProvider(world.app, reference)
  expect((await invoice()).payments[0]).toMatchObject({
    disputed: true,
    dispute: { status: 'open', amount: 2000, closed_at: null },
  })
  expect(await world.books()).toEqual({ provider: 4900, revenue: -9900, disputes: 5000 })

  record.dispute = { ...second, status: 'lost', amount: { ...first, minor: 7000n }, closedAt: at(15) }
  await settleFromProvider(world.app, reference)
  expect((await invoice()).payments[0]).toMatchObject({ dispute: { status: 'lost', amount: 7000 } })
  expect(await world.books()).toEqual({ provider: 2900, revenue: -9900, disputes: 7000 })
  expect(await world.rows('select cause from billing.ledger_transfer order by id offset 1')).toEqual([
    { cause: `dispute_lost:${paymentId}` },
    { cause: `dispute_lost:${paymentId}:2` },
  ])
})

/** Somebody gives money back at a provider whose record then shows no disputes. */
function giveBackUnseen(minor: bigint, day: number): void {
  const record = world.script.book.get(reference)!
  const amount = { minor, currency: 'KRW' as const }
  record.refunds.push({ reference: null, amount, status: 'succeeded' })
  record.dispute = null
  record.disputesHiddenSince = at(day)
}

test('an open dispute that is shown no more after money went back is over, and no money was lost by it', async () => {
  await bankSays('open', 6, 5000n)
  giveBackUnseen(900n, 9)
  for (let times = 0; times < 2; times++)
    expect(await settleFromProvider(world.app, reference)).toBe('settled')
  expect(await invoice()).toMatchObject({
    amount_refunded: 900,
    payments: [
      {
        disputed: false,
        dispute: {
          status: 'won',
          amount: 5000,
          opened_at: '2026-03-06T09:00:00.000+09:00',
          closed_at: '2026-03-09T09:00:00.000+09:00',
        },
      },
    ],
  })
  expect(await eventTypes()).toEqual(['payment.disputed', 'payment.dispute_won'])
  expect((await refund(9000)).status).toBe(200)
})

test('an open dispute that is not shown is still open where the record would show it, or where money is lost by it', async () => {
  await bankSays('open', 6, 5000n)
  const record = world.script.book.get(reference)!
  record.dispute = null
  await settleFromProvider(world.app, reference)
  expect((await invoice()).payments[0]).toMatchObject({ dispute: { status: 'open' } })

  const lost = { minor: 2000n, currency: 'KRW' as const }
  const shown = { amount: { ...lost, minor: 5000n }, openedAt: at(6), closedAt: null, alreadyLost: lost }
  record.dispute = { ...shown, status: 'open' }
  await settleFromProvider(world.app, reference)
  record.dispute = null
  record.disputesHiddenSince = at(9)
  await settleFromProvider(world.app, reference)
  expect((await invoice()).payments[0]).toMatchObject({ dispute: { status: 'open' } })
  expect((await world.books())['disputes']).toBe(2000)
  record.dispute = { ...shown, status: 'open' }
})

test('a lost dispute that is shown no more stays lost', async () => {
  await bankSays('open', 6)
  await bankSays('lost', 9)
  const record = world.script.book.get(reference)!
  const { dispute } = record
  Object.assign(record, { dispute: null, disputesHiddenSince: at(9) })
  await settleFromProvider(world.app, reference)
  expect((await invoice()).payments[0]).toMatchObject({ disputed: true, dispute: { status: 'lost' } })
  // A record that shows only what the bank took does not tell when the dispute was opened.
  record.dispute = { ...dispute!, openedAt: at(9), closedAt: at(10) }
  await settleFromProvider(world.app, reference)
  expect((await invoice()).payments[0]).toMatchObject({
    dispute: { status: 'lost', opened_at: '2026-03-06T09:00:00.000+09:00' },
  })
})

test('a refund refused because of a dispute that nobody told us of makes it known', async () => {
  world.script.nextRefunds({ kind: 'disputed' })
  expect((await refund(100)).status).toBe(409)
  expect((await invoice()).payments[0]).toMatchObject({
    disputed: true,
    dispute: { status: 'open', amount: 9900 },
  })
  await bankSays('won', 9, 700n)
  expect((await invoice()).payments[0]).toMatchObject({ dispute: { status: 'won', amount: 700 } })
  expect(await eventTypes()).toEqual(['payment.disputed', 'payment.dispute_won'])
})

test('a dispute whose end nobody tells us of is looked up, once a day for as long as it is open', async () => {
  let lookups = 0
  const { findPayment } = world.script.provider
  world.script.provider.findPayment = (asked) => {
    lookups++
    return findPayment(asked)
  }
  await bankSays('open', 5)
  lookups = 0
  await world.advanceTo('2026-03-08T12:00:00+09:00')
  expect(lookups).toBe(3)
  world.script.dispute(reference, 'lost', world.app.clock())
  await world.advanceTo('2026-03-09T12:00:00+09:00')
  expect((await invoice()).payments[0]).toMatchObject({ disputed: true, dispute: { status: 'lost' } })
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, disputes: 9900 })
  expect(await eventTypes()).toEqual(['payment.disputed', 'payment.dispute_lost'])
  lookups = 0
  await world.advanceTo('2026-03-20T12:00:00+09:00')
  expect(lookups).toBe(0)
})

test('a provider that does not answer is asked about an open dispute again within the hour', async () => {
  await bankSays('open', 5)
  const { findPayment } = world.script.provider
  world.script.provider.findPayment = async () => ({ kind: 'unknown' })
  await world.advanceTo('2026-03-06T10:00:00+09:00')
  world.script.dispute(reference, 'won', world.app.clock())
  world.script.provider.findPayment = findPayment
  await world.advanceTo('2026-03-06T11:00:00+09:00')
  expect((await invoice()).payments[0]).toMatchObject({ disputed: false, dispute: { status: 'won' } })
})

test('a refusal that was the first word of a dispute is looked into at once', async () => {
  world.script.dispute(reference, 'lost', at(5), 700n)
  world.script.nextRefunds({ kind: 'disputed' })
  expect((await refund(100)).status).toBe(409)
  await world.runDue()
  expect((await invoice()).payments[0]).toMatchObject({ dispute: { status: 'lost', amount: 700 } })
})

test('with DISPUTE_POLICY=cancel a dispute ends the subscription at once, and nobody comes back by winning it', async () => {
  const app = { ...world.app, terms: { ...world.app.terms, disputePolicy: 'cancel' as const } }
  const [{ subscription_id }] = await world.invoices('acct')
  // The renewal waits for its customer while the first payment is disputed.
  world.script.askCustomer('bk_test_ok')
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'past_due' })
  world.script.dispute(reference, 'open', at(6))
  for (let times = 0; times < 2; times++) await settleFromProvider(app, reference)
  expect(await world.subscription(subscription_id)).toMatchObject({
    status: 'canceled',
    cancel_reason: 'payment_disputed',
    access: false,
    next_billing_at: null,
  })
  const [renewal, first] = await world.invoices('acct')
  expect(renewal).toMatchObject({ status: 'void', next_action: null })
  expect(first).toMatchObject({ status: 'paid', payments: [{ dispute: { status: 'open' } }] })
  expect(await refund(100)).toMatchObject({ status: 409, body: { error: { code: 'payment_disputed' } } })
  await world.forgetLeases()
  await world.runDue()
  expect(world.script.confirm(renewal.payments[0].reference)).toBe(false)

  await bankTakes()
  expect((await world.books())['disputes']).toBe(9900)
  await bankSays('won', 9)
  expect((await world.books())['disputes']).toBe(0)
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'canceled' })
  expect((await refund(100)).status).toBe(200)
})

test('a dispute that was won before we heard of it, and one lost long ago, end nobody', async () => {
  const app = { ...world.app, terms: { ...world.app.terms, disputePolicy: 'cancel' as const } }
  const [{ subscription_id }] = await world.invoices('acct')
  world.script.dispute(reference, 'won', at(6))
  await settleFromProvider(app, reference)
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'active' })
  // Under the policy of then it was kept; a later look at the same loss is no news.
  await bankSays('lost', 9)
  await settleFromProvider(app, reference)
  expect(await world.subscription(subscription_id)).toMatchObject({ status: 'active' })
})

/** One lookup is slow on its way back; meanwhile this happens, and another has told us of it. */
async function isOvertaken(happens: () => void): Promise<void> {
  const { read, arrive } = world.script.slowNextLookup()
  const slow = settleFromProvider(world.app, reference)
  await read
  happens()
  expect(await settleFromProvider(world.app, reference)).toBe('settled')
  arrive()
  expect(await slow).toBe('in_motion')
}

test('an answer from before a refund failed does not count it once more', async () => {
  await refund(900)
  await isOvertaken(() => {
    world.script.book.get(reference)!.refunds[0]!.status = 'failed'
  })
  expect(await invoice()).toMatchObject({ status: 'paid', amount_refunded: 0 })
  expect(await world.books()).toEqual({ provider: 9900, revenue: -9900, refunds: 0 })
})

test('an answer from before the bank took the money does not bring it back', async () => {
  await bankSays('open', 6)
  await isOvertaken(() => world.script.withdraw(reference))
  expect(await world.books()).toEqual({ provider: 0, revenue: -9900, disputes: 9900 })
})

test('an answer from before a dispute was decided does not open it again', async () => {
  world.script.dispute(reference, 'open', at(6))
  await isOvertaken(() => world.script.dispute(reference, 'won', at(9)))
  expect((await invoice()).payments[0]).toMatchObject({ dispute: { status: 'won' } })
  expect(await eventTypes()).toEqual(['payment.disputed', 'payment.dispute_won'])
})
