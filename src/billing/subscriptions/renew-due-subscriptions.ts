import { sql } from 'kysely'
import type { BillingApp, BillingTx } from '../app.ts'
import { eventInsert, type NewEvent } from '../events/event-rows.ts'
import type { Attempt } from '../payments/payment.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { duePeriods } from './catch-up.ts'
import { chargeAttempts } from './charge-attempts.ts'
import { type Opening, openPeriods } from './period-rows.ts'
import { type SubscriptionRow, subscriptionColumns, toSubscription } from './subscription-rows.ts'

/** Opens and charges every period that has begun; the end of a trial with a card is one. Says how many were opened. */
export async function renewDueSubscriptions(app: BillingApp): Promise<number> {
  let renewed = 0
  await chargeAttempts(app, async (limit) => {
    for (;;) {
      const claimed = await claimRenewals(app, limit)
      renewed += claimed.opened
      // A batch may hold nothing to charge when all of its periods are held.
      if (claimed.attempts.length > 0 || claimed.opened === 0) return claimed.attempts
    }
  })
  return renewed
}

/**
 * Writes the next periods of subscriptions that are due and moves `next_billing_at` past them, all in one transaction.
 * A cancellation takes the same row lock, so that whichever commits first decides.
 */
async function claimRenewals(
  app: BillingApp,
  limit: number,
): Promise<{ attempts: readonly Attempt[]; opened: number }> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    await app.fence(tx)
    const due = await lockDue(tx, now, limit)
    if (due.length === 0) return { attempts: [], opened: 0 }

    const openings = due.flatMap(({ subscription, method }): Opening[] =>
      duePeriods(subscription, now, app.terms.catchUpPeriods).map((one) => ({
        subscription,
        due: one,
        method,
      })),
    )
    const held = eventInsert(now, openings.filter(({ due }) => due.held).map(heldEvent))
    const attempts = await openPeriods(tx, now, openings, sendingLeaseMs(app.terms), [held])
    await moveOn(tx, openings)
    return { attempts, opened: openings.length }
  })
}

function heldEvent({ subscription, due }: Opening): NewEvent {
  return {
    type: 'invoice.held',
    accountId: subscription.accountId,
    subscriptionId: subscription.subscriptionId,
    data: { period: due.k, hold: 'missed' },
  }
}

async function lockDue(tx: BillingTx, now: Date, limit: number) {
  const found = await sql<SubscriptionRow & { method_id: string; sealed: Buffer | null; exchanged: boolean }>`
    select ${subscriptionColumns}, m.brand, m.last4, m.expires, m.id as method_id, m.sealed, m.exchanged
    from billing.subscription s
    join billing.payment_method m on m.id = s.payment_method_id
    where s.status in ('active', 'trialing') and s.next_billing_at <= ${now}
    order by s.next_billing_at
    limit ${limit}
    for update of s skip locked`.execute(tx)
  return found.rows.map((row) => ({
    subscription: toSubscription(row),
    method: { methodId: row.method_id, sealed: row.sealed, exchanged: row.exchanged },
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
