import { sql } from 'kysely'
import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../../platform/page.ts'
import type { BillingApp, BillingDb } from '../app.ts'
import type { Currency, Money } from '../money.ts'
import { type Interval, type Period, period } from './period.ts'

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
 * trials with a card, and the next retry of what could not be collected.
 */
export async function listUpcoming(
  app: BillingApp,
  filter: UpcomingFilter,
  page: PageRequest,
): Promise<Page<UpcomingCharge>> {
  const limit = limitOf(page)
  const after = readCursor(page, 2)
  const [running, retries] = await Promise.all([listRunning(app.db, filter), listRetries(app.db, filter)])
  const now = app.clock()
  const charges = [
    ...running.flatMap((one) => [...projected(one, now, filter.until, app.terms.catchUpPeriods)]),
    ...retries,
  ]
    .filter((charge) => !after || keyOf(charge) > after.join(' '))
    .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  return pageOf(charges.slice(0, limit + 1), limit, (charge) => keyOf(charge).split(' '))
}

function keyOf(charge: UpcomingCharge): string {
  return `${charge.at.toISOString()} ${charge.subscriptionId}`
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
}

async function listRunning(db: BillingDb, { accountId, until }: UpcomingFilter): Promise<Running[]> {
  const found = await sql<Running>`
    select id, account_id, plan_id, amount, currency, interval_unit, interval_count, time_zone, anchor, last_k
    from billing.subscription
    where status in ('active', 'trialing') and next_billing_at <= ${until} and payment_method_id is not null
      and (${accountId ?? null}::text is null or account_id = ${accountId ?? null})
    order by next_billing_at`.execute(db)
  return found.rows
}

/** The periods of one subscription that begin by `until`. Of those already missed only the newest would be charged. */
function* projected(one: Running, now: Date, until: Date, catchUpPeriods: number): Generator<UpcomingCharge> {
  const interval = { unit: one.interval_unit, count: one.interval_count }
  const missed: UpcomingCharge[] = []
  for (let k = one.last_k + 1; ; k++) {
    const due = period(one.anchor, one.time_zone, interval, k)
    if (due.start > until) break
    const charge: UpcomingCharge = {
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
    if (due.start <= now) missed.push(charge)
    else yield charge
  }
  yield* missed.slice(Math.max(0, missed.length - catchUpPeriods))
}

async function listRetries(db: BillingDb, { accountId, until }: UpcomingFilter): Promise<UpcomingCharge[]> {
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
