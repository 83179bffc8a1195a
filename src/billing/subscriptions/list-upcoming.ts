import { type RawBuilder, sql } from 'kysely'
import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../../platform/page.ts'
import type { BillingApp, BillingDb } from '../app.ts'
import { readInstant } from '../instant-field.ts'
import type { Currency, Money } from '../money.ts'
import { type Interval, type Period, period, periodIndexAt } from './period.ts'

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

/**
 * Every charge that would run by an instant, soonest first, without running any: periods that begin by then, ends of
 * trials with a card, and the next retry of what could not be collected. Only a page of them is ever worked out, however
 * far the instant and however many the subscriptions.
 */
export async function listUpcoming(
  app: BillingApp,
  filter: UpcomingFilter,
  page: PageRequest,
): Promise<Page<UpcomingCharge>> {
  const limit = limitOf(page)
  const after = readPlace(page)
  const now = app.clock()
  const soonest = openSoonest(limit + 1, after)
  const tell = (one: Running) => {
    for (const charge of projected(one, firstPeriod(one, now, after, app.terms.catchUpPeriods))) {
      if (charge.at > filter.until || soonest.isPast(charge.at)) break
      soonest.add(charge)
      // Working a period out costs more than all the rest; the next one need not be if it comes too late anyway.
      if (soonest.isPast(new Date(charge.at.getTime() + shortestMs(intervalOf(one))))) break
    }
  }
  for (const retry of await listRetries(app.db, filter, after, limit + 1)) soonest.add(retry)
  for await (const one of readRunning(app.db, filter, { after }, Math.max(limit + 1, 50))) {
    // They come by their next charge, so that none of those that follow can be sooner.
    if (soonest.isPast(one.next_billing_at)) break
    tell(one)
  }
  // What was told on an earlier page comes again only after its interval, so that few of those are read, or none.
  for (const interval of after ? await listIntervals(app.db, filter) : []) {
    for await (const one of readRunning(
      app.db,
      filter,
      { before: after!, interval },
      Math.max(limit + 1, 50),
    )) {
      if (soonest.isPast(new Date(one.next_billing_at.getTime() + shortestMs(interval)))) break
      tell(one)
    }
  }
  return pageOf(soonest.charges, limit, (charge) => keyOf(charge).split(' '))
}

/** Where the page before ended. */
type Place = { readonly at: Date; readonly subscriptionId: string; readonly key: string }

function readPlace(page: PageRequest): Place | undefined {
  const values = readCursor(page, 2)
  return (
    values && { at: readInstant('cursor', values[0]!), subscriptionId: values[1]!, key: values.join(' ') }
  )
}

function keyOf(charge: UpcomingCharge): string {
  return `${charge.at.toISOString()} ${charge.subscriptionId}`
}

/** The soonest so many charges of those it is shown, past a place, in order. */
function openSoonest(most: number, after: Place | undefined) {
  const charges: UpcomingCharge[] = []
  return {
    charges,
    /** Whether nothing from this instant on can be among them any more. */
    isPast: (at: Date) => charges.length === most && at > charges.at(-1)!.at,
    add(charge: UpcomingCharge): void {
      const key = keyOf(charge)
      if (after && key <= after.key) return
      const later = charges.findIndex((other) => keyOf(other) > key)
      charges.splice(later === -1 ? charges.length : later, 0, charge)
      if (charges.length > most) charges.pop()
    },
  }
}

type Running = {
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
async function* readRunning(
  db: BillingDb,
  { accountId, until }: UpcomingFilter,
  stretch: Stretch,
  batch: number,
): AsyncGenerator<Running> {
  let from = 'after' in stretch ? stretch.after : undefined
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
    from = { at: last.next_billing_at, subscriptionId: last.id, key: '' }
  }
}

function endsAt({ before, interval }: { before: Place; interval: Interval }) {
  return sql`and interval_unit = ${interval.unit} and interval_count = ${interval.count}
    and (next_billing_at, id) <= (${before.at}, ${before.subscriptionId})`
}

const isRunning = sql`status in ('active', 'trialing') and payment_method_id is not null`

/** The intervals that anybody runs by, each found by one step in the index however many run by it. */
async function listIntervals(db: BillingDb, { accountId }: UpcomingFilter): Promise<Interval[]> {
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

/** No two charges of an interval are nearer, whatever a month's length or a zone's clocks do. */
function shortestMs({ unit, count }: Interval): number {
  return shortestDays[unit] * count * 86_400_000
}

// A zone that leaves a day out gives half a day to it (see `periodStart`).
const shortestDays = { day: 0.4, week: 5, month: 26, year: 363 } as const

/** The first period to tell of. Of those already missed only the newest would be charged. */
function firstPeriod(one: Running, now: Date, after: Place | undefined, catchUpPeriods: number): number {
  const indexAt = (instant: Date) => periodIndexAt(one.anchor, one.time_zone, intervalOf(one), instant)
  const firstCharged = one.next_billing_at <= now ? indexAt(now) - catchUpPeriods + 1 : 0
  const firstUntold = after && one.next_billing_at <= after.at ? indexAt(after.at) : 0
  return Math.max(one.last_k + 1, firstCharged, firstUntold)
}

/** The charges of one subscription from a period on, without end. */
function* projected(one: Running, from: number): Generator<UpcomingCharge> {
  for (let k = from; ; k++) {
    const due = period(one.anchor, one.time_zone, intervalOf(one), k)
    yield {
      at: due.start,
      what: k === 0 ? 'trial_end' : 'renewal',
      accountId: one.account_id,
      subscriptionId: one.id,
      planId: one.plan_id,
      invoiceId: null,
      amount: { minor: one.amount, currency: one.currency },
      period: due,
      timeZone: one.time_zone,
    }
  }
}

function intervalOf(one: Running): Interval {
  return { unit: one.interval_unit, count: one.interval_count }
}

/** The soonest so many retries past a place. */
async function listRetries(
  db: BillingDb,
  { accountId, until }: UpcomingFilter,
  after: Place | undefined,
  limit: number,
): Promise<UpcomingCharge[]> {
  let query = db
    .selectFrom('billing.invoice as i')
    .innerJoin('billing.subscription as s', 's.id', 'i.subscription_id')
    .select([
      'i.id',
      'i.due_at',
      'i.account_id',
      'i.subscription_id',
      's.plan_id',
      'i.amount_due',
      'i.currency',
      'i.period_start',
      'i.period_end',
      's.time_zone',
    ])
    .where('i.due_at', '<=', until)
    .where('i.dunning', '=', 'retry')
    .orderBy('i.due_at')
    .orderBy('i.subscription_id')
    .limit(limit)
  // A cursor tells milliseconds, and so does every date that dunning sets.
  if (after !== undefined)
    query = query
      .where('i.due_at', '>=', after.at)
      .where(sql<boolean>`(i.due_at, i.subscription_id) > (${after.at}, ${after.subscriptionId})`)
  if (accountId !== undefined) query = query.where('i.account_id', '=', accountId)
  return (await query.execute()).map((row) => ({
    at: row.due_at!,
    what: 'retry',
    accountId: row.account_id,
    subscriptionId: row.subscription_id,
    planId: row.plan_id,
    invoiceId: row.id,
    amount: { minor: row.amount_due, currency: row.currency },
    period: { start: row.period_start, end: row.period_end },
    timeZone: row.time_zone,
  }))
}
