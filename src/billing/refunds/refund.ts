import type { InvoiceStatus } from '../invoices/invoice.ts'
import { type Money, sameMoney } from '../money.ts'
import type { MovementStatus } from '../payments/payment.ts'
import type { ProviderGuards, ProviderPayment, RefundOutcome } from '../providers/port.ts'
import type { BillingRefusal } from '../refusals.ts'

export const refundReasons = ['duplicate', 'fraudulent', 'requested_by_customer', 'other'] as const

export type RefundReason = (typeof refundReasons)[number]

export type Refund = {
  readonly refundId: string
  readonly invoiceId: string
  readonly paymentId: string
  readonly accountId: string
  readonly amount: Money
  readonly reason: RefundReason | null
  readonly note: string | null
  readonly status: MovementStatus
  /** Why it failed. */
  readonly code: RefundFailure | null
  readonly createdAt: Date
  readonly timeZone: string
}

export type RefundFailure = 'refund_declined' | 'payment_disputed' | 'provider_unavailable' | 'never_arrived'

/** What an invoice's payment says before money goes back. */
export type Refundable = {
  readonly invoiceStatus: InvoiceStatus
  readonly captured: bigint
  readonly refunded: bigint
  readonly pending: bigint
  readonly disputed: boolean
  /** An earlier refund got no clear answer. */
  readonly inDoubt: boolean
}

export function remainingOf(payment: Pick<Refundable, 'captured' | 'refunded' | 'pending'>): bigint {
  return payment.captured - payment.refunded - payment.pending
}

/** Why so much cannot be refunded, or null. Without an amount all that remains is meant. */
export function refundRefusal(payment: Refundable, amount: bigint | undefined): BillingRefusal | null {
  if (payment.invoiceStatus !== 'refunded' && !isPaid(payment.invoiceStatus)) return 'invoice_not_paid'
  if (payment.disputed) return 'payment_disputed'
  if (payment.inDoubt) return 'refund_in_doubt'
  const remaining = remainingOf(payment)
  if (remaining === 0n) return 'nothing_to_refund'
  return amount !== undefined && amount > remaining ? 'refund_exceeds_remaining' : null
}

function isPaid(status: InvoiceStatus): boolean {
  return status === 'paid' || status === 'partially_refunded'
}

type OnRecord =
  /** `mismatch`: it stands there by its name, with another amount. */
  Exclude<RefundOutcome, { kind: 'remaining_differs' | 'credentials_refused' }> | { kind: 'none' }

/**
 * What the provider's own record of a payment says about a refund of ours. Providers that carry our reference are
 * taken at their word, whatever else went back; of others the total tells, because refunds of one payment are sent one
 * after another.
 */
export function refundOnRecord(
  record: ProviderPayment,
  refund: { readonly reference: string; readonly amount: Money },
  settledBefore: bigint,
  { namesRefunds }: Pick<ProviderGuards, 'namesRefunds'>,
): OnRecord {
  const ours = record.refunds.find(({ reference }) => reference === refund.reference)
  if (ours) {
    if (!sameMoney(ours.amount, refund.amount)) return { kind: 'mismatch' }
    if (ours.status === 'succeeded') return { kind: 'done' }
    return { kind: ours.status === 'pending' ? 'pending' : 'declined' }
  }
  const covered = record.refunded.minor >= settledBefore + refund.amount.minor
  return !namesRefunds && covered ? { kind: 'done' } : { kind: 'none' }
}
