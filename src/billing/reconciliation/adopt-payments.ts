import { sql } from 'kysely'
import { raiseAlarm } from '../../platform/alarm.ts'
import { newId } from '../../platform/id.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { findChargingStop } from '../charging-stop.ts'
import { openAttempt } from '../collection/open-attempt.ts'
import { settleDecided } from '../collection/settle-decided.ts'
import { settleFromProvider } from '../collection/settle-from-provider.ts'
import { insertEvents } from '../events/event-rows.ts'
import { type MethodInUse, outcomeOfPayment } from '../payments/payment.ts'
import { markFailed, sendingLeaseMs } from '../payments/payment-rows.ts'
import type { Provider, ProviderPayment } from '../providers/port.ts'
import { period } from '../subscriptions/period.ts'
import { openPeriods } from '../subscriptions/period-rows.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import {
  lockSubscription,
  type SubscriptionRow,
  subscriptionColumns,
  toSubscription,
} from '../subscriptions/subscription-rows.ts'
import { readBook } from './reconcile-payments.ts'

export type Adoption = {
  /** Payments of the provider that were taken over. */
  readonly adopted: number
  readonly subscriptions: number
}

/** Taking payments over while others are made would mix up what was and what is. */
export class ChargingGoesOn extends Error {
  override name = 'ChargingGoesOn'
}

/**
 * Takes over what the provider took between two instants and a restored database has forgotten. A reference follows from
 * subscription, period and attempt, so each is found by working out those that may have been used. Periods are opened in
 * order, which gives their invoices the numbers they had. What fits no place is left for `reconcilePayments` to list.
 */
export async function adoptPayments(
  app: BillingApp,
  from: Date,
  to: Date,
  onProgress: (adopted: number) => void = () => {},
): Promise<Adoption> {
  if (!(await findChargingStop(app.db))?.holdsDue)
    throw new ChargingGoesOn('Charging goes on; `rankledger db stop-charging` first.')
  const forgotten = await readForgotten(app, from, to)
  let adopted = 0
  let subscriptions = 0
  for await (const { subscription, open } of listPlaces(app)) {
    if (forgotten.size === 0) break
    const found = await findPlaced(app, subscription, open, to, forgotten)
    if (found.length === 0) continue
    subscriptions++
    for (const [at, placed] of found.entries()) {
      const isLast = found[at + 1]?.k !== placed.k
      if (!(await adopt(app, subscription.subscriptionId, placed, isLast))) continue
      await settleFromProvider(app, placed.payment.reference)
      forgotten.delete(placed.payment.reference)
      onProgress(++adopted)
    }
  }
  return { adopted, subscriptions }
}

/** What the provider knows and we do not. */
async function readForgotten(app: BillingApp, from: Date, to: Date): Promise<Map<string, Forgotten>> {
  const forgotten = new Map<string, Forgotten>()
  for (const provider of app.providers.all) await readForgottenAt(app, provider, from, to, forgotten)
  return forgotten
}

/** A payment, and in whose book it stands. */
type Forgotten = ProviderPayment & { readonly provider: string }

async function readForgottenAt(
  app: BillingApp,
  { name, listPayments }: Provider,
  from: Date,
  to: Date,
  forgotten: Map<string, Forgotten>,
): Promise<void> {
  for await (const page of readBook(from, to, listPayments)) {
    const { rows } = await sql<{ reference: string }>`
      select provider_reference as reference from billing.payment
      where provider_reference = any (${page.map(({ reference }) => reference)})`.execute(app.db)
    const known = new Set(rows.map(({ reference }) => reference))
    for (const payment of page)
      if (!known.has(payment.reference) && payment.status !== 'pending')
        forgotten.set(payment.reference, { ...payment, provider: name })
  }
}

type Open = { readonly k: number; readonly attempts: number }

