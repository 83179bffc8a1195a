import type { BillingApp, BillingTerms, BillingTx } from '../app.ts'
import { chargeAttempts } from '../collection/charge-attempts.ts'
import { eventStatement, type NewEvent } from '../events/event-rows.ts'
import type { Attempt } from '../payments/payment.ts'
import { duePeriods } from '../subscriptions/catch-up.ts'
import { period } from '../subscriptions/period.ts'
import { type Opening, openPeriods } from '../subscriptions/period-rows.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { type Batched, workBatch, workFailed } from '../sweeps/sweep-failures.ts'
import { type DueSubscription, lockDue, moveOn, setNextBilling } from './due-subscription-rows.ts'

/** Opens and charges every period that has begun; the end of a trial with a payment method is one. Says how many were opened. */
export async function renewDueSubscriptions(app: BillingApp): Promise<number> {
  const renewals: Batched<DueSubscription, Claimed> = {
    sweep: 'renewals',
    lock: lockDue,
    act: (tx, now, due) => openDue(tx, now, due, app.terms),
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
  tx: BillingTx,
  now: Date,
  due: readonly DueSubscription[],
  terms: BillingTerms,
): Promise<Claimed> {
  const openings = due.flatMap(({ subscription, method }): Opening[] =>
    duePeriods(subscription, now, terms.catchUpPeriods).map((one) => ({
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

  const held = eventStatement(now, openings.filter(({ due }) => due.held).map(heldEvent))
  const attempts = await openPeriods(tx, now, openings, terms, [held])
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
    await setNextBilling(tx, one.subscriptionId, start)
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
