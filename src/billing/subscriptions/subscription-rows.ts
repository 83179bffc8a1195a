import { type Selectable, sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../../platform/page.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { PaymentState } from '../payments/payment-rows.ts'
import type { Plan } from '../plans/plan-rows.ts'
import type { BillingTables, PlanTerms } from '../tables.ts'
import type { Subscription, SubscriptionStatus } from './subscription.ts'

/** Adds a subscription unless the account has a live one; then undefined, and nothing is written. */
export async function insertSubscription(
  tx: BillingTx,
  subscription: Omit<Subscription, 'planId' | 'description' | 'price' | 'interval' | 'card'>,
  plan: Plan,
): Promise<Subscription | undefined> {
  const { canceledAt, cancelAt, cancelCode, cancelNote } = subscription
  const made = await tx
    .insertInto('billing.subscription')
    .values({
      id: subscription.subscriptionId,
      account_id: subscription.accountId,
      ...termsOf(plan),
      time_zone: subscription.timeZone,
      status: subscription.status,
      anchor: subscription.anchor,
      last_k: subscription.lastK,
      next_billing_at: subscription.nextBillingAt,
      period_start: subscription.periodStart,
      period_end: subscription.periodEnd,
      trial_ends_at: subscription.trialEndsAt,
      cancel_at: cancelAt,
      canceled_at: canceledAt,
      cancel_code: cancelCode,
      cancel_note: cancelNote,
      payment_method_id: subscription.methodId,
      created_at: subscription.createdAt,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning(columns)
    .executeTakeFirst()
  return made && toSubscription({ ...made, brand: null, last4: null, expires: null })
}

/** The plan's terms as a subscription carries them. */
function termsOf(plan: Plan) {
  return {
    plan_id: plan.planId,
    description: plan.name,
    amount: plan.price.minor,
    currency: plan.price.currency,
    interval_unit: plan.interval,
    interval_count: plan.intervalCount,
  }
}

export async function findSubscription(
  db: BillingDb,
  subscriptionId: string,
): Promise<Subscription | undefined> {
  const row = await selectSubscriptions(db).where('s.id', '=', subscriptionId).executeTakeFirst()
  return row && toSubscription(row)
}

export async function getSubscription(db: BillingDb, subscriptionId: string): Promise<Subscription> {
  return toSubscription(
    await selectSubscriptions(db).where('s.id', '=', subscriptionId).executeTakeFirstOrThrow(),
  )
}

/** How a subscription's charge stands, and the subscription with it. */
export async function getCharged(
  db: BillingDb,
  paymentId: string,
): Promise<{ payment: Pick<PaymentState, 'status' | 'code' | 'unmatched'>; subscription: Subscription }> {
  const row = await selectSubscriptions(db)
    .innerJoin('billing.payment as p', 'p.subscription_id', 's.id')
    .select(['p.status as payment_status', 'p.code', 'p.unmatched'])
    .where('p.id', '=', paymentId)
    .executeTakeFirstOrThrow()
  const { payment_status: status, code, unmatched } = row
  return { payment: { status, code, unmatched }, subscription: toSubscription(row) }
}

/** Whoever changes a subscription, its invoices or its attempts holds this lock first. */
export async function lockSubscription(
  tx: BillingTx,
  subscriptionId: string,
): Promise<Subscription | undefined> {
  const row = await selectSubscriptions(tx)
    .where('s.id', '=', subscriptionId)
    .forUpdate('s')
    .executeTakeFirst()
  return row && toSubscription(row)
}

export async function lockLiveSubscription(
  tx: BillingTx,
  accountId: string,
): Promise<Subscription | undefined> {
  const row = await selectSubscriptions(tx)
    .where('s.account_id', '=', accountId)
    .where('s.status', '<>', 'canceled')
    .forUpdate('s')
    .executeTakeFirst()
  return row && toSubscription(row)
}

/** Locks all of an account's subscriptions, those that have ended too, in order. */
export async function lockSubscriptions(
  tx: BillingTx,
  accountId: string,
): Promise<{ status: SubscriptionStatus }[]> {
  const found = await sql<{ status: SubscriptionStatus }>`
    select status from billing.subscription where account_id = ${accountId} order by id for update`.execute(
    tx,
  )
  return found.rows
}

export async function hasLiveSubscription(db: BillingDb, accountId: string): Promise<boolean> {
  const live = await db
    .selectFrom('billing.subscription')
    .select('id')
    .where('account_id', '=', accountId)
    .where('status', '<>', 'canceled')
    .executeTakeFirst()
  return live !== undefined
}

/** Locks the subscriptions of some payments, in order, so that two settlers never wait for each other in a ring. */
export async function lockSubscriptionsOf(tx: BillingTx, paymentIds: readonly string[]): Promise<void> {
  await sql`
    select 1 from billing.subscription
    where id in (select subscription_id from billing.payment where id = any (${anyLength(paymentIds)}::text[]))
    order by id
    for update`.execute(tx)
}

export async function setSubscriptionStatus(
  tx: BillingTx,
  subscriptionId: string,
  status: SubscriptionStatus,
): Promise<void> {
  await tx.updateTable('billing.subscription').set({ status }).where('id', '=', subscriptionId).execute()
}

/** It is charged from here on; where a plan is given, by that plan's terms. */
export async function setPaymentMethod(
  tx: BillingTx,
  subscriptionId: string,
  methodId: string,
): Promise<void> {
  await tx
    .updateTable('billing.subscription')
    .set({ payment_method_id: methodId })
    .where('id', '=', subscriptionId)
    .execute()
}

/** The terms that a subscription is changed to. */
export async function setTerms(tx: BillingTx, subscriptionId: string, terms: PlanTerms): Promise<void> {
  await sql`
    update billing.subscription
    set plan_id = ${terms.plan_id}, description = ${terms.description}, amount = ${terms.amount},
      currency = ${terms.currency}, interval_unit = ${terms.interval}, interval_count = ${terms.interval_count}
    where id = ${subscriptionId}`.execute(tx)
}

/** Newest first. */
export async function listSubscriptions(
  db: BillingDb,
  filter: { accountId?: string; status?: SubscriptionStatus },
  page: PageRequest,
): Promise<Page<Subscription>> {
  const limit = limitOf(page)
  const after = readCursor(page, 1)
  let query = selectSubscriptions(db)
    .orderBy('s.id', 'desc')
    .limit(limit + 1)
  if (filter.accountId !== undefined) query = query.where('s.account_id', '=', filter.accountId)
  if (filter.status !== undefined) query = query.where('s.status', '=', filter.status)
  if (after) query = query.where('s.id', '<', after[0]!)
  return pageOf((await query.execute()).map(toSubscription), limit, (one) => [one.subscriptionId])
}

function selectSubscriptions(db: BillingDb) {
  return db
    .selectFrom('billing.subscription as s')
    .leftJoin('billing.payment_method as m', 'm.id', 's.payment_method_id')
    .select(columns.map((column) => `s.${column}` as const))
    .select(['m.brand', 'm.last4', 'm.expires'])
}

const columns = [
  'id',
  'account_id',
  'plan_id',
  'description',
  'amount',
  'currency',
  'interval_unit',
  'interval_count',
  'time_zone',
  'status',
  'anchor',
  'last_k',
  'next_billing_at',
  'period_start',
  'period_end',
  'trial_ends_at',
  'cancel_at',
  'canceled_at',
  'cancel_code',
  'cancel_note',
  'payment_method_id',
  'created_at',
] as const satisfies (keyof BillingTables['billing.subscription'])[]

/** The same columns for a statement written by hand, where the subscription is called `s`. */
export const subscriptionColumns = sql.join(columns.map((column) => sql.ref(`s.${column}`)))

type MethodColumns = { brand: string | null; last4: string | null; expires: string | null }
export type SubscriptionRow = Pick<
  Selectable<BillingTables['billing.subscription']>,
  (typeof columns)[number]
> &
  MethodColumns

export function toSubscription(row: SubscriptionRow): Subscription {
  const { brand, last4, expires } = row
  return {
    subscriptionId: row.id,
    accountId: row.account_id,
    planId: row.plan_id,
    description: row.description,
    price: { minor: row.amount, currency: row.currency },
    interval: { unit: row.interval_unit, count: row.interval_count },
    timeZone: row.time_zone,
    status: row.status,
    anchor: row.anchor,
    lastK: row.last_k,
    nextBillingAt: row.next_billing_at,
    periodStart: row.period_start,
    periodEnd: row.period_end,
    trialEndsAt: row.trial_ends_at,
    cancelAt: row.cancel_at,
    canceledAt: row.canceled_at,
    cancelCode: row.cancel_code,
    cancelNote: row.cancel_note,
    methodId: row.payment_method_id,
    card: brand !== null && last4 !== null && expires !== null ? { brand, last4, expires } : null,
    createdAt: row.created_at,
  }
}
