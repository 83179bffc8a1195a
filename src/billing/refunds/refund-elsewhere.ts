import type { BillingTx } from '../app.ts'
import type { NewEvent } from '../events/event-rows.ts'
import type { Money } from '../money.ts'
import { bookRefund } from './book-refund.ts'
import { insertForeignRefund, type SettledRefund } from './refund-rows.ts'

/**
 * Records money that the provider gave back though none of our refunds stands for it: by hand in its console, or by a
 * request of ours that arrived after we had given it up. The caller holds the payment's lock and tells of the event.
 */
export async function recordRefundElsewhere(
  tx: BillingTx,
  now: Date,
  payment: Omit<SettledRefund, 'refundId' | 'amount' | 'refundPending'>,
  amount: Money,
  asked?: { readonly n: number; readonly reference: string },
): Promise<NewEvent> {
  const refundId = await insertForeignRefund(tx, now, { ...payment, amount, asked })
  return bookRefund(tx, now, { ...payment, refundId, amount, refunded: payment.refunded + amount.minor })
}
