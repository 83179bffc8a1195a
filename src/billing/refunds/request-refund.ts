import type { BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { insertEvents } from '../events/event-rows.ts'
import { fromJson, toJson } from '../money.ts'
import { refuse } from '../refusals.ts'
import { type RefundReason, refundRefusal, remainingOf } from './refund.ts'
import { insertRefund, lockRefundable } from './refund-rows.ts'

export type RefundAsked = {
  readonly invoiceId: string
  readonly amount: number | undefined
  readonly reason: RefundReason | null
  readonly note: string | null
  readonly actor: Actor
  /** Whether the caller may know of this account at all. */
  readonly mayTouch: (accountId: string) => boolean
}

/** Records the intent to refund. The money moves in `sendRefund`, after this commits. */
export async function requestRefund(
  tx: BillingTx,
  now: Date,
  asked: RefundAsked,
  leaseMs: number,
): Promise<string> {
  const payment = await lockRefundable(tx, asked.invoiceId)
  if (!payment || !asked.mayTouch(payment.accountId)) throw refuse('invoice_not_found')

  const given =
    asked.amount === undefined ? undefined : fromJson({ amount: asked.amount, currency: payment.currency })
  const no = refundRefusal(payment, given?.minor)
  if (no) throw refuse(no)

  const amount = given ?? { minor: remainingOf(payment), currency: payment.currency }
  const refund = {
    paymentId: payment.paymentId!,
    invoiceId: payment.invoiceId,
    accountId: payment.accountId,
    amount,
    reason: asked.reason,
    note: asked.note,
    origin: 'request',
  } as const
  const refundId = await insertRefund(tx, now, refund, leaseMs)
  await insertEvents(tx, now, [
    {
      type: 'refund.requested',
      accountId: payment.accountId,
      subscriptionId: payment.subscriptionId,
      data: {
        refund_id: refundId,
        invoice_id: payment.invoiceId,
        ...toJson(amount),
        reason: asked.reason,
      },
    },
  ])
  await insertAudit(tx, {
    at: now,
    actor: asked.actor,
    action: 'refund.request',
    accountId: payment.accountId,
    target: payment.subscriptionId,
  })
  return refundId
}
