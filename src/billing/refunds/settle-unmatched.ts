import type { BillingApp, BillingStore } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { insertEvents } from '../events/event-rows.ts'
import { postTransfers } from '../ledger/ledger-rows.ts'
import { findRefund } from './refund-rows.ts'
import { sendRefund } from './send-refund.ts'
import {
  insertSettlement,
  lockUnmatched,
  refundUnmatched,
  type Unmatched,
  watchUnmatched,
} from './unmatched-rows.ts'

export type RetriedUnmatched = 'refunded' | 'pending' | 'declined' | 'disputed' | 'not_unmatched'

/** Tries once more to give unmatched money back, under a new key. */
export async function retryUnmatched(
  app: BillingApp,
  paymentId: string,
  actor: Actor,
): Promise<RetriedUnmatched> {
  const now = app.clock()
  const begun = await app.db.transaction().execute(async (tx) => {
    const unmatched = await lockUnmatched(tx, paymentId)
    if (!unmatched || unmatched.left.minor <= 0n) return 'not_unmatched'
    const refundId = await refundUnmatched(tx, now, paymentId)
    if (refundId === undefined) return 'disputed'
    await insertAudit(tx, audited(now, actor, 'unmatched.retry', unmatched))
    await watchUnmatched(tx, now, paymentId)
    return { refundId }
  })
  if (typeof begun === 'string') return begun
  await sendRefund(app, begun.refundId)
  const { status, code } = (await findRefund(app.db, begun.refundId))!
  if (status === 'succeeded') return 'refunded'
  if (status === 'pending') return 'pending'
  return code === 'payment_disputed' ? 'disputed' : 'declined'
}

/**
 * Books unmatched money as put right by hand: paid back by bank transfer, say, because the payment method takes nothing any more.
 * The provider's book keeps what it has; what was owed is owed no longer. Of money that went back twice it says that one
 * was recovered. False: nothing of that payment is unmatched.
 */
export async function settleUnmatched(
  app: BillingStore,
  paymentId: string,
  note: string,
  actor: Actor,
): Promise<boolean> {
  const now = app.clock()
  return app.db.transaction().execute(async (tx) => {
    const unmatched = await lockUnmatched(tx, paymentId)
    if (!unmatched) return false
    const { left, accountId, subscriptionId } = unmatched
    const n = await insertSettlement(tx, { paymentId, amount: left.minor, note, actor, at: now })
    const cause = `unmatched_settled:${paymentId}${n === 1 ? '' : `:${n}`}`
    const wasOwed = left.minor > 0n
    const amount = wasOwed ? left : { ...left, minor: -left.minor }
    const books = wasOwed
      ? ({ from: 'settlements', to: 'unclaimed' } as const)
      : ({ from: 'unclaimed', to: 'settlements' } as const)
    await postTransfers(tx, now, [{ cause, accountId, amount, ...books }])
    await insertAudit(tx, audited(now, actor, 'unmatched.settle', unmatched))
    const data = { payment_id: paymentId, amount: Number(left.minor), currency: left.currency }
    await insertEvents(tx, now, [{ type: 'payment.settled_by_hand', accountId, subscriptionId, data }])
    await watchUnmatched(tx, now, paymentId)
    return true
  })
}

function audited(at: Date, actor: Actor, action: string, { accountId, paymentId }: Unmatched) {
  return { at, actor, action, accountId, target: paymentId }
}
