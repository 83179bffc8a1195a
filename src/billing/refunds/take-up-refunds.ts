import { allDone } from '../all-done.ts'
import type { BillingApp } from '../app.ts'
import { takeDueRefunds } from './refund-rows.ts'
import { sendRefund } from './send-refund.ts'

const batch = 32

/** Sends or looks up refunds that are nobody's at the moment; says how many it was. */
export async function takeUpRefunds(app: BillingApp): Promise<number> {
  let taken = 0
  for (;;) {
    const refundIds = await takeDueRefunds(app.db, app.clock(), batch)
    await allDone(refundIds.map((refundId) => sendRefund(app, refundId)))
    taken += refundIds.length
    if (refundIds.length < batch) return taken
  }
}
