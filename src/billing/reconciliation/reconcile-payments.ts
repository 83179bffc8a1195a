import { highestId, lowestId } from '../../platform/id.ts'
import type { BillingApp } from '../app.ts'
import { settleFromProvider } from '../collection/settle-from-provider.ts'
import type { PaymentListing, ProviderPayment } from '../providers/port.ts'
import { sendRefund } from '../refunds/send-refund.ts'
import { listUnmatched } from '../refunds/unmatched-rows.ts'
import { type Difference, differenceOf, type OurPayment } from './compare.ts'

export type Reconciliation = {
  /** Payments that either side knows in this time, and older ones to which something happened in it. */
  readonly compared: number
  readonly repaired: readonly Difference[]
  readonly differences: readonly Difference[]
}

export type ReconcileOptions = {
  /** The reference at which an earlier run stopped while it looked older payments up one by one. */
  readonly after?: string
  readonly onProgress?: (compared: number, last: string) => void
}

/** The provider could not be read, so nothing can be said about its book. */
export class BookUnreadable extends Error {
  override name = 'BookUnreadable'
}

/**
 * Compares the provider's book with ours between two instants: what was charged in that time, and what happened in it to
 * older charges. A difference that the truth at the provider explains is recorded as if a notification had told of it; what
 * then still differs is for a person, and so is all money that pays for nothing and did not go back.
 */
export async function reconcilePayments(
  app: BillingApp,
  from: Date,
  to: Date,
  { after, onProgress = () => {} }: ReconcileOptions = {},
): Promise<Reconciliation> {
  const seen = new Set<string>()
  const repaired: Difference[] = []
  const differences: Difference[] = []
  const compare = async (listed: readonly ProviderPayment[]) => {
    const theirs = listed.filter(({ reference }) => !seen.has(reference))
    const ours = await findOurs(
      app,
      theirs.map(({ reference }) => reference),
    )
    for (const payment of theirs) {
      seen.add(payment.reference)
      const difference = differenceOf(ours.get(payment.reference), payment)
      if (!difference) continue
      const left = await repair(app, difference)
      if (left) differences.push(left)
      else repaired.push(difference)
    }
    if (theirs.length > 0) onProgress(seen.size, theirs.at(-1)!.reference)
  }
  const lookUp = async (reference: string) => {
    const lookup = await app.provider.findPayment(reference)
    if (lookup.kind === 'found') return compare([lookup.payment])
    seen.add(reference)
    const ours = (await findOurs(app, [reference])).get(reference)
    const difference = differenceOf(ours, lookup.kind === 'none' ? undefined : 'unknown')
    if (difference) differences.push(difference)
  }

  const { listChanges } = app.provider
  for await (const page of readBook(from, to, app.provider.listPayments)) await compare(page)
  if (listChanges) for await (const page of readBook(from, to, listChanges)) await compare(page)
  for await (const reference of listUnseen(app, from, to, seen)) await lookUp(reference)
  if (!listChanges)
    for await (const reference of listChangeable(app, from, after, seen)) await lookUp(reference)
  return { compared: seen.size, repaired, differences: [...differences, ...(await unmatchedOf(app))] }
}

const readTries = 3

/** All pages of one of the provider's lists. */
export async function* readBook(
  from: Date,
  to: Date,
  list: (from: Date, to: Date, cursor: string | null) => Promise<PaymentListing>,
): AsyncGenerator<readonly ProviderPayment[]> {
  let cursor: string | null = null
  do {
    let listing = await list(from, to, cursor)
    for (let tries = 1; listing.kind !== 'page' && tries < readTries; tries++) {
      listing = await list(from, to, cursor)
    }
    if (listing.kind !== 'page') throw new BookUnreadable("The provider's book cannot be read just now.")
    yield listing.payments
    cursor = listing.next
  } while (cursor !== null)
}

