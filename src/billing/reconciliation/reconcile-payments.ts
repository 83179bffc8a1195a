import { lowestId } from '../../platform/id.ts'
import type { BillingApp } from '../app.ts'
import { settleFromProvider } from '../collection/settle-from-provider.ts'
import type { PaymentListing, Provider, ProviderPayment } from '../providers/port.ts'
import { listPendingRefunds } from '../refunds/refund-rows.ts'
import { sendRefund } from '../refunds/send-refund.ts'
import { listUnmatched } from '../refunds/unmatched-rows.ts'
import { concernsAll, reasonOf } from '../sweeps/sweep-failures.ts'
import {
  type Difference,
  differenceOf,
  holdsMoney,
  isAnother,
  type OurPayment,
  type PlacedDifference,
  tellDifference,
} from './compare.ts'
import { duplicateOf, followDuplicate, noteDuplicate } from './duplicate-payment.ts'
import { listDuplicates } from './duplicate-payment-rows.ts'
import {
  findOurs,
  findPlace,
  listPaymentsOfTime,
  listProvidersOf,
  type PaymentsOfTime,
} from './our-payment-rows.ts'

export type Reconciliation = {
  /** Payments that either side knows in this time, and older ones to which something happened in it. */
  readonly compared: number
  readonly repaired: readonly PlacedDifference[]
  readonly differences: readonly PlacedDifference[]
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
  const stoppedAt = after === undefined ? undefined : await findPlace(app.db, after)
  const found: Found = { compared: 0, repaired: [], differences: [], duplicates: new Set() }
  let isPast = stoppedAt === undefined
  for (const provider of providers) {
    isPast ||= provider.name === stoppedAt?.provider
    const lookFrom = provider.name === stoppedAt?.provider ? stoppedAt.paymentId : undefined
    await reconcileProvider(app, provider, { from, to, found, skipOlder: !isPast, lookFrom, onProgress })
  }
  await followDuplicates(app, found)
  const { compared, repaired } = found
  return { compared, repaired, differences: [...found.differences, ...(await unmatchedOf(app))] }
}

type Compared = {
  provider: string
  reference: string
  ours: OurPayment | undefined
  theirs: ProviderPayment | undefined
}

type Found = {
  compared: number
  readonly repaired: PlacedDifference[]
  readonly differences: PlacedDifference[]
  /** Second payments of a reference, by provider and its id. */
  readonly duplicates: Set<string>
}

/** Those that can be asked, and those that took payments of that time and whose keys are gone. */
async function listProviders(app: BillingApp, from: Date, to: Date): Promise<Provider[]> {
  const used = await listProvidersOf(app.db, from, to)
  const names = new Set([...app.providers.all.map(({ name }) => name), ...used.sort()])
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
  /** References that were compared, and every payment that was listed. */
  const [seen, listedBefore] = [new Set<string>(), new Set<string>()]
  const { repaired, differences } = found
  const { name } = provider
  const readOurs = async (reference: string) => (await findOurs(app.db, name, [reference])).get(reference)
  const compareOurs = async (ours: OurPayment | undefined, payment: ProviderPayment) => {
    if (seen.has(payment.reference)) return
    seen.add(payment.reference)
    const difference = differenceOf(ours, payment)
    if (!difference) return
    const left = await repair(app, provider, difference)
    if (left) differences.push({ ...left, provider: name })
    else repaired.push({ ...difference, provider: name })
  }
  const compareListed = async (ours: OurPayment | undefined, payment: ProviderPayment) => {
    if (!isAnother(ours, payment)) await compareOurs(ours, payment)
    if (!ours || !holdsMoney(payment)) return
    // Which of several is ours may have been settled only now.
    const now = ours.providerId ? ours : ((await readOurs(payment.reference)) ?? ours)
    if (!isAnother(now, payment)) return
    found.duplicates.add(idOf(name, payment.providerId))
    await noteDuplicate(app, name, now, payment)
    differences.push({ ...duplicateOf(now, payment.providerId, payment), provider: name })
  }
  const compare = async (listed: readonly ProviderPayment[]) => {
    const theirs = listed.filter((payment) => !listedBefore.has(nameOf(payment)))
    const ours = await findOurs(
      app.db,
      name,
      theirs.map(({ reference }) => reference),
    )
    for (const payment of theirs) {
      listedBefore.add(nameOf(payment))
      const known = ours.get(payment.reference)
      const compared = { provider: name, reference: payment.reference, ours: known, theirs: payment }
      await isolate(app, differences, compared, () => compareListed(known, payment))
    }
    if (theirs.length > 0) onProgress(found.compared + seen.size, theirs.at(-1)!.reference)
  }
  const lookUp = async (reference: string) => {
    const ours = await readOurs(reference)
    await isolate(app, differences, { provider: name, reference, ours, theirs: undefined }, async () => {
      const lookup = await provider.findPayment(reference, ours?.providerId)
      if (lookup.kind === 'found') return compareOurs(ours, lookup.payment)
      const difference = differenceOf(ours, lookup.kind === 'none' ? undefined : 'unknown')
      if (difference) differences.push({ ...difference, provider: name })
    })
    seen.add(reference)
    onProgress(found.compared + seen.size, reference)
  }

  const { listChanges } = provider
  // Of one whose keys are gone there is no book to read; what we know of it stays in doubt.
  const isThere = app.providers.all.includes(provider)
  if (isThere) for await (const page of readBook(name, from, to, provider.listPayments)) await compare(page)
  if (listChanges) for await (const page of readBook(name, from, to, listChanges)) await compare(page)
  for await (const reference of listUnseen(app, name, from, to, seen)) await lookUp(reference)
  if (isThere && !listChanges && !skipOlder)
    for await (const reference of listChangeable(app, name, from, lookFrom, seen)) await lookUp(reference)
  found.compared += seen.size
}

