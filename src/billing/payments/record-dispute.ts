import type { BillingTx } from '../app.ts'
import type { NewEvent } from '../events/event-rows.ts'
import { postTransfers } from '../ledger/ledger-rows.ts'
import { toJson } from '../money.ts'
import { lostIn, type ProviderDispute } from '../providers/port.ts'
import { updateDispute } from './dispute-rows.ts'

/** What we know of a payment's dispute, read under the payment's lock. */
export type KnownDispute = {
  readonly paymentId: string
  readonly invoiceId: string
  readonly accountId: string
  readonly subscriptionId: string
  readonly unmatched: boolean
  readonly status: ProviderDispute['status'] | null
  /** What the ledger says that lost ones took. */
  readonly lost: bigint
  readonly postings: number
}

/**
 * Follows the provider's word on a dispute, whichever way it goes: opened, won, lost, and lost or won after all. What a
 * lost one takes leaves the provider's book by a transfer; the invoice stays as issued. The caller holds the payment's lock
 * and tells of the events.
 */
export async function recordDispute(
  tx: BillingTx,
  now: Date,
  known: KnownDispute,
  dispute: ProviderDispute,
): Promise<NewEvent[]> {
  const lost = lostIn(dispute)
  const moved = lost - known.lost
  const lookupAt = dispute.status === 'open' ? disputeLookupAfter(now) : null
  await updateDispute(tx, known.paymentId, dispute, { lookupAt, lost, postings: moved === 0n ? 0 : 1 })
  if (moved !== 0n) await postLoss(tx, now, known, { minor: moved, currency: dispute.amount.currency })

  const types: NewEvent['type'][] = []
  if (known.status === null) types.push('payment.disputed')
  if (dispute.status === 'won' && known.status !== 'won') types.push('payment.dispute_won')
  if (dispute.status === 'lost' && known.status !== 'lost') types.push('payment.dispute_lost')
  return types.map((type) => ({
    type,
    accountId: known.accountId,
    subscriptionId: known.subscriptionId,
    data: {
      payment_id: known.paymentId,
      invoice_id: known.invoiceId,
      ...toJson(dispute.amount),
    },
  }))
}

const dayMs = 86_400_000

/** Banks take weeks to decide, and a notification of it may be lost. */
export function disputeLookupAfter(now: Date): Date {
  return new Date(now.getTime() + dayMs)
}

/** Money that paid for nothing is given back by losing it; any other is lost. */
async function postLoss(
  tx: BillingTx,
  now: Date,
  { paymentId, accountId, unmatched, postings }: KnownDispute,
  moved: { minor: bigint; currency: ProviderDispute['amount']['currency'] },
): Promise<void> {
  const isLoss = moved.minor > 0n
  const amount = isLoss ? moved : { ...moved, minor: -moved.minor }
  const taker = unmatched ? 'unclaimed' : 'disputes'
  // The first loss is the only one as a rule; a bank that thinks again is told apart by the number.
  const number = postings === 0 ? '' : `:${postings + 1}`
  await postTransfers(tx, now, [
    {
      cause: `${isLoss ? 'dispute_lost' : 'dispute_reversal'}:${paymentId}${number}`,
      accountId,
      amount,
      ...(isLoss ? { from: 'provider', to: taker } : { from: taker, to: 'provider' }),
    },
  ])
}
