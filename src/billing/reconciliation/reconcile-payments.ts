import { sql } from 'kysely'
import { highestId, lowestId } from '../../platform/id.ts'
import type { BillingApp } from '../app.ts'
import { settleFromProvider } from '../collection/settle-from-provider.ts'
import type { PaymentListing, Provider, ProviderPayment } from '../providers/port.ts'
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
  const providers = await listProviders(app, from, to)
  const stoppedAt = after === undefined ? undefined : await findPlace(app, after)
  const found: Found = { compared: 0, repaired: [], differences: [] }
  let isPast = stoppedAt === undefined
  for (const provider of providers) {
    isPast ||= provider.name === stoppedAt?.provider
    const lookFrom = provider.name === stoppedAt?.provider ? stoppedAt.paymentId : undefined
    await reconcileProvider(app, provider, { from, to, found, skipOlder: !isPast, lookFrom, onProgress })
  }
  return { ...found, differences: [...found.differences, ...(await unmatchedOf(app))] }
}

type Found = { compared: number; readonly repaired: Difference[]; readonly differences: Difference[] }

/** Those that can be asked, and those that took payments of that time and whose keys are gone. */
async function listProviders(app: BillingApp, from: Date, to: Date): Promise<Provider[]> {
  const { rows } = await sql<{ provider: string }>`
    select distinct provider from billing.payment where created_at >= ${from} and created_at < ${to}`.execute(
    app.db,
  )
  const names = new Set([
    ...app.providers.all.map(({ name }) => name),
    ...rows.map(({ provider }) => provider).sort(),
  ])
  return [...names].map((name) => app.providers.named(name))
}

async function reconcileProvider(
  app: BillingApp,
  provider: Provider,
  {
    from,
    to,
    found,
    skipOlder,
    lookFrom,
    onProgress,
  }: {
    from: Date
    to: Date
    found: Found
    skipOlder: boolean
    lookFrom: string | undefined
    onProgress: (compared: number, last: string) => void
  },
): Promise<void> {
  const seen = new Set<string>()
  const { repaired, differences } = found
  const { name } = provider
  const compare = async (listed: readonly ProviderPayment[]) => {
    const theirs = listed.filter(({ reference }) => !seen.has(reference))
    const ours = await findOurs(
      app,
      name,
      theirs.map(({ reference }) => reference),
    )
    for (const payment of theirs) {
      seen.add(payment.reference)
      const difference = differenceOf(ours.get(payment.reference), payment)
      if (!difference) continue
      const left = await repair(app, provider, difference)
      if (left) differences.push(left)
      else repaired.push(difference)
    }
    if (theirs.length > 0) onProgress(found.compared + seen.size, theirs.at(-1)!.reference)
  }
  const lookUp = async (reference: string) => {
    const ours = (await findOurs(app, name, [reference])).get(reference)
    const lookup = await provider.findPayment(reference, ours?.providerId)
    if (lookup.kind === 'found') return compare([lookup.payment])
    seen.add(reference)
    const difference = differenceOf(ours, lookup.kind === 'none' ? undefined : 'unknown')
    if (difference) differences.push(difference)
  }

  const { listChanges } = provider
  // Of one whose keys are gone there is no book to read; what we know of it stays in doubt.
  const isThere = app.providers.all.includes(provider)
  if (isThere) for await (const page of readBook(from, to, provider.listPayments)) await compare(page)
  if (listChanges) for await (const page of readBook(from, to, listChanges)) await compare(page)
  for await (const reference of listUnseen(app, name, from, to, seen)) await lookUp(reference)
  if (isThere && !listChanges && !skipOlder)
    for await (const reference of listChangeable(app, name, from, lookFrom, seen)) await lookUp(reference)
  found.compared += seen.size
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
  provider: string,
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
      .where('provider', '=', provider)
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
  provider: string,
  before: Date,
  after: string | undefined,
  seen: ReadonlySet<string>,
): AsyncGenerator<string> {
  const oldest = new Date(before.getTime() - changeableForMs)
  // An id tells when it was made, so that nothing older or newer is read.
  for (let last = after ?? lowestId('pay_', oldest); ; ) {
    const rows = await app.db
      .selectFrom('billing.payment')
      .select(['id', 'provider_reference'])
      .where('created_at', '>=', oldest)
      .where('created_at', '<', before)
      .where('provider', '=', provider)
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
async function repair(
  app: BillingApp,
  provider: Provider,
  difference: Difference,
): Promise<Difference | undefined> {
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

  const readOurs = async () => (await findOurs(app, provider.name, [reference])).get(reference)
  const lookup = await provider.findPayment(reference, (await readOurs())?.providerId)
  const ours = await readOurs()
  return differenceOf(ours, lookup.kind === 'found' ? lookup.payment : 'unknown')
}

/** The payment at which an earlier run stopped. */
async function findPlace(
  app: BillingApp,
  reference: string,
): Promise<{ paymentId: string; provider: string } | undefined> {
  return app.db
    .selectFrom('billing.payment')
    .select(['id as paymentId', 'provider'])
    .where('provider_reference', '=', reference)
    .executeTakeFirst()
}

async function findOurs(
  app: BillingApp,
  provider: string,
  references: readonly string[],
): Promise<ReadonlyMap<string, OurPayment>> {
  if (references.length === 0) return new Map()
  const rows = await app.db
    .selectFrom('billing.payment')
    .select([
      'id',
      'provider_reference',
      'provider_id',
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
    .where('provider', '=', provider)
    .execute()
  return new Map(
    rows.map((row) => [
      row.provider_reference,
      {
        paymentId: row.id,
        reference: row.provider_reference,
        providerId: row.provider_id,
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