/** Every subscription with the periods of it that are open; what is not open takes no payment. */
async function* listPlaces(
  app: BillingApp,
): AsyncGenerator<{ subscription: Subscription; open: readonly Open[] }> {
  for (let after = ''; ; ) {
    const { rows } = await sql<SubscriptionRow & { open: Open[] }>`
      select ${subscriptionColumns}, m.brand, m.last4, m.expires, (
        select coalesce(json_agg(json_build_object('k', p.k, 'attempts', i.attempt_count) order by p.k), '[]')
        from billing.period p join billing.invoice i on i.id = p.invoice_id
        where p.subscription_id = s.id and i.status = 'open') as open
      from billing.subscription s left join billing.payment_method m on m.id = s.payment_method_id
      where s.id > ${after} order by s.id limit 200`.execute(app.db)
    if (rows.length === 0) return
    for (const row of rows) yield { subscription: toSubscription(row), open: row.open }
    after = rows.at(-1)!.id
  }
}

type Placed = { readonly k: number; readonly n: number; readonly payment: Forgotten }

// More often than dunning and a few new cards try an invoice.
const mostAttempts = 24
const mostPeriods = 1_000

/** The forgotten payments of one subscription, in the order of periods and attempts. */
async function findPlaced(
  app: BillingApp,
  subscription: Subscription,
  open: readonly Open[],
  to: Date,
  forgotten: ReadonlyMap<string, Forgotten>,
): Promise<Placed[]> {
  const { subscriptionId, anchor, timeZone, interval, lastK } = subscription
  const ks = open.map(({ k }) => k)
  const firsts = open.map(({ attempts }) => attempts + 1)
  for (let k = lastK + 1; k <= lastK + mostPeriods; k++) {
    if (period(anchor, timeZone, interval, k).start >= to) break
    ks.push(k)
    firsts.push(1)
  }
  if (ks.length === 0) return []
  const { rows } = await sql<{ k: number; n: number; reference: string }>`
    select g.k, n, billing.charge_reference(${subscriptionId}, g.k, n) as reference
    from unnest(${ks}::int[], ${firsts}::int[]) as g (k, first), generate_series(g.first, g.first + ${mostAttempts}) as n
    order by g.k, n`.execute(app.db)
  return rows.flatMap(({ k, n, reference }) => {
    const payment = forgotten.get(reference)
    return payment && isOf(subscription, payment) ? [{ k, n, payment }] : []
  })
}

/** Another amount than the terms say is for a person to look at. */
function isOf({ price }: Subscription, { amount }: ProviderPayment): boolean {
  return amount.minor === price.minor && amount.currency === price.currency
}

/** Opens the period and the attempt, as of the time at which the money was asked for, and records what became of it. */
async function adopt(
  app: BillingApp,
  subscriptionId: string,
  { k, n, payment }: Placed,
  isLast: boolean,
): Promise<boolean> {
  const at = payment.at
  return app.db.transaction().execute(async (tx) => {
    const subscription = await lockSubscription(tx, subscriptionId)
    if (!subscription) return false
    const method = await cardOf(app, tx, subscription, payment.provider)
    for (let next = subscription.lastK + 1; next <= k; next++)
      await openPeriod(app, tx, subscription, next, { held: next < k, at, method })

    const paymentId = await openAttemptNumber(app, tx, { subscriptionId, k, n, at, method })
    if (paymentId === undefined) return false
    const outcome = outcomeOfPayment(payment, { reference: payment.reference, amount: subscription.price })
    // What is about to end is not dunned: its cancellation closes the invoice.
    const isEnding = subscription.status === 'canceling' || subscription.status === 'canceled'
    if (outcome.kind === 'failed' && (!isLast || isEnding))
      await failInPassing(tx, paymentId, outcome.code, at)
    else if (outcome.kind === 'paid' || outcome.kind === 'failed')
      await settleDecided(app, tx, [{ paymentId, outcome }], at)
    return true
  })
}

