import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { settleFromProvider } from '../../src/billing/collection/settle-from-provider.ts'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import type { PaymentListing } from '../../src/billing/providers/port.ts'
import { BookUnreadable } from '../../src/billing/reconciliation/read-book.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { insertRefund } from '../../src/billing/refunds/refund-rows.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
beforeEach(async () => {
  world = await openBillingWorld()
})
afterEach(() => world.close())

const won = (minor: bigint) => ({ minor, currency: 'KRW' as const })
const reconcile = () =>
  reconcilePayments(world.app, new Date('2026-01-01T00:00:00Z'), new Date('2027-01-01T00:00:00Z'))
const paymentOf = async (account: string): Promise<string> =>
  (await world.invoices(account))[0].payments[0].reference
const amountOf = ({ amount }: { amount?: unknown }) => amount
const kinds = (differences: readonly { kind: string; reference: string }[]) =>
  differences.map(({ kind, reference }) => [kind, reference])

/** The references that are looked up from now on. */
function watchLookups(): ReadonlySet<string> {
  const { provider } = world.script
  const { findPayment } = provider
  const lookedAt = new Set<string>()
  provider.findPayment = (reference, providerId) => {
    lookedAt.add(reference)
    return findPayment(reference, providerId)
  }
  return lookedAt
}

/** From now on the provider can list by time of change, and this is what changed just now; two on a page. */
function listAsChanged(references: readonly string[]): void {
  const { provider } = world.script
  const { findPayment } = provider
  const changedAt = world.app.clock()
  const listChanges = async (from: Date, to: Date, cursor: string | null): Promise<PaymentListing> => {
    if (changedAt < from || changedAt >= to) return { kind: 'page', payments: [], next: null }
    const at = Number(cursor ?? 0)
    const lookups = await Promise.all(references.slice(at, at + 2).map((one) => findPayment(one)))
    const payments = lookups.flatMap((lookup) => (lookup.kind === 'found' ? [lookup.payment] : []))
    return { kind: 'page', payments, next: at + 2 < references.length ? String(at + 2) : null }
  }
  Object.assign(provider, { listChanges })
}

/** Both books agree, and nothing is left to say on a second look. */
async function expectPeace() {
  expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
  expect(await checkLedger(world.app.db)).toMatchObject({ faults: [] })
  const books = await world.books()
  expect(BigInt(books['provider'] ?? 0)).toBe(world.script.balance('KRW'))
}

