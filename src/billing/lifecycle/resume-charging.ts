import type { BillingApp } from '../app.ts'
import { liftChargingStop } from '../charging-stop.ts'
import { findChargingStop } from '../charging-stop-rows.ts'
import { shortenCancellations } from '../subscriptions/cancellation-rows.ts'
import { endCanceled } from './end-due-subscriptions.ts'

/**
 * Charges pass again. What was to end by now ends first, so that nothing is sent for somebody who has left. False: nothing
 * had stopped them.
 */
export async function resumeCharging(app: BillingApp): Promise<boolean> {
  if (!(await findChargingStop(app.db))) return false
  // A cancellation that a restore brought back may end a period that was begun after the backup. What the provider took
  // for it was adopted by now; one for which nobody paid is not begun again, and the one before it is the last.
  await shortenCancellations(app.db, app.terms.cancelLeadSeconds)
  await endCanceled(app)
  return liftChargingStop(app)
}
