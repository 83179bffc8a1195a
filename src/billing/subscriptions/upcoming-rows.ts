import { type RawBuilder, sql } from 'kysely'
import type { BillingDb } from '../app.ts'
import type { Currency, Money } from '../money.ts'
import { isOpenPayment } from '../unsettled-rows.ts'
import type { Interval, Period } from './period.ts'

/** A charge that would run if nothing changed until then. */
export type UpcomingCharge = {
  readonly at: Date
  readonly what: 'renewal' | 'trial_end' | 'retry'
  readonly accountId: string
  readonly subscriptionId: string
  readonly planId: string
  readonly invoiceId: string | null
  readonly amount: Money
  readonly period: Period
  readonly timeZone: string
}

export type UpcomingFilter = { accountId?: string; until: Date }

/** Where the page before ended. */
export type Place = {
  readonly at: Date
  readonly subscriptionId: string
  /** Of a subscription's charges at one instant, that without an invoice comes first. */
  readonly invoiceId: string
  readonly key: string
}

/** A subscription that is charged in turn. */
export type Running = {
  id: string
  account_id: string
  plan_id: string
  amount: bigint
  currency: Currency
  interval_unit: Interval['unit']
  interval_count: number
  time_zone: string
  anchor: Date
  last_k: number
  next_billing_at: Date
}

type Stretch = { after?: Place | undefined } | { before: Place; interval: Interval }

/** By their next charge, some at a time, with room for other requests in between. */
export async function* readRunning(
  db: BillingDb,
  { accountId, until }: UpcomingFilter,
  stretch: Stretch,
  batch: number,
): AsyncGenerator<Running> {
  let from: Pick<Place, 'at' | 'subscriptionId'> | undefined = 'after' in stretch ? stretch.after : undefined
  for (;;) {
    const { rows } = await sql<Running>`
      select id, account_id, plan_id, amount, currency, interval_unit, interval_count, time_zone, anchor, last_k,
        next_billing_at
      from billing.subscription
      where ${isRunning} and next_billing_at <= ${until} ${accountId === undefined ? sql`` : sql`and account_id = ${accountId}`}
        ${from ? sql`and (next_billing_at, id) > (${from.at}, ${from.subscriptionId})` : sql``}
        ${'before' in stretch ? endsAt(stretch) : sql``}
      order by next_billing_at, id
      limit ${batch}`.execute(db)
    yield* rows
    const last = rows.at(-1)
    if (rows.length < batch || !last) return
    from = { at: last.next_billing_at, subscriptionId: last.id }
  }
}

function endsAt({ before, interval }: { before: Place; interval: Interval }) {
  return sql`and interval_unit = ${interval.unit} and interval_count = ${interval.count}
    and (next_billing_at, id) <= (${before.at}, ${before.subscriptionId})`
}

const isRunning = sql`status in ('active', 'trialing') and payment_method_id is not null`

/** The intervals that anybody runs by, each found by one step in the index however many run by it. */
export async function listIntervals(db: BillingDb, { accountId }: UpcomingFilter): Promise<Interval[]> {
  const theirs = accountId === undefined ? sql`` : sql`and account_id = ${accountId}`
  const first = (past: RawBuilder<unknown>) => sql`
    select interval_unit, interval_count from billing.subscription
    where status in ('active', 'trialing') ${theirs} ${past} order by interval_unit, interval_count limit 1`
  const { rows } = await sql<{ interval_unit: Interval['unit']; interval_count: number }>`
    with recursive found as (
      (${first(sql``)})
      union all
      select next.* from found, lateral (${first(
        sql`and (subscription.interval_unit, subscription.interval_count) > (found.interval_unit, found.interval_count)`,
      )}) as next
    )
    select interval_unit, interval_count from found`.execute(db)
  return rows.map((row) => ({ unit: row.interval_unit, count: row.interval_count }))
}

/** The soonest so many retries past a place. */
export async function listRetries(
  db: BillingDb,
  { accountId, until }: UpcomingFilter,
  after: Place | undefined,
  limit: number,
): Promise<UpcomingCharge[]> {
  let query = db
    .selectFrom('billing.invoice as i')
    .innerJoin('billing.subscription as s', 's.id', 'i.subscription_id')
    .select([
      'i.id as invoice_id',
      'i.due_at',
      'i.account_id',
      'i.subscription_id',
      's.plan_id',
      'i.amount_due as amount',
      'i.currency',
      'i.period_start',
      'i.period_end',
      's.time_zone',
    ])
    .where('i.due_at', '<=', until)
    .where('i.dunning', '=', 'retry')
    .orderBy('i.due_at')
    .orderBy('i.subscription_id')
    .orderBy('i.id')
    .limit(limit)
  // A cursor tells milliseconds, and so does every date that dunning sets.
  if (after !== undefined)
    query = query
      .where('i.due_at', '>=', after.at)
      .where(
        sql<boolean>`(i.due_at, i.subscription_id, i.id) > (${after.at}, ${after.subscriptionId}, ${after.invoiceId})`,
      )
  if (accountId !== undefined) query = query.where('i.account_id', '=', accountId)
  return (await query.execute()).map((row) => chargeOf(row, row.due_at!, 'retry'))
}

type InvoicedRow = {
  invoice_id: string
  account_id: string
  subscription_id: string
  plan_id: string
  amount: bigint
  currency: Currency
  period_start: Date
  period_end: Date
  time_zone: string
}

/** A charge of an invoice that is there already. */
function chargeOf(row: InvoicedRow, at: Date, what: UpcomingCharge['what']): UpcomingCharge {
  return {
    at,
    what,
    accountId: row.account_id,
    subscriptionId: row.subscription_id,
    planId: row.plan_id,
    invoiceId: row.invoice_id,
    amount: { minor: row.amount, currency: row.currency },
    period: { start: row.period_start, end: row.period_end },
    timeZone: row.time_zone,
  }
}

/** The soonest so many charges past a place whose time has come and that wait to be sent: the provider is away, or stopped. */
export async function listUnsentCharges(
  db: BillingDb,
  { accountId, until }: UpcomingFilter,
  after: Place | undefined,
  limit: number,
): Promise<UpcomingCharge[]> {
  const { rows } = await sql<InvoicedRow & { created_at: Date; again: boolean; trial: boolean }>`
    select p.created_at, p.attempt > 1 as again, d.k = 0 and s.trial_ends_at is not null as trial, p.account_id,
      p.subscription_id, s.plan_id, p.invoice_id, p.amount, p.currency, i.period_start, i.period_end, s.time_zone
    from billing.payment p
    join billing.invoice i on i.id = p.invoice_id
    join billing.period d on d.invoice_id = p.invoice_id
    join billing.subscription s on s.id = p.subscription_id
    where ${isOpenPayment('p')} and p.sent_at is null and i.status = 'open' and p.created_at <= ${until}
      ${accountId === undefined ? sql`` : sql`and p.account_id = ${accountId}`}
      ${after ? sql`and (p.created_at, p.subscription_id, p.invoice_id) > (${after.at}, ${after.subscriptionId}, ${after.invoiceId})` : sql``}
    order by p.created_at, p.subscription_id, p.invoice_id
    limit ${limit}`.execute(db)
  return rows.map((row) =>
    chargeOf(row, row.created_at, row.again ? 'retry' : row.trial ? 'trial_end' : 'renewal'),
  )
}
