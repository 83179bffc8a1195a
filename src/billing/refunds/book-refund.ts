import type { BillingTx } from '../app.ts'
import type { NewEvent } from '../events/event-rows.ts'
import { setRefunded } from '../invoices/invoice-rows.ts'
import { postTransfers } from '../ledger/ledger-rows.ts'
import { refundEvent } from './refund-event.ts'
import type { SettledRefund } from './refund-rows.ts'

/** Money that went back, in invoice totals and ledger. The caller tells of the event. */
export async function bookRefund(
  tx: BillingTx,
  now: Date,
  refund: Omit<SettledRefund, 'refundPending'>,
): Promise<NewEvent> {
  const { refundId, accountId, amount, unmatched } = refund
  if (!unmatched) await setRefunded(tx, refund.invoiceId, refund.refunded)
  const to = unmatched ? 'unclaimed' : 'refunds'
  await postTransfers(tx, now, [{ cause: `refund:${refundId}`, accountId, amount, from: 'provider', to }])
  return refundEvent('refund.succeeded', refund)
}

/** A refund that was booked and failed after all: the money is still there, so a new transfer says so. The caller tells of the event. */
export async function bookReversal(tx: BillingTx, now: Date, undone: SettledRefund): Promise<NewEvent> {
  const { refundId, accountId, amount, unmatched } = undone
  if (!unmatched) await setRefunded(tx, undone.invoiceId, undone.refunded)
  const from = unmatched ? 'unclaimed' : 'refunds'
  await postTransfers(tx, now, [
    { cause: `refund_reversal:${refundId}`, accountId, amount, from, to: 'provider' },
  ])
  return refundEvent('refund.reversed', undone)
}