describe('the provider’s book against ours', () => {
  test('a charge whose answer and notification were lost is recorded', async () => {
    const { findPayment } = world.script.provider
    world.script.nextCharges({ kind: 'lost_answer' })
    world.script.provider.findPayment = async () => ({ kind: 'unknown' })
    expect((await world.subscribe('acct')).status).toBe(202)
    world.script.provider.findPayment = findPayment
    await world.rows('update billing.payment set sending_until = null')

    const found = await reconcile()
    expect(found.compared).toBe(1)
    expect(kinds(found.repaired)).toEqual([['status', await paymentOf('acct')]])
    expect(found.differences).toEqual([])
    expect((await world.invoices('acct'))[0].status).toBe('paid')
    await expectPeace()
  })

  test('a refund made at the provider itself, and a dispute, are recorded', async () => {
    await world.subscribe('refunded')
    await world.subscribe('disputed')
    const [refunded, disputed] = [await paymentOf('refunded'), await paymentOf('disputed')]
    world.script.book.get(refunded)!.refunds.push({ reference: null, amount: won(400n), status: 'succeeded' })
    world.script.dispute(disputed, 'open', new Date('2026-03-06T00:00:00Z'))
    const found = await reconcile()
    expect(kinds(found.repaired)).toEqual([
      ['refunded', refunded],
      ['disputed', disputed],
    ])
    expect((await world.invoices('refunded'))[0]).toMatchObject({
      status: 'partially_refunded',
      amount_refunded: 400,
    })
    await expectPeace()
  })

  test('a refund made by hand that fails later is reversed, and the rest can be refunded', async () => {
    await world.subscribe('acct')
    const reference = await paymentOf('acct')
    const { refunds } = world.script.book.get(reference)!
    refunds.push({ reference: null, amount: won(3000n), status: 'succeeded' })
    await reconcile()
    expect((await world.invoices('acct'))[0]).toMatchObject({ amount_refunded: 3000 })
    refunds[0]!.status = 'failed'
    const found = await reconcile()
    expect(kinds(found.repaired)).toEqual([['refunded', reference]])
    expect(found.differences).toEqual([])
    const [invoice] = await world.invoices('acct')
    expect(invoice).toMatchObject({ status: 'paid', amount_refunded: 0, refunds: [{ status: 'failed' }] })
    const reversed = await world.rows(`select from billing.event where type = 'refund.reversed'`)
    expect(reversed).toHaveLength(1)
    await expectPeace()
    expect((await world.post('/refund', { invoice_id: invoice.invoice_id })).data.amount).toBe(9900)
    await expectPeace()
  })

  test('of several refunds by hand as much is taken back as failed', async () => {
    await world.subscribe('acct')
    const reference = await paymentOf('acct')
    const { refunds } = world.script.book.get(reference)!
    const give = async (...amounts: bigint[]) => {
      for (const minor of amounts) refunds.push({ reference: null, amount: won(minor), status: 'succeeded' })
      expect(await settleFromProvider(world.app, reference)).toBe('settled')
    }
    const counted = async () =>
      (await world.rows(`select amount from billing.refund where status = 'succeeded' order by id`)).map(
        amountOf,
      )
    await give(1000n)
    // Both are told at once, as one sum.
    await give(2000n, 3000n)
    expect(await counted()).toEqual([1000n, 5000n])
    refunds[2]!.status = 'failed'
    await give()
    expect(await counted()).toEqual([1000n, 2000n])
    refunds[0]!.status = 'failed'
    await give()
    expect(await counted()).toEqual([2000n])
    await expectPeace()
  })

  test('a record that lacks a refund of ours takes nothing back of what was given by hand', async () => {
    await world.subscribe('acct')
    const reference = await paymentOf('acct')
    const record = world.script.book.get(reference)!
    record.refunds.push({ reference: null, amount: won(900n), status: 'succeeded' })
    await reconcile()
    const { findPayment } = world.script.provider
    const before = structuredClone(await findPayment(reference))
    const [invoice] = await world.invoices('acct')
    expect((await world.post('/refund', { invoice_id: invoice.invoice_id, amount: 900 })).status).toBe(200)
    world.script.provider.findPayment = async () => before
    expect(await settleFromProvider(world.app, reference)).toBe('not_known')
    expect((await world.invoices('acct'))[0]).toMatchObject({ amount_refunded: 1800 })
    world.script.provider.findPayment = findPayment
    await expectPeace()
  })

  test('a refund of ours that the provider has accepted and not done is undecided', async () => {
    await world.subscribe('acct')
    const [invoice] = await world.invoices('acct')
    world.script.nextRefunds({ kind: 'pending' })
    expect((await world.post('/refund', { invoice_id: invoice.invoice_id, amount: 900 })).status).toBe(202)
    expect(kinds((await reconcile()).differences)).toEqual([['undecided', invoice.payments[0].reference]])
    world.script.book.get(invoice.payments[0].reference)!.refunds[0]!.status = 'succeeded'
    await reconcile()
    await expectPeace()
  })

  test('a refund of ours that is still to be sent does not hide what went back by hand', async () => {
    await world.subscribe('acct')
    const [invoice] = await world.invoices('acct')
    const [{ payment_id: paymentId, reference }] = invoice.payments
    const left = { paymentId, invoiceId: invoice.invoice_id, accountId: 'acct', reason: null, note: null }
    // Its process died before it sent it.
    await world.app.db
      .transaction()
      .execute((tx) =>
        insertRefund(tx, world.app.clock(), { ...left, amount: won(1900n), origin: 'request' }, 0),
      )
    world.script.book
      .get(reference)!
      .refunds.push({ reference: null, amount: won(4700n), status: 'succeeded' })
    const found = await reconcile()
    expect(kinds(found.repaired)).toEqual([['refunded', reference]])
    expect(found.differences).toEqual([])
    expect((await world.invoices('acct'))[0]).toMatchObject({ amount_refunded: 6600 })
    await expectPeace()
  })

  test('a refund of ours that is sent again while books are compared leaves what went back by hand as it was', async () => {
    await world.subscribe('acct')
    const [invoice] = await world.invoices('acct')
    const [{ reference }] = invoice.payments
    world.script.nextRefunds({ kind: 'lost_request' })
    const asked = { invoice_id: invoice.invoice_id, amount: 900 }
    expect((await world.post('/refund', asked)).status).toBe(202)
    await world.forgetLeases()
    world.script.book
      .get(reference)!
      .refunds.push({ reference: null, amount: won(950n), status: 'succeeded' })

    const found = await reconcile()
    expect(found.differences).toEqual([])
    expect(kinds(found.repaired)).toEqual([['refunded', reference]])
    const refunds = await world.rows<{ amount: bigint; origin: string; status: string }>(
      'select amount, origin, status from billing.refund order by id',
    )
    expect(refunds).toEqual([
      { amount: 900n, origin: 'request', status: 'succeeded' },
      { amount: 950n, origin: 'provider', status: 'succeeded' },
    ])
    await expectPeace()
  })

  test('a refund of ours that goes through while the provider is asked makes its answer too old to conclude from', async () => {
    await world.subscribe('acct')
    const [invoice] = await world.invoices('acct')
    const [{ reference }] = invoice.payments
    world.script.book
      .get(reference)!
      .refunds.push({ reference: null, amount: won(950n), status: 'succeeded' })
    const { findPayment } = world.script.provider
    world.script.provider.findPayment = async (...asked) => {
      const answer = structuredClone(await findPayment(...asked))
      world.script.provider.findPayment = findPayment
      const refund = { invoice_id: invoice.invoice_id, amount: 900 }
      expect((await world.post('/refund', refund)).status).toBe(200)
      return answer
    }
    expect(await settleFromProvider(world.app, reference)).toBe('in_motion')
    const amounts = async () =>
      (await world.rows('select amount from billing.refund order by id')).map(amountOf)
    expect(await amounts()).toEqual([900n])
    expect(await settleFromProvider(world.app, reference)).toBe('settled')
    expect(await amounts()).toEqual([900n, 950n])
    await expectPeace()
  })

  test('money found for a charge that we hold for failed goes back in full', async () => {
    world.script.nextCharges({ kind: 'decline', code: 'do_not_honor' })
    expect((await world.subscribe('acct')).status).toBe(402)
    const id = await paymentOf('acct')
    Object.assign(world.script.book.get(id)!, { status: 'paid', code: null })
    const found = await reconcile()
    expect(kinds(found.repaired)).toEqual([['status', id]])
    expect(world.script.balance('KRW')).toBe(0n)
    expect((await world.invoices('acct'))[0].status).toBe('void')
    await expectPeace()
  })

  test('what no truth at the provider explains is listed, and stays as it is', async () => {
    for (const account of ['gone', 'wrong', 'fine']) await world.subscribe(account)
    const [gone, wrong] = [await paymentOf('gone'), await paymentOf('wrong')]
    const stranger = { ...world.script.book.get(gone)!, reference: 'pay_of_nobody' }
    world.script.book.delete(gone)
    world.script.book.get(wrong)!.amount = won(99n)
    world.script.book.set('pay_of_nobody', stranger)
    const before = await world.books()
    const found = await reconcile()
    expect(found.compared).toBe(4)
    expect(found.repaired).toEqual([])
    expect(kinds(found.differences).sort()).toEqual(
      [
        ['amount', wrong],
        ['missing_there', gone],
        ['unknown_here', 'pay_of_nobody'],
      ].sort(),
    )
    expect(await world.books()).toEqual(before)
    expect(kinds((await reconcile()).differences)).toHaveLength(3)
  })

  describe('a second payment under one reference', () => {
    type Payment = Extract<
      Awaited<ReturnType<typeof world.script.provider.findPayment>>,
      { kind: 'found' }
    >['payment']
    /** The provider lists another payment behind ours, and knows it by its own id. */
    const addSecond = async (reference: string, more: Partial<Payment> = {}) => {
      const { findPayment } = world.script.provider
      const first = await findPayment(reference)
      if (first.kind !== 'found') throw new Error('the first is not there')
      const second = { ...first.payment, providerId: 'prov_second', ...more }
      const { listPayments } = world.script.provider
      world.script.provider.listPayments = async (...asked) => {
        const page = await listPayments(...asked)
        return page.kind === 'page' ? { ...page, payments: [...page.payments, second] } : page
      }
      world.script.provider.findPayment = async (asked, id) =>
        id === 'prov_second' ? { kind: 'found', payment: second } : findPayment(asked, id)
      return second
    }
    const alarms = async () =>
      (await listAlarms(world.app.db, 10)).map(({ kind, subject }) => [kind, subject])

    test('is told on every run, of whatever time, until its money is gone', async () => {
      await world.subscribe('acct')
      const id = await paymentOf('acct')
      const second = await addSecond(id)
      const found = await reconcile()
      expect(found).toMatchObject({ compared: 2, repaired: [] })
      expect(found.differences).toMatchObject([
        { kind: 'duplicate', reference: id, accountId: 'acct', providerId: 'prov_second' },
      ])
      expect(await alarms()).toEqual([['duplicate_payment', id]])
      const elsewhen = () =>
        reconcilePayments(world.app, new Date('2028-01-01T00:00:00Z'), new Date('2028-02-01T00:00:00Z'))
      world.script.provider.listPayments = async () => ({ kind: 'page', payments: [], next: null })
      expect(kinds((await elsewhen()).differences)).toEqual([['duplicate', id]])
      Object.assign(second, { refunded: won(9000n) })
      expect(kinds((await elsewhen()).differences)).toEqual([['duplicate', id]])
      // An answer that does not come is no sign that it is gone.
      world.script.state.silent = true
      const { findPayment } = world.script.provider
      world.script.provider.findPayment = async () => ({ kind: 'unknown' })
      expect(kinds((await elsewhen()).differences)).toContainEqual(['duplicate', id])
      world.script.state.silent = false
      world.script.provider.findPayment = findPayment
      Object.assign(second, { refunded: second.amount })
      expect((await elsewhen()).differences).toEqual([])
      expect(await alarms()).toEqual([])
      expect((await world.invoices('acct'))[0]).toMatchObject({ status: 'paid', amount_refunded: 0 })
    })

    test('of another amount is a duplicate too, and nothing is said to be repaired', async () => {
      await world.subscribe('acct')
      const id = await paymentOf('acct')
      await addSecond(id, { amount: won(5000n) })
      const found = await reconcile()
      expect(found.repaired).toEqual([])
      expect(kinds(found.differences)).toEqual([['duplicate', id]])
    })

    test.each<[string, Partial<Payment>]>([
      ['was declined', { status: 'declined' }],
      ['was cancelled', { status: 'canceled' }],
      ['went back whole', { refunded: won(9900n) }],
    ])('that %s is nothing to tell', async (_how, more) => {
      await world.subscribe('acct')
      await addSecond(await paymentOf('acct'), more)
      expect(await reconcile()).toMatchObject({ compared: 1, repaired: [], differences: [] })
      expect(await alarms()).toEqual([])
    })

    test('while ours is in doubt, the one that settles it is ours and the other the duplicate', async () => {
      const { findPayment } = world.script.provider
      world.script.nextCharges({ kind: 'lost_answer' })
      world.script.provider.findPayment = async () => ({ kind: 'unknown' })
      expect((await world.subscribe('acct')).status).toBe(202)
      world.script.provider.findPayment = findPayment
      await world.rows('update billing.payment set sending_until = null')
      const id = await paymentOf('acct')
      await addSecond(id)
      const found = await reconcile()
      expect(found.compared).toBe(2)
      expect(kinds(found.repaired)).toEqual([['status', id]])
      expect(kinds(found.differences)).toEqual([['duplicate', id]])
      expect((await world.invoices('acct'))[0].status).toBe('paid')
    })
  })

  test('a book that cannot be read is no book that agrees', async () => {
    await world.subscribe('acct')
    world.script.provider.listPayments = async () => ({ kind: 'unknown' })
    await expect(reconcile()).rejects.toThrow(
      new BookUnreadable('The book of the provider "scripted" cannot be read just now.'),
    )
  })

  test('one payment that cannot be recorded is told as such, and the others are compared all the same', async () => {
    for (const account of ['odd', 'by_hand']) await world.subscribe(account)
    const [odd, byHand] = [await paymentOf('odd'), await paymentOf('by_hand')]
    // More than was ever taken, which no row of ours can hold.
    world.script.book.get(odd)!.refunds.push({ reference: null, amount: won(20_000n), status: 'succeeded' })
    world.script.book.get(byHand)!.refunds.push({ reference: null, amount: won(400n), status: 'succeeded' })
    const told: unknown[] = []
    const app = {
      ...world.app,
      onReconcileFault: (error: unknown, reference: string | null) => void told.push([reference, error]),
    }
    const found = await reconcilePayments(app, new Date('2026-01-01'), new Date('2027-01-01'))
    expect(kinds(found.differences)).toEqual([['failed', odd]])
    expect(found.differences[0]).toMatchObject({
      accountId: 'odd',
      theirs: { refunded: won(20_000n) },
      reason: expect.stringContaining('23514'),
    })
    expect(kinds(found.repaired)).toEqual([['refunded', byHand]])
    expect(told).toEqual([[odd, expect.objectContaining({ code: '23514' })]])
  })

  test('a database that is away ends the run and is no difference of a payment', async () => {
    await world.subscribe('acct')
    const id = await paymentOf('acct')
    world.script.book.get(id)!.refunds.push({ reference: null, amount: won(400n), status: 'succeeded' })
    world.script.provider.findPayment = async () => {
      throw Object.assign(new Error('Connection terminated unexpectedly'), { code: '57P01' })
    }
    await expect(reconcile()).rejects.toThrow('Connection terminated')
  })

  test('a run that fails keeps why, in words for an operator', async () => {
    await world.subscribe('acct')
    const span = { from: '2026-03-01T00:00:00+09:00', to: '2026-05-01T00:00:00+09:00' }
    const newest = async () => (await world.get('/reconciliations')).data.reconciliations[0]
    const reasonAfter = async (listPayments: typeof world.script.provider.listPayments) => {
      world.script.provider.listPayments = listPayments
      expect((await world.post('/reconciliations', span)).status).toBe(202)
      await expect.poll(async () => (await newest()).status).toBe('failed')
      return (await newest()).reason
    }
    expect(await reasonAfter(async () => ({ kind: 'unknown' }))).toMatch(/book of the provider "scripted"/)
    expect(await reasonAfter(async () => ({ kind: 'credentials_refused' }))).toMatch(/refuses our keys/)
    expect(
      await reasonAfter(async () => {
        throw new TypeError('private')
      }),
    ).toMatch(/^A fault of ours \(TypeError\)/)
    world.script.provider.listPayments = async () => ({ kind: 'page', payments: [], next: null })
    await world.post('/reconciliations', span)
    await expect.poll(newest).toMatchObject({ status: 'done', reason: null })
  })

  test.each([
    { how: 'by looking at each', byChange: false },
    { how: 'by the time of its change', byChange: true },
  ])('what happens after 40 days to an older payment is found $how', async ({ byChange }) => {
    for (const account of ['by_hand', 'lost', 'bounced', 'quiet']) await world.subscribe(account)
    const [byHand, lost, bounced] = [
      await paymentOf('by_hand'),
      await paymentOf('lost'),
      await paymentOf('bounced'),
    ]
    const invoice = (await world.invoices('bounced'))[0]
    await world.post('/refund', { invoice_id: invoice.invoice_id, amount: 500 })
    world.skipTo('2026-04-14T09:00:00+09:00')
    world.script.book.get(byHand)!.refunds.push({ reference: null, amount: won(400n), status: 'succeeded' })
    world.script.book.get(bounced)!.refunds[0]!.status = 'failed'
    world.script.dispute(lost, 'open', new Date('2026-04-10T00:00:00Z'))
    world.script.dispute(lost, 'lost', new Date('2026-04-12T00:00:00Z'))
    world.script.provider.listPayments = async () => ({ kind: 'page', payments: [], next: null })
    const lookedAt = watchLookups()
    if (byChange) listAsChanged([byHand, lost, bounced])

    const april = [new Date('2026-04-01'), new Date('2026-05-01')] as const
    const found = await reconcilePayments(world.app, ...april)
    // Of a provider that tells what changed nobody asks about what did not.
    expect(lookedAt.has(await paymentOf('quiet'))).toBe(!byChange)
    expect(kinds(found.repaired).sort()).toEqual(
      [
        ['refunded', byHand],
        ['disputed', lost],
        ['refunded', bounced],
      ].sort(),
    )
    expect(found.differences).toEqual([])
    expect(await world.books()).toEqual({
      provider: 4 * 9900 - 400 - 9900,
      revenue: -4 * 9900,
      refunds: 400,
      disputes: 9900,
    })
    expect(await reconcilePayments(world.app, ...april)).toMatchObject({ repaired: [], differences: [] })
    expect(await checkLedger(world.app.db)).toMatchObject({ faults: [] })
  })

  test('older payments that a stopped run has seen are not looked up again', async () => {
    for (const account of ['a', 'b', 'c']) await world.subscribe(account)
    world.script.provider.listPayments = async () => ({ kind: 'page', payments: [], next: null })
    const seen: string[] = []
    const april = [new Date('2026-04-01'), new Date('2026-05-01')] as const
    await reconcilePayments(world.app, ...april, { onProgress: (_, last) => void seen.push(last) })
    expect(seen).toHaveLength(3)
    expect((await reconcilePayments(world.app, ...april, { after: seen[1]! })).compared).toBe(1)
  })

  test('only the time asked for is compared', async () => {
    await world.subscribe('acct')
    world.script.provider.listPayments = async () => ({ kind: 'page', payments: [], next: null })
    expect(
      (await reconcilePayments(world.app, new Date('2025-04-01'), new Date('2025-05-01'))).compared,
    ).toBe(0)
    expect((await reconcile()).compared).toBe(1)
  })
})

