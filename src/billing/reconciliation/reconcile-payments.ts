import { lowestId } from '../../platform/id.ts'
import type { BillingApp } from '../app.ts'
import type { Provider } from '../providers/port.ts'
import { listUnmatched } from '../refunds/unmatched-rows.ts'
import type { PlacedDifference } from './compare.ts'
import { type Found, isolatePayment, keyAtProvider, openBookComparison } from './compare-book.ts'
import { followDuplicate } from './duplicate-payment.ts'
import { listDuplicates } from './duplicate-payment-rows.ts'
import {
  findOurs,
  findPlace,
  listPaymentsOfTime,
  listProvidersOf,
  type PaymentsOfTime,
} from './our-payment-rows.ts'
import { readBook } from './read-book.ts'

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
  const { name, listChanges } = provider
  const { seen, compareListed, lookUp } = openBookComparison(app, provider, found, onProgress)
  // Of one whose keys are gone there is no book to read; what we know of it stays in doubt.
  const isThere = app.providers.all.includes(provider)
  if (isThere)
    for await (const page of readBook(name, from, to, provider.listPayments)) await compareListed(page)
  if (listChanges) for await (const page of readBook(name, from, to, listChanges)) await compareListed(page)
  for await (const reference of listUnseen(app, name, from, to, seen)) await lookUp(reference)
  if (isThere && !listChanges && !skipOlder)
    for await (const reference of listChangeable(app, name, from, lookFrom, seen)) await lookUp(reference)
  found.compared += seen.size
}

const mostDuplicates = 10_000

/** Of whatever time: those found earlier are told until their money is gone. */
async function followDuplicates(app: BillingApp, found: Found): Promise<void> {
  for (const known of await listDuplicates(app.db, mostDuplicates)) {
    const { provider, providerId, reference } = known
    if (found.duplicates.has(keyAtProvider(provider, providerId))) continue
    const ours = (await findOurs(app.db, provider, [reference])).get(reference)
    await isolatePayment(
      app,
      found.differences,
      { provider, reference, ours, theirs: undefined },
      async () => {
        const left = await followDuplicate(app, known, ours)
        if (left) found.differences.push({ ...left, provider })
        found.compared++
      },
    )
  }
  found.compared += found.duplicates.size
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
