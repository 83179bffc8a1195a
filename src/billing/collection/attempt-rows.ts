import { sql } from 'kysely'
import { newId } from '../../platform/id.ts'
import type { BillingTx } from '../app.ts'
import { type Attempt, type MethodInUse, openedAttempt } from '../payments/payment.ts'
import { isLeased, realTimeIn } from '../payments/payment-rows.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { limitOf, type Which, wanted } from '../sweeps/sweep-failure-rows.ts'
import { isOpenPayment } from '../unsettled-rows.ts'

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
      // As it was before this statement.
      sql<Date | null>`(select due_at from billing.invoice where id = ${invoiceId})`.as('due_before'),
      sql<boolean>`coalesce(issued_at <= (select lookup_first_before from billing.installation), false)`.as(
        'maybe_sent_before',
      ),
    ])
    .executeTakeFirst()
  if (!invoice) return undefined

  const paymentId = newId('pay_', now)
  const k = sql<number>`(select k from billing.period where invoice_id = ${invoiceId})`
  const { provider_reference: reference, lease } = await tx
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
      due_before: invoice.due_before,
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
    .returning(['provider_reference', sql<string>`sending_until::text`.as('lease')])
    .executeTakeFirstOrThrow()
  const opened = {
    paymentId,
    reference,
    invoiceId,
    subscriptionId: invoice.subscription_id,
    accountId: invoice.account_id,
    amount: { minor: invoice.amount_due, currency: invoice.currency },
    description: invoice.description,
    dueAt: invoice.issued_at,
    maybeSentBefore: invoice.maybe_sent_before,
    lease,
    method,
  }
  return openedAttempt(opened, now)
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

/** An attempt that made way, with what the events about it tell. */
export type Withdrawn = {
  readonly paymentId: string
  readonly invoiceId: string
  readonly subscriptionId: string
  readonly accountId: string
  readonly methodId: string
  /** It was offered for this invoice, and would have been kept had it paid. */
  readonly methodPending: boolean
}

/**
 * Takes back the open attempt of an invoice of which nothing has ever left us, and has dunning go on as before it. Undefined:
 * there is none, somebody is sending it right now or has sent it, or a database since lost may have.
 */
export async function withdrawUnsent(
  tx: BillingTx,
  invoiceId: string,
  now: Date,
): Promise<Withdrawn | undefined> {
  const found = await sql<Withdrawn>`
    with withdrawn as (
    update billing.payment p
    set status = 'failed', code = 'withdrawn', settled_at = ${now}, sending_until = null, next_lookup_at = null, lookup_by = null
    from billing.payment_method m, billing.invoice i, billing.installation n
    where p.invoice_id = ${invoiceId} and m.id = p.payment_method_id and i.id = p.invoice_id
      and p.status = 'sending' and p.sent_at is null
      and (p.sending_until is null or p.sending_until <= statement_timestamp())
      and (n.lookup_first_before is null or i.issued_at > n.lookup_first_before)
    returning p.id as "paymentId", p.invoice_id as "invoiceId", p.subscription_id as "subscriptionId",
      p.account_id as "accountId", m.id as "methodId", m.state = 'pending' as "methodPending", p.due_before),
    waits as (
    update billing.invoice i set due_at = w.due_before from withdrawn w where i.id = w."invoiceId")
    select "paymentId", "invoiceId", "subscriptionId", "accountId", "methodId", "methodPending" from withdrawn`.execute(
    tx,
  )
  return found.rows[0]
}

/**
 * Has an attempt of which nothing has left us charge another payment method, wherever that is stored. Undefined: somebody else
 * has its lease by now.
 */
export async function setUnsentMethod(
  tx: BillingTx,
  { paymentId, lease }: Pick<Attempt, 'paymentId' | 'lease'>,
  methodId: string,
): Promise<MethodInUse | undefined> {
  const found = await sql<MethodInUse>`
    update billing.payment p set payment_method_id = m.id, provider = m.provider
    from billing.payment_method m
    where p.id = ${paymentId} and m.id = ${methodId} and p.status = 'sending' and p.sent_at is null and ${isLeased(lease)}
    returning m.id as "methodId", m.provider, m.sealed, m.exchanged`.execute(tx)
  return found.rows[0]
}

/** Another payment method may be charged what could not be sent with the old one, so that it need not wait any longer. */
export async function wakeUnsent(
  tx: BillingTx,
  { accountId, subscriptionId }: Pick<Subscription, 'accountId' | 'subscriptionId'>,
): Promise<void> {
  await sql`
    update billing.payment set next_lookup_at = clock_timestamp()
    where id in (
      select id from billing.payment
      where account_id = ${accountId} and subscription_id = ${subscriptionId}
        and ${isOpenPayment()} and sent_at is null and next_lookup_at > clock_timestamp()
        and (sending_until is null or sending_until <= clock_timestamp())
      order by id for update)`.execute(tx)
}
