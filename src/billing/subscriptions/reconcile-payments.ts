import { highestId, lowestId } from '../../platform/id.ts'
import type { BillingApp } from '../app.ts'
import type { ProviderPayment } from '../providers/port.ts'
import { sendRefund } from '../refunds/send-refund.ts'
import { type Difference, differenceOf, type OurPayment } from './reconciliation.ts'
import { settleFromProvider } from './settle-from-provider.ts'

export type Reconciliation = {
  /** Payments that either side knows in this time. */
  readonly compared: number
  readonly repaired: readonly Difference[]
  readonly differences: readonly Difference[]
}

/** The provider could not be read, so nothing can be said about its book. */
export class BookUnreadable extends Error {
  override name = 'BookUnreadable'
}

/**
 * Compares the provider's book with ours between two instants. A difference that the truth at the provider explains is
 * recorded as if a notification had told of it; what then still differs is for a person.
 */
export async function reconcilePayments(
  app: BillingApp,
  from: Date,
  to: Date,
  onProgress: (compared: number) => void = () => {},
): Promise<Reconciliation> {
  const seen = new Set<string>()
  const repaired: Difference[] = []
  const differences: Difference[] = []
  const compare = async (theirs: readonly ProviderPayment[]) => {
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
    onProgress(seen.size)
  }

  for await (const page of readBook(app, from, to)) await compare(page)
  for await (const reference of listUnseen(app, from, to, seen)) {
    const lookup = await app.provider.findPayment(reference)
    if (lookup.kind === 'found') await compare([lookup.payment])
    else {
      seen.add(reference)
      const ours = (await findOurs(app, [reference])).get(reference)
      const difference = differenceOf(ours, lookup.kind === 'none' ? undefined : 'unknown')
      if (difference) differences.push(difference)
    }
  }
  return { compared: seen.size, repaired, differences }
}

const readTries = 3

async function* readBook(app: BillingApp, from: Date, to: Date): AsyncGenerator<readonly ProviderPayment[]> {
  let cursor: string | null = null
  do {
    let listing = await app.provider.listPayments(from, to, cursor)
    for (let tries = 1; listing.kind !== 'page' && tries < readTries; tries++) {
      listing = await app.provider.listPayments(from, to, cursor)
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
      'disputed',
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
        disputed: row.disputed,
      },
    ]),
  )
}