/** The card it has; without one, a place for the one that was lost. The payment was made where it was found. */
async function cardOf(
  app: BillingApp,
  tx: BillingTx,
  subscription: Subscription,
  provider: string,
): Promise<MethodInUse> {
  const { subscriptionId, accountId, methodId } = subscription
  if (methodId !== null) return { methodId, provider, sealed: null, exchanged: true }
  const made = newId('pm_', app.clock())
  await sql`
    insert into billing.payment_method
      (id, account_id, subscription_id, provider, purpose, state, sealed, exchanged, failure, created_at)
    values (${made}, ${accountId}, ${subscriptionId}, ${provider}, 'trial', 'kept', null, true, 'lost_in_restore', ${app.clock()})`.execute(
    tx,
  )
  await tx
    .updateTable('billing.subscription')
    .set({ payment_method_id: made })
    .where('id', '=', subscriptionId)
    .execute()
  const note =
    'It was paid for after the backup with a card that is lost. Ask the customer for a card; until then its renewals fail.'
  await raiseAlarm(tx, { kind: 'payment_method_lost_in_restore', subject: subscriptionId, note }, app.clock())
  return { methodId: made, provider, sealed: null, exchanged: true }
}

async function openPeriod(
  app: BillingApp,
  tx: BillingTx,
  subscription: Subscription,
  k: number,
  { held, at, method }: { held: boolean; at: Date; method: MethodInUse },
): Promise<void> {
  const { subscriptionId, accountId, anchor, timeZone, interval } = subscription
  const due = { k, period: period(anchor, timeZone, interval, k), held }
  await openPeriods(tx, at, [{ subscription, due, method }], app.terms, [])
  if (held)
    await insertEvents(tx, at, [
      { type: 'invoice.held', accountId, subscriptionId, data: { period: k, hold: 'missed' } },
    ])
  await sql`
    update billing.subscription
    set last_k = ${k}, period_start = ${due.period.start}, period_end = ${due.period.end},
      status = case status when 'trialing' then 'active' else status end,
      next_billing_at = case when status = 'canceled' then null else ${due.period.end}::timestamptz end
    where id = ${subscriptionId}`.execute(tx)
}

/** The n-th attempt on the period's invoice. Those before it that left no trace at the provider never arrived. */
async function openAttemptNumber(
  app: BillingApp,
  tx: BillingTx,
  {
    subscriptionId,
    k,
    n,
    at,
    method,
  }: { subscriptionId: string; k: number; n: number; at: Date; method: MethodInUse },
): Promise<string | undefined> {
  const { rows } = await sql<{ invoice_id: string; payment_id: string | null; attempt: number }>`
    select i.id as invoice_id, p.id as payment_id, i.attempt_count as attempt
    from billing.period d join billing.invoice i on i.id = d.invoice_id
    left join billing.payment p on p.invoice_id = i.id and p.status in ('sending', 'unknown')
    where d.subscription_id = ${subscriptionId} and d.k = ${k} and i.status = 'open'`.execute(tx)
  if (rows.length === 0) return undefined
  let { invoice_id: invoiceId, payment_id: paymentId, attempt } = rows[0]!
  for (; attempt < n; attempt++) {
    if (paymentId !== null) await failInPassing(tx, paymentId, 'never_arrived', at)
    paymentId = (await openAttempt(tx, at, invoiceId, method, sendingLeaseMs(app.terms)))?.paymentId ?? null
    if (paymentId === null) return undefined
  }
  return paymentId ?? undefined
}

/** A failure that another attempt followed: what came of the invoice, the last one decides. */
async function failInPassing(tx: BillingTx, paymentId: string, code: string, at: Date): Promise<void> {
  await markFailed(tx, at, paymentId, code)
  const { rows } = await sql<{ account_id: string; subscription_id: string; invoice_id: string }>`
    update billing.invoice i set first_failed_at = coalesce(i.first_failed_at, ${at})
    from billing.payment p where p.id = ${paymentId} and i.id = p.invoice_id
    returning p.account_id, p.subscription_id, p.invoice_id`.execute(tx)
  const { account_id, subscription_id, invoice_id } = rows[0]!
  await insertEvents(tx, at, [
    {
      type: 'payment.failed',
      accountId: account_id,
      subscriptionId: subscription_id,
      data: { invoice_id, payment_id: paymentId, code },
    },
  ])
}
