import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../../platform/page.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Money } from '../money.ts'
import type { PlanTerms } from '../tables.ts'
import type { IntervalUnit } from './interval.ts'

/** What is on offer. A running subscription keeps the terms it started with. */
export type Plan = {
  readonly planId: string
  readonly name: string
  readonly price: Money
  readonly interval: IntervalUnit
  readonly intervalCount: number
  readonly trialDays: number
  readonly active: boolean
}

export function termsOfPlan(plan: Plan): PlanTerms {
  return {
    plan_id: plan.planId,
    description: plan.name,
    amount: Number(plan.price.minor),
    currency: plan.price.currency,
    interval: plan.interval,
    interval_count: plan.intervalCount,
  }
}

/** The highest price of a plan, in minor units. */
export const highestPrice = 999_999_999_999

const columns = [
  'id',
  'name',
  'amount',
  'currency',
  'interval_unit',
  'interval_count',
  'trial_days',
  'active',
] as const

export async function findPlan(db: BillingDb, planId: string): Promise<Plan | undefined> {
  const row = await db.selectFrom('billing.plan').select(columns).where('id', '=', planId).executeTakeFirst()
  return row && toPlan(row)
}

export async function listPlans(db: BillingDb, page: PageRequest): Promise<Page<Plan>> {
  const limit = limitOf(page)
  const after = readCursor(page, 1)
  let query = db
    .selectFrom('billing.plan')
    .select(columns)
    .orderBy('id')
    .limit(limit + 1)
  if (after) query = query.where('id', '>', after[0]!)
  return pageOf((await query.execute()).map(toPlan), limit, (plan) => [plan.planId])
}

export async function putPlan(tx: BillingTx, plan: Plan, now: Date): Promise<void> {
  const row = toRow(plan, now)
  await tx
    .insertInto('billing.plan')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute()
}

/** Adds a plan unless one of that name is there: an operator's edit outlives the next start. */
export async function addPlan(db: BillingDb, plan: Plan, now: Date): Promise<void> {
  await db
    .insertInto('billing.plan')
    .values(toRow(plan, now))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

function toRow(plan: Plan, now: Date) {
  return {
    id: plan.planId,
    name: plan.name,
    amount: plan.price.minor,
    currency: plan.price.currency,
    interval_unit: plan.interval,
    interval_count: plan.intervalCount,
    trial_days: plan.trialDays,
    active: plan.active,
    updated_at: now,
  }
}

function toPlan(row: {
  id: string
  name: string
  amount: bigint
  currency: Money['currency']
  interval_unit: IntervalUnit
  interval_count: number
  trial_days: number
  active: boolean
}): Plan {
  return {
    planId: row.id,
    name: row.name,
    price: { minor: row.amount, currency: row.currency },
    interval: row.interval_unit,
    intervalCount: row.interval_count,
    trialDays: row.trial_days,
    active: row.active,
  }
}
