import type { Money } from '../money.ts'
import type { KeptAction } from '../payments/next-action-rows.ts'
import type { MovementStatus, ProviderTrace } from '../payments/payment.ts'
import type { ProviderDispute } from '../providers/port.ts'
import type { Seller } from '../seller.ts'

export const invoiceStatuses = [
  'open',
  'paid',
  'partially_refunded',
  'refunded',
  'uncollectible',
  'void',
] as const

export type InvoiceStatus = (typeof invoiceStatuses)[number]

export const disputeStatuses = ['open', 'won', 'lost'] as const satisfies readonly ProviderDispute['status'][]

/** What an invoice says once so much of what was paid has gone back. */
export function statusAfterRefunds(
  paid: bigint,
  refunded: bigint,
): 'paid' | 'partially_refunded' | 'refunded' {
  if (refunded === 0n) return 'paid'
  return refunded < paid ? 'partially_refunded' : 'refunded'
}

/** The number a person reads. It ends in the account's own gapless counter. */
export function renderNumber(accountId: string, number: number): string {
  return `${accountId}-${String(number).padStart(6, '0')}`
}

export type Invoice = {
  readonly invoiceId: string
  readonly accountId: string
  readonly subscriptionId: string
  readonly number: string
  readonly status: InvoiceStatus
  readonly description: string
  readonly due: Money
  readonly paid: Money
  readonly refunded: Money
  readonly periodStart: Date
  readonly periodEnd: Date
  readonly issuedAt: Date
  readonly paidAt: Date | null
  readonly attemptCount: number
  readonly nextAttemptAt: Date | null
  readonly hold: 'missed' | null
  /** What its customer has to do before it is paid. */
  readonly nextAction: KeptAction | null
  readonly timeZone: string
  readonly seller: Seller
  readonly payments: readonly InvoicePayment[]
  readonly refunds: readonly InvoiceRefund[]
}

export type InvoicePayment = {
  readonly paymentId: string
  /** What the provider knows it by. */
  readonly reference: string
  readonly status: MovementStatus
  readonly amount: Money
  readonly refunded: Money
  readonly code: string | null
  readonly trace: ProviderTrace
  /** The bank has taken it back, or is about to decide. */
  readonly disputed: boolean
  readonly dispute: InvoiceDispute | null
  readonly createdAt: Date
  readonly settledAt: Date | null
}

export type InvoiceDispute = {
  readonly status: (typeof disputeStatuses)[number]
  readonly amount: Money
  readonly openedAt: Date
  readonly closedAt: Date | null
}

export type InvoiceRefund = {
  readonly refundId: string
  readonly paymentId: string
  readonly amount: Money
  readonly status: MovementStatus
  readonly reason: string | null
  readonly note: string | null
  readonly createdAt: Date
}
