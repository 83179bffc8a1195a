import type { BillingApp } from '../app.ts'
import { keepBusy } from '../sweeps/keep-busy.ts'
import { workIsolated } from '../sweeps/sweep-failures.ts'
import { takeDueRefunds } from './refund-turn-rows.ts'
import { sendRefund } from './send-refund.ts'

/** Sends or looks up refunds that are nobody's at the moment; says how many it was. */
export async function resumeRefunds(app: BillingApp): Promise<number> {
  return keepBusy({
    most: 32,
    stopping: app.stopping,
    claim: (limit) => takeDueRefunds(app.db, app.clock(), limit),
    work: (refundId) => workIsolated(app, 'refunds', refundId, () => sendRefund(app, refundId)),
  })
}
