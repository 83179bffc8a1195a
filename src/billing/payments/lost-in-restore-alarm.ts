import { clearAlarm, raiseAlarm } from '../../platform/alarm.ts'
import type { BillingTx } from '../app.ts'

const kind = 'payment_method_lost_in_restore'

/** A restored database knows that there was a payment method and no longer which: only its customer can bring one. */
export async function raiseLostInRestore(
  tx: BillingTx,
  subscriptionId: string,
  what: string,
  now: Date,
): Promise<void> {
  const note = `${what} Ask the customer for one; until then its renewals fail.`
  await raiseAlarm(tx, { kind, subject: subscriptionId, note }, now)
}

/** Another payment method was brought, or the subscription has ended. */
export async function clearLostInRestore(tx: BillingTx, subscriptionId: string): Promise<void> {
  await clearAlarm(tx, kind, subscriptionId)
}
