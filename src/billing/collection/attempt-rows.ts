import { sql } from 'kysely'
import { newId } from '../../platform/id.ts'
import type { BillingTx } from '../app.ts'
import { type Attempt, freshAttempt, type MethodInUse } from '../payments/payment.ts'
import { realTimeIn } from '../payments/payment-rows.ts'
import { limitOf, type Which, wanted } from '../sweeps/sweep-failure-rows.ts'

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
      provider: method.provider,
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
    provider: method.provider,
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

/** `id` is the subscription's, which is what is locked. */
export type DueRetry = { readonly id: string; readonly invoiceId: string; readonly method: MethodInUse }

/** Invoices whose retry is due, the longest due first, with the payment method that their subscription has now. */
export async function lockDueRetries(tx: BillingTx, now: Date, which: Which): Promise<DueRetry[]> {
  const found = await sql<{
    id: string
    invoice_id: string
    method_id: string
    provider: string
    sealed: Buffer | null
    exchanged: boolean
  }>`
    select s.id, i.id as invoice_id, m.id as method_id, m.provider, m.sealed, m.exchanged
    from billing.invoice i
    join billing.subscription s on s.id = i.subscription_id
    join billing.payment_method m on m.id = s.payment_method_id
    where i.due_at <= ${now} and i.dunning = 'retry' and ${wanted('retries', sql.ref('s.id'), which)}
    order by i.due_at
    limit ${limitOf(which)}
    for update of s skip locked`.execute(tx)
  return found.rows.map(
    ({ id, invoice_id: invoiceId, method_id: methodId, provider, sealed, exchanged }) => ({
      id,
      invoiceId,
      method: { methodId, provider, sealed, exchanged },
    }),
  )
}