/** Several payments may go by one reference. */
function nameOf({ reference, providerId }: ProviderPayment): string {
  return `${reference} ${providerId}`
}

function idOf(provider: string, providerId: string): string {
  return `${provider} ${providerId}`
}

/** What goes wrong with one payment is told of that one. A database that is away concerns all of them. */
async function isolate(
  app: BillingApp,
  differences: PlacedDifference[],
  { provider, reference, ours, theirs }: Compared,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (concernsAll(error)) throw error
    app.onReconcileFault?.(error, reference)
    differences.push({
      ...tellDifference('failed', ours, theirs),
      provider,
      reference,
      reason: reasonOf(error),
    })
  }
}

const mostDuplicates = 10_000

/** Of whatever time: those found earlier are told until their money is gone. */
async function followDuplicates(app: BillingApp, found: Found): Promise<void> {
  for (const known of await listDuplicates(app.db, mostDuplicates)) {
    const { provider, providerId, reference } = known
    if (found.duplicates.has(idOf(provider, providerId))) continue
    const ours = (await findOurs(app.db, provider, [reference])).get(reference)
    await isolate(app, found.differences, { provider, reference, ours, theirs: undefined }, async () => {
      const left = await followDuplicate(app, known, ours)
      if (left) found.differences.push({ ...left, provider })
      found.compared++
    })
  }
  found.compared += found.duplicates.size
}

const readTries = 3

/** All pages of one of the provider's lists. */
export async function* readBook(
  name: string,
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
    if (listing.kind === 'credentials_refused')
      throw new BookUnreadable(`The provider "${name}" refuses our keys, so its book cannot be read.`)
    if (listing.kind !== 'page')
      throw new BookUnreadable(`The book of the provider "${name}" cannot be read just now.`)
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
  const after = lowestId('pay_', from)
  yield* readReferences(app, { provider, from, to, which: 'not_failed', after }, seen)
}

// Card networks let a customer dispute for months, and no provider refunds what is older than this.
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
  const last = after ?? lowestId('pay_', oldest)
  yield* readReferences(app, { provider, from: oldest, to: before, which: 'succeeded', after: last }, seen)
}

/** Page by page, but for those that were compared already. */
async function* readReferences(
  app: BillingApp,
  payments: PaymentsOfTime,
  seen: ReadonlySet<string>,
): AsyncGenerator<string> {
  for (let { after } = payments; ; ) {
    const page = await listPaymentsOfTime(app.db, { ...payments, after })
    if (page.length === 0) return
    for (const { reference } of page) if (!seen.has(reference)) yield reference
    after = page.at(-1)!.paymentId
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
  const verdict = await settleFromProvider(app, reference)
  for (const refundId of await listPendingRefunds(app.db, paymentId)) await sendRefund(app, refundId)
  // Now that ours are through, what else went back can be told.
  if (verdict === 'in_motion') await settleFromProvider(app, reference)

  const readOurs = async () => (await findOurs(app.db, provider.name, [reference])).get(reference)
  const lookup = await provider.findPayment(reference, (await readOurs())?.providerId)
  const ours = await readOurs()
  return differenceOf(ours, lookup.kind === 'found' ? lookup.payment : 'unknown')
}

const mostUnmatched = 10_000

/** Of whatever time: both books may agree on it, and yet it belongs to somebody else. */
async function unmatchedOf(app: BillingApp): Promise<PlacedDifference[]> {
  return (await listUnmatched(app.db, mostUnmatched)).map((one) => ({
    kind: 'unmatched',
    paymentId: one.paymentId,
    reference: one.reference,
    provider: one.provider,
    providerId: one.providerId,
    accountId: one.accountId,
    ours: { status: one.reason, amount: one.captured, refunded: one.refunded },
    theirs: { status: 'paid', amount: one.captured, refunded: one.refunded },
  }))
}
