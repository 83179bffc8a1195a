import type { BillingTx } from '../app.ts'
import { insertEvents } from '../events/event-rows.ts'

/** Ends a subscription for good. `at` is when it ended by right, `now` when that was done; one that has ended stays. */
export async function endSubscription(
  tx: BillingTx,
  subscriptionId: string,
  end: { code: string; at: Date; now: Date },
): Promise<void> {
  const ended = await tx
    .updateTable('billing.subscription')
    .set({
      status: 'canceled',
      canceled_at: end.at,
      next_billing_at: null,
      cancel_code: end.code,
      // The caller's own words explain only an end that the caller asked for.
      ...(end.code !== 'requested' && { cancel_note: null }),
    })
    .where('id', '=', subscriptionId)
    .where('status', '<>', 'canceled')
    .returning('account_id')
    .executeTakeFirst()
  if (!ended) return
  await insertEvents(tx, end.now, [
    {
      type: 'subscription.canceled',
      accountId: ended.account_id,
      subscriptionId,
      data: { reason: end.code },
    },
  ])
}
