import type { NewEvent } from '../events/event-rows.ts'
import type { LockedPayment } from './locked-payment-rows.ts'

export function paymentEvent(
  type: NewEvent['type'],
  about: Pick<LockedPayment, 'paymentId' | 'invoiceId' | 'subscriptionId' | 'accountId'>,
  code?: string,
): NewEvent {
  return {
    type,
    accountId: about.accountId,
    subscriptionId: about.subscriptionId,
    data: {
      invoice_id: about.invoiceId,
      payment_id: about.paymentId,
      ...(code !== undefined && { code }),
    },
  }
}
