import { sql } from 'kysely'
import type { BillingApp } from '../app.ts'
import { findChargingStop, liftChargingStop } from '../charging-stop.ts'
import { endCanceled } from './end-due-subscriptions.ts'

/**
 * Charges pass again. What was to end by now ends first, so that nothing is sent for somebody who has left. False: nothing
 * had stopped them.
 */
export async function resumeCharging(app: BillingApp): Promise<boolean> {
  if (!(await findChargingStop(app.db))) return false
  await shortenCancellations(app)
  await endCanceled(app)
  return liftChargingStop(app)
}

/**
 * A cancellation that a restore brought back may end a period that was begun after the backup. What the provider took for
 * it was adopted by now; one for which nobody paid is not begun again, and the one before it is the last.
 */
async function shortenCancellations({ db, terms }: BillingApp): Promise<void> {
  await sql`
    update billing.subscription
    set cancel_at = next_billing_at - make_interval(secs => ${terms.cancelLeadSeconds})
    where status = 'canceling' and cancel_at > next_billing_at
      and exists (select from billing.history_applied)`.execute(db)
}
