import type { BillingTx } from '../app.ts'
import { insertEvents } from '../events/event-rows.ts'
import { clearLostInRestore } from '../payments/lost-in-restore-alarm.ts'
import { markCanceled } from './cancellation-rows.ts'

/** Ends a subscription for good. `at` is when it ended by right, `now` when that was done; one that has ended stays. */
export async function endSubscription(
  tx: BillingTx,
  subscriptionId: string,
  end: { code: string; at: Date; now: Date },
): Promise<void> {
  const ended = await markCanceled(tx, subscriptionId, end)
  if (!ended) return
  await clearLostInRestore(tx, subscriptionId)
  await insertEvents(tx, end.now, [
    {
      type: 'subscription.canceled',
      accountId: ended.accountId,
      subscriptionId,
      data: { reason: end.code },
    },
  ])
}
