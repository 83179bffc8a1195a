import type { NewEvent } from '../events/event-rows.ts'
import type { Money } from '../money.ts'

/** What others are told about a refund. */
export function refundEvent(
  type: 'refund.succeeded' | 'refund.failed' | 'refund.reversed' | 'payment.disputed',
  refund: {
    readonly refundId: string
    readonly paymentId: string
    readonly invoiceId: string
    readonly accountId: string
    readonly subscriptionId: string
    readonly amount: Money
  },
  code?: string,
): NewEvent {
  return {
    type,
    accountId: refund.accountId,
    subscriptionId: refund.subscriptionId,
    data: {
      refund_id: refund.refundId,
      payment_id: refund.paymentId,
      invoice_id: refund.invoiceId,
      amount: Number(refund.amount.minor),
      currency: refund.amount.currency,
      ...(code !== undefined && { code }),
    },
  }
}
