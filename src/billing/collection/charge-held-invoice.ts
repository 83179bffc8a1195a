import { invariant } from '../../platform/invariant.ts'
import type { BillingApp } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { findInvoice } from '../invoices/invoice-rows.ts'
import { chargeOrLook } from '../payments/charge-payment.ts'
import { findMethod } from '../payments/payment-method-rows.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { openAttempt } from './attempt-rows.ts'
import { lockHeld } from './held-invoice-rows.ts'
import { settlePayments } from './settle-payments.ts'

export type ChargedHeld = 'paid' | 'declined' | 'pending' | 'not_held' | 'no_card'

/**
 * Collects an invoice that was held back after an outage, because an operator said so. A decline leaves it held: it starts
 * no dunning, and the operator may try again or waive it.
 */
export async function chargeHeldInvoice(
  app: BillingApp,
  invoiceId: string,
  actor: Actor,
): Promise<ChargedHeld> {
  const now = app.clock()
  const begun = await app.db.transaction().execute(async (tx) => {
    const held = await lockHeld(tx, invoiceId)
    if (!held) return 'not_held'
    if (held.inDoubt) return 'pending'
    const method = held.methodId === null ? undefined : await findMethod(tx, held.methodId)
    if (!method || method.sealed === null) return 'no_card'
    const attempt = await openAttempt(tx, now, invoiceId, method, sendingLeaseMs(app.terms))
    const action = 'invoice.charge_held'
    await insertAudit(tx, { at: now, actor, action, accountId: held.accountId, target: invoiceId })
    return attempt ?? 'not_held'
  })
  if (typeof begun === 'string') return begun

  const outcome = await chargeOrLook(app, begun)
  await settlePayments(app, [{ attempt: begun, outcome, fresh: true }])
  const invoice = await findInvoice(app.db, invoiceId)
  invariant(invoice, 'an issued invoice stays')
  if (invoice.paid.minor > 0n) return 'paid'
  return invoice.payments.some(({ status }) => status === 'pending') ? 'pending' : 'declined'
}
