import type { BillingApp } from '../app.ts'
import { insertEvents } from '../events/event-rows.ts'
import { type Attempt, needsLookupFirst } from '../payments/payment.ts'
import { isMissed } from '../subscriptions/catch-up.ts'
import { findSubscription, lockSubscription } from '../subscriptions/subscription-rows.ts'
import { findUnsentRenewal, holdUnsent, type UnsentRenewal } from './held-invoice-rows.ts'

/** A renewal that never left us and that newer periods have overtaken, so that it is no longer sent by itself. */
export async function findOvertaken(
  app: BillingApp,
  attempt: Attempt,
  now: Date,
): Promise<UnsentRenewal | undefined> {
  // Every period is longer than that, so what comes in time costs no read.
  if (!needsLookupFirst(attempt, now)) return undefined
  const renewal = await findUnsentRenewal(app.db, attempt.paymentId)
  const subscription = renewal && (await findSubscription(app.db, attempt.subscriptionId))
  if (!subscription) return undefined
  return isMissed(renewal.k, subscription, now, app.terms.catchUpPeriods) ? renewal : undefined
}

/**
 * Leaves it to an operator, as if its period had been opened after the outage. All is read again under the lock: another
 * process may have begun to send it.
 */
export async function holdMissed(app: BillingApp, { paymentId, subscriptionId }: Attempt): Promise<void> {
  const now = app.clock()
  await app.db.transaction().execute(async (tx) => {
    const subscription = await lockSubscription(tx, subscriptionId)
    const renewal = await findUnsentRenewal(tx, paymentId)
    if (!subscription || !renewal) return
    if (!isMissed(renewal.k, subscription, now, app.terms.catchUpPeriods)) return
    if (!(await holdUnsent(tx, paymentId))) return
    const { accountId } = subscription
    await insertEvents(tx, now, [
      { type: 'invoice.held', accountId, subscriptionId, data: { period: renewal.k, hold: 'missed' } },
    ])
  })
}
