import { sql } from 'kysely'
import { newId } from '../../platform/id.ts'
import type { BillingTx } from '../app.ts'
import { type Attempt, freshAttempt, type MethodInUse } from '../payments/payment.ts'
import { realTimeIn } from '../payments/payment-rows.ts'

/**
 * Writes a new attempt to collect an open invoice, leased to the caller, and stops dunning until its outcome is known.
 * Undefined when the invoice is no longer open, or, where `dueBy` is given, no longer due for a retry.
 */
export async function openAttempt(
  tx: BillingTx,
  now: Date,
  invoiceId: string,
  method: MethodInUse,
  leaseMs: number,
  dueBy?: Date,
): Promise<Attempt | undefined> {
  let claim = tx
    .updateTable('billing.invoice')
    .set((row) => ({ due_at: null, attempt_count: row('attempt_count', '+', 1) }))
    .where('id', '=', invoiceId)
    .where('status', '=', 'open')
  if (dueBy) claim = claim.where('due_at', '<=', dueBy).where('dunning', '=', 'retry')
  const invoice = await claim
    .returning([
      'account_id',
      'subscription_id',
      'amount_due',
      'currency',
      'description',
      'issued_at',
      'attempt_count',
      sql<boolean>`coalesce(issued_at <= (select lookup_first_before from billing.installation), false)`.as(
        'maybe_sent_before',
      ),
    ])
    .executeTakeFirst()
  if (!invoice) return undefined

  const paymentId = newId('pay_', now)
  const k = sql<number>`(select k from billing.period where invoice_id = ${invoiceId})`
  const { provider_reference: reference } = await tx
    .insertInto('billing.payment')
    .values({
      id: paymentId,
      provider_reference: sql<string>`billing.charge_reference(${invoice.subscription_id}, ${k}, ${invoice.attempt_count})`,
      invoice_id: invoiceId,
      attempt: invoice.attempt_count,
      subscription_id: invoice.subscription_id,
      account_id: invoice.account_id,
      payment_method_id: method.methodId,
      amount: invoice.amount_due,
      currency: invoice.currency,
      status: 'sending',
      code: null,
      provider_id: null,
      created_at: now,
      sent_at: now,
      settled_at: null,
      sending_until: realTimeIn(leaseMs),
      next_lookup_at: realTimeIn(leaseMs),
      lookup_by: null,
      not_found_since: null,
      resend_code: null,
      resend_since: null,
    })
    .returning('provider_reference')
    .executeTakeFirstOrThrow()
  return {
    paymentId,
    reference,
    invoiceId,
    subscriptionId: invoice.subscription_id,
    accountId: invoice.account_id,
    amount: { minor: invoice.amount_due, currency: invoice.currency },
    description: invoice.description,
    dueAt: invoice.issued_at,
    maybeSentBefore: invoice.maybe_sent_before,
    sentAt: now,
    ...freshAttempt,
    method,
  }
}
