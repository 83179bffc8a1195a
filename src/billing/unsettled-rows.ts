import { type RawBuilder, sql } from 'kysely'
import type { BillingDb } from './app.ts'
import { type Blocker, blockedBy, everyProvider } from './charging-stop-rows.ts'

/**
 * A charge that is on its way or has no clear answer yet. The statuses stand in the statement's text and are never sent
 * beside it: the indexes over open payments serve only what names them.
 */
export function isOpenPayment(alias = 'payment'): RawBuilder<boolean> {
  return sql<boolean>`${sql.ref(`${alias}.status`)} in ('sending', 'unknown')`
}

/**
 * Makes charges and refunds that wait due at once: those that nobody answered, those whose send nobody answered though
 * lookups are, or those that nothing has been sent for; at one provider, or at all of them. Whoever is at one of them
 * right now is left alone. They are locked in the order of their ids, because several processes may wake at once.
 */
export async function wakeUnsettled(
  db: BillingDb,
  which: 'unanswered' | 'sent' | 'unsent',
  provider?: string,
): Promise<number> {
  const wanted = {
    // While charging is stopped, what is unsent stays so.
    unanswered: sql`unanswered and (sent_at is not null or not exists (
      select from billing.charging_stop where provider in (${everyProvider}, ${provider ?? everyProvider})))`,
    sent: sql`not unanswered and sent_at is not null`,
    unsent: sql`sent_at is null`,
  }[which]
  const idle = sql`next_lookup_at > clock_timestamp() and (sending_until is null or sending_until <= clock_timestamp())`
  const there = provider === undefined ? sql`` : sql`and provider = ${provider}`
  const woken = await sql<{ count: number }>`
    with payments as (
      update billing.payment set next_lookup_at = clock_timestamp()
      where id in (
        select id from billing.payment
        where ${isOpenPayment()} and ${wanted} and ${idle} ${there}
        order by id for update)
      returning 1
    ), refunds as (
      update billing.refund set next_lookup_at = clock_timestamp()
      where id in (
        select id from billing.refund
        where status = 'pending' and ${wanted} and ${idle}
          and exists (select from billing.payment where id = payment_id ${there})
        order by id for update)
      returning 1
    )
    select ((select count(*) from payments) + (select count(*) from refunds))::int as count`.execute(db)
  return woken.rows[0]!.count
}

/** What a subscription waits for an answer to, and when somebody does something about it. */
export type Unsettled = {
  readonly what:
    | 'payment.send'
    | 'payment.lookup'
    | 'payment.action_expires'
    | 'refund.send'
    | 'refund.lookup'
    /** An offered one, of which the provider has not said what it is. */
    | 'payment_method.lookup'
  /** By service time; null: nothing is due by that. */
  readonly at: Date | null
  /** Until the next try by real time, which passes by itself. */
  readonly waitMs: number | null
  /** Why a charge has not been sent so far. */
  readonly blockedBy: Blocker | null
}

export async function listUnsettled(
  db: BillingDb,
  subscriptionId: string,
  limit: number,
): Promise<Unsettled[]> {
  const found = await sql<Unsettled>`
    select case when a.payment_id is not null then 'payment.action_expires'
                when p.sent_at is null then 'payment.send' else 'payment.lookup' end as what,
      coalesce(a.expires_at, p.lookup_by) as at,
      case when a.payment_id is null then extract(epoch from p.next_lookup_at - clock_timestamp())::float8 * 1000 end as "waitMs",
      case when a.payment_id is null and p.sent_at is null then ${blockedBy('p.provider')} end as "blockedBy"
    from billing.invoice i
    join billing.payment p on p.invoice_id = i.id and ${isOpenPayment('p')}
    left join billing.next_action a on a.payment_id = p.id
    where i.subscription_id = ${subscriptionId}
    union all
    select case when r.sent_at is null then 'refund.send' else 'refund.lookup' end, r.lookup_by,
      extract(epoch from r.next_lookup_at - clock_timestamp())::float8 * 1000, null
    from billing.invoice i
    join billing.refund r on r.invoice_id = i.id and r.status = 'pending'
    where i.subscription_id = ${subscriptionId}
    union all
    select 'payment_method.lookup', null, extract(epoch from m.next_lookup_at - clock_timestamp())::float8 * 1000, null
    from billing.subscription s
    join billing.payment_method m on m.account_id = s.account_id and m.subscription_id = s.id
      and m.state = 'pending' and m.next_lookup_at is not null
    where s.id = ${subscriptionId}
    limit ${limit}`.execute(db)
  return found.rows
}
