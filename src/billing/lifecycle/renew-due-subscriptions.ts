import { sql } from 'kysely'
import type { BillingApp, BillingTx } from '../app.ts'
import { chargeAttempts } from '../collection/charge-attempts.ts'
import { eventInsert, type NewEvent } from '../events/event-rows.ts'
import type { Attempt, MethodInUse } from '../payments/payment.ts'
import { duePeriods } from '../subscriptions/catch-up.ts'
import { period } from '../subscriptions/period.ts'
import { type Opening, openPeriods } from '../subscriptions/period-rows.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import {
  type SubscriptionRow,
  subscriptionColumns,
  toSubscription,
} from '../subscriptions/subscription-rows.ts'
import { limitOf, type Which, wanted } from '../sweep-failure-rows.ts'
import { type Batched, workBatch, workFailed } from '../sweep-failures.ts'

/** Opens and charges every period that has begun; the end of a trial with a card is one. Says how many were opened. */
export async function renewDueSubscriptions(app: BillingApp): Promise<number> {
  const renewals: Batched<DueSubscription, Claimed> = {
    sweep: 'renewals',
    lock: lockDue,
    act: (tx, now, due) => openDue(app, tx, now, due),
  }
  let renewed = 0
  let failedBefore = await workFailed(app, renewals)
  await chargeAttempts(app, async (limit) => {
    for (;;) {
      const { rows, results } = await workBatch(app, renewals, limit)
      const claimed = [...failedBefore, ...results]
      failedBefore = []
      for (const { opened } of claimed) renewed += opened
      const attempts = claimed.flatMap((one) => one.attempts)
      // A batch may hold nothing to charge when all of its periods are held.
      if (attempts.length > 0 || rows === 0 || app.stopping?.aborted) return attempts
    }
  })
  return renewed
}

type Claimed = { readonly attempts: readonly Attempt[]; readonly opened: number }

/**
 * Writes the next periods of subscriptions that are due and moves `next_billing_at` past them, all in one transaction.
 * A cancellation takes the same row lock, so that whichever commits first decides.
 */
async function openDue(
  app: BillingApp,
  tx: BillingTx,
  now: Date,
  due: readonly DueSubscription[],
): Promise<Claimed> {
  const openings = due.flatMap(({ subscription, method }): Opening[] =>
    duePeriods(subscription, now, app.terms.catchUpPeriods).map((one) => ({
      subscription,
      due: one,
      method,
    })),
  )
  const opened = new Set(openings.map(({ subscription }) => subscription.subscriptionId))
  await postpone(
    tx,
    due.map(({ subscription }) => subscription).filter(({ subscriptionId }) => !opened.has(subscriptionId)),
  )
  if (openings.length === 0) return { attempts: [], opened: 0 }

  const held = eventInsert(now, openings.filter(({ due }) => due.held).map(heldEvent))
  const attempts = await openPeriods(tx, now, openings, app.terms, [held])
  await moveOn(tx, openings)
  return { attempts, opened: openings.length }
}

/**
 * A zone's rules may change after a date was stored, and the period then begins later than that date says. The period
 * itself stays what it is, so the date moves to where it begins, and until then nothing is due.
 */
async function postpone(tx: BillingTx, early: readonly Subscription[]): Promise<void> {
  for (const one of early) {
    const { start } = period(one.anchor, one.timeZone, one.interval, one.lastK + 1)
    await tx
      .updateTable('billing.subscription')
      .set({ next_billing_at: start })
      .where('id', '=', one.subscriptionId)
      .execute()
  }
}

function heldEvent({ subscription, due }: Opening): NewEvent {
  return {
    type: 'invoice.held',
    accountId: subscription.accountId,
    subscriptionId: subscription.subscriptionId,
    data: { period: due.k, hold: 'missed' },
  }
}

type DueSubscription = {
  readonly id: string
  readonly subscription: Subscription
  readonly method: MethodInUse
}

async function lockDue(tx: BillingTx, now: Date, which: Which): Promise<DueSubscription[]> {
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
async function moveOn(tx: BillingTx, openings: readonly Opening[]): Promise<void> {
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
