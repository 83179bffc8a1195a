import type { BillingTx } from '../app.ts'
import type { NewEvent } from '../events/event-rows.ts'
import { setRefunded } from '../invoices/invoice-rows.ts'
import { postTransfers } from '../ledger/ledger-rows.ts'
import type { Money } from '../money.ts'
import { refundEvent } from './refund-event.ts'
import { insertForeignRefund } from './refund-rows.ts'

export type RefundedPayment = {
  readonly paymentId: string
  readonly invoiceId: string
  readonly accountId: string
  readonly subscriptionId: string
  readonly stray: boolean
  /** What has gone back of it so far, as we know. */
  readonly refunded: bigint
}

/**
 * Records money that the provider gave back though none of our refunds stands for it: by hand in its console, or by a
 * request of ours that arrived after we had given it up. The caller holds the payment's lock and tells of the event.
 */
export async function recordRefundElsewhere(
  tx: BillingTx,
  now: Date,
  payment: RefundedPayment,
  amount: Money,
): Promise<NewEvent> {
  const { invoiceId, accountId, stray } = payment
  const refundId = await insertForeignRefund(tx, now, { ...payment, amount })
  if (!stray) await setRefunded(tx, invoiceId, payment.refunded + amount.minor)
  const to = stray ? 'unclaimed' : 'refunds'
  await postTransfers(tx, now, [{ cause: `refund:${refundId}`, accountId, amount, from: 'provider', to }])
  return refundEvent('refund.succeeded', { ...payment, refundId, amount })
}
