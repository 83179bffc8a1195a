import { sql } from 'kysely'
import type { BillingTx } from '../app.ts'
import { calendarStopped, restoredInThisStop } from '../charging-stop-rows.ts'
import type { MethodInUse } from '../payments/payment.ts'
import type { Opening } from '../subscriptions/period-rows.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import {
  type SubscriptionRow,
  subscriptionColumns,
  toSubscription,
} from '../subscriptions/subscription-rows.ts'
import { limitOf, type Which, wanted } from '../sweeps/sweep-failure-rows.ts'
import { isOpenPayment } from '../unsettled-rows.ts'

export type DueSubscription = {
  readonly id: string
  readonly subscription: Subscription
  readonly method: MethodInUse
}

/** Subscriptions whose next period has begun, the longest due first. */
export async function lockDue(tx: BillingTx, now: Date, which: Which): Promise<DueSubscription[]> {
  const found = await sql<
    SubscriptionRow & { method_id: string; provider: string; sealed: Buffer | null; exchanged: boolean }
  >`
    select ${subscriptionColumns}, m.brand, m.last4, m.expires, m.id as method_id, m.provider, m.sealed, m.exchanged
    from billing.subscription s
    join billing.payment_method m on m.id = s.payment_method_id
    where s.status in ('active', 'trialing') and s.next_billing_at <= ${now}
      and ${wanted('renewals', sql.ref('s.id'), which)}
    order by s.next_billing_at
    limit ${limitOf(which)}
    for update of s skip locked`.execute(tx)
  return found.rows.map((row) => ({
    id: row.id,
    subscription: toSubscription(row),
    method: { methodId: row.method_id, provider: row.provider, sealed: row.sealed, exchanged: row.exchanged },
  }))
}

/** The newest period opened is the current one. */
export async function moveOn(tx: BillingTx, openings: readonly Opening[]): Promise<void> {
  const newest = [...new Map(openings.map((one) => [one.subscription.subscriptionId, one])).values()]
  await sql`
    update billing.subscription s
    set status = 'active', last_k = g.k, period_start = g.start_at, period_end = g.end_at, next_billing_at = g.end_at
    from unnest(
      ${newest.map((one) => one.subscription.subscriptionId)}::text[],
      ${newest.map((one) => one.due.k)}::int[],
      ${newest.map((one) => one.due.period.start)}::timestamptz[],
      ${newest.map((one) => one.due.period.end)}::timestamptz[]
    ) as g (id, k, start_at, end_at)
    where s.id = g.id`.execute(tx)
}

export async function setNextBilling(tx: BillingTx, subscriptionId: string, at: Date): Promise<void> {
  await tx
    .updateTable('billing.subscription')
    .set({ next_billing_at: at })
    .where('id', '=', subscriptionId)
    .execute()
}

export type CanceledSubscription = { readonly id: string; readonly at: Date; readonly code: string | null }

/** Subscriptions whose cancellation takes effect by now, the soonest first. */
export async function lockCanceled(tx: BillingTx, now: Date, which: Which): Promise<CanceledSubscription[]> {
  const due = await sql<CanceledSubscription>`
    select id, cancel_at as at, cancel_code as code from billing.subscription
    where status = 'canceling' and cancel_at <= ${now} and ${wanted('cancellations', sql.ref('id'), which)}
    order by cancel_at limit ${limitOf(which)} for update skip locked`.execute(tx)
  return due.rows
}

/**
 * Open invoices of these subscriptions that failed and that nobody is charging now; in a restored database whose charging is
 * still stopped since, all that are open.
 */
export async function listUnpaidInvoices(
  tx: BillingTx,
  subscriptionIds: readonly string[],
): Promise<{ invoiceId: string; accountId: string; subscriptionId: string; begun: boolean }[]> {
  const found = await sql<{ invoiceId: string; accountId: string; subscriptionId: string; begun: boolean }>`
    select i.id as "invoiceId", i.account_id as "accountId", i.subscription_id as "subscriptionId",
      d.k > 0 or s.trial_ends_at is not null as begun
    from billing.invoice i
    join billing.period d on d.invoice_id = i.id join billing.subscription s on s.id = i.subscription_id
    where i.subscription_id = any (${[...subscriptionIds]}) and i.status = 'open' and i.hold is null
      and (i.first_failed_at is not null and not exists (
          select from billing.payment p where p.invoice_id = i.id and ${isOpenPayment('p')})
        or ${calendarStopped} and ${restoredInThisStop})
    order by i.id`.execute(tx)
  return found.rows
}

/** Trials that are over and have no payment method. */
export async function lockEndedTrials(
  tx: BillingTx,
  now: Date,
  which: Which,
): Promise<{ id: string; at: Date }[]> {
  const due = await sql<{ id: string; at: Date }>`
    select id, next_billing_at as at from billing.subscription
    where status = 'trialing' and payment_method_id is null and next_billing_at <= ${now}
      and ${wanted('trials_ended', sql.ref('id'), which)}
    order by next_billing_at limit ${limitOf(which)} for update skip locked`.execute(tx)
  return due.rows
}

/** Subscriptions with an invoice that dunning gives up by now. */
export async function lockGivenUp(
  tx: BillingTx,
  now: Date,
  which: Which,
): Promise<{ id: string; accountId: string }[]> {
  const due = await sql<{ id: string; accountId: string }>`
    select s.id, s.account_id as "accountId"
    from billing.invoice i join billing.subscription s on s.id = i.subscription_id
    where i.due_at <= ${now} and i.dunning = 'give_up' and ${wanted('given_up', sql.ref('s.id'), which)}
    order by i.due_at limit ${limitOf(which)} for update of s skip locked`.execute(tx)
  return due.rows
}
