import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BillingDb } from '../app.ts'
import type { DayTotal } from '../ledger/day-total-rows.ts'
import type { IntervalUnit } from '../plans/interval.ts'
import type { SubscriptionStatus } from '../subscriptions/subscription.ts'

export type TermsCount = {
  readonly status: SubscriptionStatus
  readonly currency: string
  readonly unit: IntervalUnit
  readonly every: number
  readonly count: number
  readonly amount: bigint
  /** Of those that ended: lately, after having run for a while. */
  readonly lost: number
}

/** Every subscription by state and terms, in one pass. */
export async function countSubscriptions(
  db: BillingDb,
  accountId: string | undefined,
  lostSince: Date,
): Promise<TermsCount[]> {
  const found = await sql<TermsCount>`
    select status, currency, interval_unit as unit, interval_count as every, count(*)::int as count,
      sum(amount)::bigint as amount,
      count(*) filter (
        where canceled_at >= ${lostSince} and canceled_at > created_at + interval '1 day'
          and cancel_code is distinct from 'trial_ended')::int as lost
    from billing.subscription
    where ${accountId ?? null}::text is null or account_id = ${accountId ?? null}
    group by 1, 2, 3, 4`.execute(db)
  return found.rows
}

export type UpcomingDay = {
  readonly day: Day
  readonly currency: string
  readonly charges: number
  readonly amount: bigint
}

/** What will be charged by then, by day. A trial without a payment method will end uncharged. */
export async function countUpcoming(
  db: BillingDb,
  accountId: string | undefined,
  zone: string,
  until: Date,
): Promise<UpcomingDay[]> {
  const found = await sql<UpcomingDay>`
    select day::text, currency, charges, amount from (
      select (next_billing_at at time zone ${zone})::date as day, currency, count(*)::int as charges,
        sum(amount)::bigint as amount
      from billing.subscription
      where status in ('active', 'trialing') and payment_method_id is not null and next_billing_at < ${until}
        and (${accountId ?? null}::text is null or account_id = ${accountId ?? null})
      group by 1, 2) d
    order by 1, 2`.execute(db)
  return found.rows
}

export type FailingCount = {
  readonly code: string
  readonly currency: string
  readonly invoices: number
  readonly amount: bigint
}

/** Invoices in dunning, by why their last attempt failed. */
export async function countFailing(db: BillingDb, accountId: string | undefined): Promise<FailingCount[]> {
  const found = await sql<FailingCount>`
    select coalesce(p.code, 'unknown') as code, i.currency, count(*)::int as invoices, sum(i.amount_due)::bigint as amount
    from billing.invoice i
    left join lateral (
      select code from billing.payment where invoice_id = i.id order by attempt desc limit 1
    ) p on true
    where i.due_at is not null and (${accountId ?? null}::text is null or i.account_id = ${accountId ?? null})
    group by 1, 2 order by 3 desc, 1, 2`.execute(db)
  return found.rows
}

export type OpenQuestions = {
  readonly payments: number
  readonly refunds: number
  readonly oldestSeconds: number
}

/** Charges and refunds of one account that nobody can speak for yet. */
export async function countUnknownOf(db: BillingDb, accountId: string, now: Date): Promise<OpenQuestions> {
  const found = await sql<OpenQuestions>`
    select count(*) filter (where kind = 'payment')::int as payments, count(*) filter (where kind = 'refund')::int as refunds,
      coalesce(greatest(extract(epoch from ${now}::timestamptz - min(created_at)), 0), 0)::float8 as "oldestSeconds"
    from (
      select 'payment' as kind, p.created_at from billing.payment p join billing.invoice i on i.id = p.invoice_id
      where i.account_id = ${accountId} and p.status = 'unknown'
      union all
      select 'refund', r.created_at from billing.refund r join billing.invoice i on i.id = r.invoice_id
      where i.account_id = ${accountId} and r.status = 'pending' and r.step = 'unknown'
    ) open`.execute(db)
  return found.rows[0]!
}

/** What each day took from one account and gave back to it, from its invoices. */
export async function readAccountDayTotals(
  db: BillingDb,
  accountId: string,
  zone: string,
  from: Day,
  until: Day,
): Promise<DayTotal[]> {
  const found = await sql<DayTotal>`
    with own as (select id, currency, amount_paid, paid_at from billing.invoice where account_id = ${accountId}),
    moved as (
      select (paid_at at time zone ${zone})::date as day, currency, amount_paid as paid, 0::bigint as refunded
      from own where paid_at is not null
      union all
      select (r.settled_at at time zone ${zone})::date, r.currency, 0, r.amount
      from own join billing.refund r on r.invoice_id = own.id join billing.payment p on p.id = r.payment_id
      where r.status = 'succeeded' and not p.unmatched -- that money never counted as paid
    )
    select day::text, currency, sum(paid)::bigint as paid, sum(refunded)::bigint as refunded from moved
    where day >= ${from}::date and day < ${until}::date group by day, currency order by 1, 2`.execute(db)
  return found.rows
}
