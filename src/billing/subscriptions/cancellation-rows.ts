import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'
import { restoredInThisStop } from '../charging-stop-rows.ts'
import { type Subscription, statusAfterResume } from './subscription.ts'

/** Notes that somebody canceled, and why. What ends later is `canceling` until then. */
export async function noteCancellation(
  tx: BillingTx,
  subscriptionId: string,
  { code, note, cancelAt }: { code: string; note?: string | null; cancelAt?: Date },
): Promise<void> {
  await tx
    .updateTable('billing.subscription')
    .set({
      cancel_code: code,
      ...(note !== undefined && { cancel_note: note }),
      ...(cancelAt && { status: 'canceling' as const, cancel_at: cancelAt }),
    })
    .where('id', '=', subscriptionId)
    .execute()
}

/** Takes a cancellation back that has not been carried out. */
export async function takeBackCancellation(tx: BillingTx, subscription: Subscription): Promise<void> {
  await tx
    .updateTable('billing.subscription')
    .set({ status: statusAfterResume(subscription), cancel_at: null, cancel_code: null, cancel_note: null })
    .where('id', '=', subscription.subscriptionId)
    .execute()
}

/** Ends a subscription for good and says whose it was. Undefined: it had ended. */
export async function markCanceled(
  tx: BillingTx,
  subscriptionId: string,
  { code, at }: { code: string; at: Date },
): Promise<{ accountId: string } | undefined> {
  const ended = await tx
    .updateTable('billing.subscription')
    .set({
      status: 'canceled',
      canceled_at: at,
      next_billing_at: null,
      cancel_code: code,
      // The caller's own words explain only an end that the caller asked for.
      ...(code !== 'requested' && { cancel_note: null }),
    })
    .where('id', '=', subscriptionId)
    .where('status', '<>', 'canceled')
    .returning('account_id')
    .executeTakeFirst()
  return ended && { accountId: ended.account_id }
}

/** Cancellations that a history brought back end no later than this before their next charge. One atomic statement. */
export async function shortenCancellations(db: BillingDb, leadSeconds: number): Promise<void> {
  await sql`
    update billing.subscription
    set cancel_at = next_billing_at - make_interval(secs => ${leadSeconds})
    where status = 'canceling' and cancel_at > next_billing_at
      and ${restoredInThisStop}`.execute(db)
}

/** Forgets what the person wrote when they canceled. */
export async function eraseCancelNotes(tx: BillingTx, accountId: string): Promise<void> {
  await tx
    .updateTable('billing.subscription')
    .set({ cancel_note: null })
    .where('account_id', '=', accountId)
    .where('cancel_note', 'is not', null)
    .execute()
}
