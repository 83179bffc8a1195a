import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Period } from '../subscriptions/period.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import {
  type SubscriptionRow,
  subscriptionColumns,
  toSubscription,
} from '../subscriptions/subscription-rows.ts'
import { isOpenPayment } from '../unsettled-rows.ts'

/** Which of these references are of payments that stand in the database. */
export async function listKnownReferences(
  db: BillingDb,
  references: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ reference: string }>`
    select provider_reference as reference from billing.payment
    where provider_reference = any (${[...references]})`.execute(db)
  return new Set(rows.map(({ reference }) => reference))
}

/** A period whose invoice is open, and how often it has been tried. */
export type OpenPeriod = { readonly k: number; readonly attempts: number }

/** Subscriptions by id, with the periods of each that are open. */
export async function listWithOpenPeriods(
  db: BillingDb,
  after: string,
  limit: number,
): Promise<{ subscription: Subscription; open: readonly OpenPeriod[] }[]> {
  const { rows } = await sql<SubscriptionRow & { open: OpenPeriod[] }>`
    select ${subscriptionColumns}, m.brand, m.last4, m.expires, (
      select coalesce(json_agg(json_build_object('k', p.k, 'attempts', i.attempt_count) order by p.k), '[]')
      from billing.period p join billing.invoice i on i.id = p.invoice_id
      where p.subscription_id = s.id and i.status = 'open') as open
    from billing.subscription s left join billing.payment_method m on m.id = s.payment_method_id
    where s.id > ${after} order by s.id limit ${limit}`.execute(db)
  return rows.map((row) => ({ subscription: toSubscription(row), open: row.open }))
}

/** The references that attempts on these periods would carry: of each, the first attempt named and so many more. */
export async function listReferences(
  db: BillingDb,
  subscriptionId: string,
  periods: readonly { readonly k: number; readonly firstAttempt: number }[],
  more: number,
): Promise<{ k: number; n: number; reference: string }[]> {
  const { rows } = await sql<{ k: number; n: number; reference: string }>`
    select g.k, n, billing.charge_reference(${subscriptionId}, g.k, n) as reference
    from unnest(${periods.map(({ k }) => k)}::int[], ${periods.map(({ firstAttempt }) => firstAttempt)}::int[])
        as g (k, first),
      generate_series(g.first, g.first + ${more}) as n
    order by g.k, n`.execute(db)
  return rows
}

/** A subscription's attempts that nobody has the outcome of, by period and number. */
export async function listInDoubt(
  db: BillingDb,
  subscriptionId: string,
): Promise<{ k: number; n: number; reference: string; provider: string; providerId: string | null }[]> {
  const { rows } = await sql<{
    k: number
    n: number
    reference: string
    provider: string
    providerId: string | null
  }>`
    select d.k, p.attempt as n, p.provider_reference as reference, p.provider, p.provider_id as "providerId"
    from billing.period d join billing.payment p on p.invoice_id = d.invoice_id
    where d.subscription_id = ${subscriptionId} and ${isOpenPayment('p')}
    order by d.k, p.attempt`.execute(db)
  return rows
}

/** A place for a payment method whose key the backup does not hold. */
export async function insertLostMethod(
  tx: BillingTx,
  method: { methodId: string; accountId: string; subscriptionId: string; provider: string },
  now: Date,
): Promise<void> {
  await sql`
    insert into billing.payment_method
      (id, account_id, subscription_id, provider, purpose, state, sealed, exchanged, failure, created_at)
    values (${method.methodId}, ${method.accountId}, ${method.subscriptionId}, ${method.provider}, 'trial', 'kept',
      null, true, 'lost_in_restore', ${now})`.execute(tx)
}

/** The period is the subscription's current one; what has ended is not billed again. */
export async function moveToPeriod(
  tx: BillingTx,
  subscriptionId: string,
  k: number,
  { start, end }: Period,
): Promise<void> {
  await sql`
    update billing.subscription
    set last_k = ${k}, period_start = ${start}, period_end = ${end},
      status = case status when 'trialing' then 'active' else status end,
      next_billing_at = case when status = 'canceled' then null else ${end}::timestamptz end
    where id = ${subscriptionId}`.execute(tx)
}

/** The open invoice of a period, with the number of its last attempt and that attempt's id while it has no outcome. */
export async function findOpenInvoice(
  tx: BillingTx,
  subscriptionId: string,
  k: number,
): Promise<{ invoiceId: string; paymentId: string | null; attempt: number } | undefined> {
  const { rows } = await sql<{ invoiceId: string; paymentId: string | null; attempt: number }>`
    select i.id as "invoiceId", p.id as "paymentId", i.attempt_count as attempt
    from billing.period d join billing.invoice i on i.id = d.invoice_id
    left join billing.payment p on p.invoice_id = i.id and ${isOpenPayment('p')}
    where d.subscription_id = ${subscriptionId} and d.k = ${k} and i.status = 'open'`.execute(tx)
  return rows[0]
}

/** It has failed since then, unless it had before. A held one does not fail: its operator may try again, and nobody else. */
export async function noteFailedInvoice(tx: BillingTx, invoiceId: string, at: Date): Promise<void> {
  await sql`
    update billing.invoice set first_failed_at = coalesce(first_failed_at, ${at})
    where id = ${invoiceId} and hold is null`.execute(tx)
}
