import type { NewEvent } from '../events/event-rows.ts'
import { toJson } from '../money.ts'
import type { SettledRefund } from './refund-rows.ts'

/** What others are told about a refund. */
export function refundEvent(
  type: 'refund.succeeded' | 'refund.failed' | 'refund.reversed' | 'payment.disputed',
  refund: Omit<SettledRefund, 'unmatched' | 'refunded' | 'refundPending'>,
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
      ...toJson(refund.amount),
      ...(code !== undefined && { code }),
    },
  }
}