/** Our payments of that time in which money moved or may have moved, and which the provider's list did not show. */
async function* listUnseen(
  app: BillingApp,
  from: Date,
  to: Date,
  seen: ReadonlySet<string>,
): AsyncGenerator<string> {
  let after = lowestId('pay_', from)
  const before = highestId('pay_', to)
  for (;;) {
    const rows = await app.db
      .selectFrom('billing.payment')
      .select(['id', 'provider_reference'])
      .where('created_at', '>=', from)
      .where('created_at', '<', to)
      .where('status', '<>', 'failed')
      // An id tells when it was made, so that nothing older or newer is read.
      .where('id', '>', after)
      .where('id', '<', before)
      .orderBy('id')
      .limit(500)
      .execute()
    if (rows.length === 0) return
    for (const { provider_reference: reference } of rows) if (!seen.has(reference)) yield reference
    after = rows.at(-1)!.id
  }
}

// Cards let a customer dispute for months, and no provider refunds what is older than this.
const changeableForMs = 400 * 86_400_000

/**
 * Our older payments to which something may still have happened, for providers that cannot say to which it did: money that
 * is still there, or that went back and may come again.
 */
async function* listChangeable(
  app: BillingApp,
  before: Date,
  after: string | undefined,
  seen: ReadonlySet<string>,
): AsyncGenerator<string> {
  const stoppedAt = after === undefined ? undefined : (await findOurs(app, [after])).get(after)
  const oldest = new Date(before.getTime() - changeableForMs)
  // An id tells when it was made, so that nothing older or newer is read.
  for (let last = stoppedAt?.paymentId ?? lowestId('pay_', oldest); ; ) {
    const rows = await app.db
      .selectFrom('billing.payment')
      .select(['id', 'provider_reference'])
      .where('created_at', '>=', oldest)
      .where('created_at', '<', before)
      .where('status', '=', 'succeeded')
      .where('id', '>', last)
      .where('id', '<', highestId('pay_', before))
      .orderBy('id')
      .limit(500)
      .execute()
    if (rows.length === 0) return
    for (const { provider_reference: reference } of rows) if (!seen.has(reference)) yield reference
    last = rows.at(-1)!.id
  }
}

/** Records what the provider knows and sends what we owe. Undefined: both books agree now. */
async function repair(app: BillingApp, difference: Difference): Promise<Difference | undefined> {
  const { reference, paymentId } = difference
  if (paymentId === null) return difference
  await settleFromProvider(app, reference)
  const pending = await app.db
    .selectFrom('billing.refund')
    .select('id')
    .where('payment_id', '=', paymentId)
    .where('status', '=', 'pending')
    .orderBy('id')
    .execute()
  for (const { id } of pending) await sendRefund(app, id)

  const lookup = await app.provider.findPayment(reference)
  const ours = (await findOurs(app, [reference])).get(reference)
  return differenceOf(ours, lookup.kind === 'found' ? lookup.payment : 'unknown')
}

async function findOurs(
  app: BillingApp,
  references: readonly string[],
): Promise<ReadonlyMap<string, OurPayment>> {
  if (references.length === 0) return new Map()
  const rows = await app.db
    .selectFrom('billing.payment')
    .select([
      'id',
      'provider_reference',
      'account_id',
      'status',
      'amount',
      'currency',
      'refunded',
      'refund_pending',
      'dispute_status',
      'dispute_amount',
    ])
    .where('provider_reference', 'in', [...references])
    .execute()
  return new Map(
    rows.map((row) => [
      row.provider_reference,
      {
        paymentId: row.id,
        reference: row.provider_reference,
        accountId: row.account_id,
        status: row.status,
        amount: { minor: row.amount, currency: row.currency },
        refunded: row.refunded,
        refundPending: row.refund_pending,
        dispute: row.dispute_status && { status: row.dispute_status, amount: row.dispute_amount! },
      },
    ]),
  )
}

const mostUnmatched = 10_000

/** Of whatever time: both books may agree on it, and yet it belongs to somebody else. */
async function unmatchedOf(app: BillingApp): Promise<Difference[]> {
  return (await listUnmatched(app.db, mostUnmatched)).map((one) => ({
    kind: 'unmatched',
    paymentId: one.paymentId,
    reference: one.reference,
    accountId: one.accountId,
    ours: { status: one.reason, amount: one.captured, refunded: one.refunded },
    theirs: null,
  }))
}