describe('the ledger against everything built on it', () => {
  beforeEach(async () => {
    for (const account of ['a', 'b']) await world.subscribe(account)
    const invoice = (await world.invoices('a'))[0]
    expect((await world.post('/refund', { invoice_id: invoice.invoice_id, amount: 100 })).status).toBe(200)
  })
  const kept = ['ledger_transfer', 'ledger_entry', 'invoice']
  /** The schema refuses all of these; a fault like this comes from a restored disk or an over-eager hand. */
  const faultsAfter = async (statement: string) => {
    const triggers = (what: string) =>
      kept.map((table) => `alter table billing.${table} ${what} trigger user`).join(';')
    await world.app.pool.query(`begin; ${triggers('disable')}; ${statement}; ${triggers('enable')}; commit`)
    return (await checkLedger(world.app.db)).faults.map(({ check }) => check)
  }

  test('untouched, all of it adds up', async () => {
    expect(await checkLedger(world.app.db)).toEqual({ transfers: 3, faults: [] })
  })

  test.each([
    [
      `update billing.ledger_entry set amount = amount + 1 where book = 'revenue' and transfer_id = (select min(id) from billing.ledger_transfer)`,
      'transfer_sums_to_zero',
    ],
    [
      `delete from billing.ledger_entry where book = 'provider' and transfer_id = (select min(id) from billing.ledger_transfer)`,
      'payment_captured',
    ],
    [
      `insert into billing.ledger_transfer (cause, account_id, currency, occurred_at) values ('payment:pay_x', 'a', 'KRW', now())`,
      'transfer_has_a_cause',
    ],
    [`update billing.payment set captured = 0, refunded = 0 where account_id = 'b'`, 'payment_captured'],
    [`update billing.payment set refunded = 99 where account_id = 'a'`, 'payment_refunded'],
    [`update billing.refund set amount = 99`, 'refund_posted'],
    [
      `update billing.invoice set amount_paid = 0, amount_refunded = 0 where account_id = 'b'`,
      'invoice_paid',
    ],
    [`update billing.invoice set amount_refunded = 1 where account_id = 'b'`, 'invoice_refunded'],
    [`update billing.account set invoice_count = 7 where id = 'b'`, 'invoice_numbers_gapless'],
  ])('%s is found', async (statement, check) => {
    expect(await faultsAfter(statement)).toContain(check)
  })
})
