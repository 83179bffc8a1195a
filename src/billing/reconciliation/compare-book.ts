import type { BillingApp } from '../app.ts'
import { settleFromProvider } from '../collection/settle-from-provider.ts'
import { clearContradictions } from '../payments/contradiction.ts'
import type { Provider, ProviderPayment } from '../providers/port.ts'
import { listPendingRefunds } from '../refunds/refund-rows.ts'
import { sendRefund } from '../refunds/send-refund.ts'
import {
  type Difference,
  differenceOf,
  holdsMoney,
  isAnother,
  type OurPayment,
  type PlacedDifference,
  tellDifference,
} from './compare.ts'
import { duplicateOf, noteDuplicate } from './duplicate-payment.ts'
import { isolate } from './isolate.ts'
import { findOurs } from './our-payment-rows.ts'

/** What comparing the books of all providers has found so far. */
export type Found = {
  compared: number
  readonly repaired: PlacedDifference[]
  readonly differences: PlacedDifference[]
  /** Second payments of a reference, by provider and its id. */
  readonly duplicates: Set<string>
}

/** One provider's book held against ours. */
export type BookComparison = {
  /** References that were compared. */
  readonly seen: ReadonlySet<string>
  /** A page of the provider's list. What was on an earlier page is not compared again. */
  compareListed(page: readonly ProviderPayment[]): Promise<void>
  /** A payment of ours that no list has shown. */
  lookUp(reference: string): Promise<void>
}

export function openBookComparison(
  app: BillingApp,
  provider: Provider,
  found: Found,
  onProgress: (compared: number, last: string) => void,
): BookComparison {
  const { name } = provider
  const { repaired, differences } = found
  const seen = new Set<string>()
  const listedBefore = new Set<string>()
  /** Payments on which both books agree, until that is noted. */
  const agreeing: string[] = []

  async function readOurs(reference: string): Promise<OurPayment | undefined> {
    return (await findOurs(app.db, name, [reference])).get(reference)
  }

  async function compareOurs(ours: OurPayment | undefined, payment: ProviderPayment): Promise<void> {
    if (seen.has(payment.reference)) return
    seen.add(payment.reference)
    const difference = differenceOf(ours, payment)
    if (!difference) return void agreeing.push(ours!.paymentId)
    const left = await repair(app, provider, difference)
    if (left) differences.push({ ...left, provider: name })
    else repaired.push({ ...difference, provider: name })
  }

  async function endContradictions(): Promise<void> {
    await clearContradictions(app.db, agreeing.splice(0))
  }

  /** Money under a reference of ours that is not the payment we know by it. */
  async function compareTwin(ours: OurPayment | undefined, payment: ProviderPayment): Promise<void> {
    if (!ours || !holdsMoney(payment)) return
    // Which of several is ours may have been settled only now.
    const now = ours.providerId ? ours : ((await readOurs(payment.reference)) ?? ours)
    if (!isAnother(now, payment)) return
    found.duplicates.add(keyAtProvider(name, payment.providerId))
    await noteDuplicate(app, name, now, payment)
    differences.push({ ...duplicateOf(now, payment.providerId, payment), provider: name })
  }

  return {
    seen,
    async compareListed(page) {
      const theirs = page.filter((payment) => !listedBefore.has(nameOf(payment)))
      const references = theirs.map(({ reference }) => reference)
      const known = await findOurs(app.db, name, references)
      for (const payment of theirs) {
        listedBefore.add(nameOf(payment))
        const { reference } = payment
        const ours = known.get(reference)
        await isolatePayment(
          app,
          differences,
          { provider: name, reference, ours, theirs: payment },
          async () => {
            if (!isAnother(ours, payment)) await compareOurs(ours, payment)
            await compareTwin(ours, payment)
          },
        )
      }
      await endContradictions()
      if (theirs.length > 0) onProgress(found.compared + seen.size, theirs.at(-1)!.reference)
    },
    async lookUp(reference) {
      const ours = await readOurs(reference)
      await isolatePayment(
        app,
        differences,
        { provider: name, reference, ours, theirs: undefined },
        async () => {
          const lookup = await provider.findPayment(reference, ours?.providerId)
          if (lookup.kind === 'found') return compareOurs(ours, lookup.payment)
          const difference = differenceOf(ours, lookup.kind === 'none' ? undefined : 'unknown')
          if (difference) differences.push({ ...difference, provider: name })
        },
      )
      await endContradictions()
      seen.add(reference)
      onProgress(found.compared + seen.size, reference)
    },
  }
}

/** Several payments may go by one reference. */
function nameOf({ reference, providerId }: ProviderPayment): string {
  return `${reference} ${providerId}`
}

export function keyAtProvider(provider: string, providerId: string): string {
  return `${provider} ${providerId}`
}

type Compared = {
  provider: string
  reference: string
  ours: OurPayment | undefined
  theirs: ProviderPayment | undefined
}

/** What goes wrong with one payment is a difference of that one. */
export async function isolatePayment(
  app: BillingApp,
  differences: PlacedDifference[],
  { provider, reference, ours, theirs }: Compared,
  work: () => Promise<void>,
): Promise<void> {
  await isolate(app, reference, work, (reason) => {
    differences.push({ ...tellDifference('failed', ours, theirs), provider, reference, reason })
  })
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
