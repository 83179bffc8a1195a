import type { BillingStore } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { insertEvents } from '../events/event-rows.ts'
import { closeInvoice } from '../invoices/invoice-rows.ts'
import { lockHeld } from './held-invoice-rows.ts'

export type VoidedHeld = 'void' | 'not_held' | 'pending'

/** Waives an invoice that was held back after an outage, unless a charge of it may still take its money. */
export async function voidHeldInvoice(
  app: BillingStore,
  invoiceId: string,
  actor: Actor,
): Promise<VoidedHeld> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    const held = await lockHeld(tx, invoiceId)
    if (!held) return 'not_held'
    if (held.inDoubt) return 'pending'
    const { accountId, subscriptionId } = held
    await closeInvoice(tx, invoiceId, 'void')
    await insertEvents(tx, now, [
      { type: 'invoice.voided', accountId, subscriptionId, data: { invoice_id: invoiceId } },
    ])
    await insertAudit(tx, { at: now, actor, action: 'invoice.void_held', accountId, target: invoiceId })
    return 'void'
  })
}
