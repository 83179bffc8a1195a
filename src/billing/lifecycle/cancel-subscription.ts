import { answerWithin } from '../answer-within.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { resolveOpenPayment } from '../collection/resolve-open-payments.ts'
import { insertEvents } from '../events/event-rows.ts'
import { closeInvoice, listInDoubtOfVoid, listOwed } from '../invoices/invoice-rows.ts'
import { aboutSubscription, type MoneyRequest, type SubscriptionIntent } from '../money-request.ts'
import { refuse } from '../refusals.ts'
import { noteCancellation } from '../subscriptions/cancellation-rows.ts'
import { endSubscription } from '../subscriptions/end-subscription.ts'
import { cancelVerdict, type Subscription } from '../subscriptions/subscription.ts'
import { getSubscription, lockSubscription } from '../subscriptions/subscription-rows.ts'

export type CancelRequest = {
  readonly subscriptionId: string
  /** The caller's own words. */
  readonly note: string | null
  readonly actor: Actor
  readonly mayTouch: (accountId: string) => boolean
}

export function cancelSubscription(
  app: BillingApp,
  request: CancelRequest,
): MoneyRequest<SubscriptionIntent<'cancel'>, Subscription> {
  return {
    begin: async (tx) =>
      aboutSubscription('cancel', await beginCancel(tx, app.clock(), request, app.terms.cancelLeadSeconds)),
    finish: async ({ id }) => ({ state: 'done', result: await finishCancel(app, id) }),
  }
}

/** Cancels under the lock that a renewal takes too: whichever commits first decides. */
async function beginCancel(
  tx: BillingTx,
  now: Date,
  request: CancelRequest,
  leadSeconds: number,
): Promise<string> {
  const subscription = await lockSubscription(tx, request.subscriptionId)
  if (!subscription || !request.mayTouch(subscription.accountId)) throw refuse('subscription_not_found')
  const { accountId, subscriptionId } = subscription

  const verdict = cancelVerdict(subscription, now, leadSeconds)
  if (verdict.kind === 'refused') throw refuse(verdict.code)
  if (verdict.kind === 'unchanged') return subscriptionId

  const action = 'subscription.cancel'
  await insertAudit(tx, { at: now, actor: request.actor, action, accountId, target: subscriptionId })
  await noteCancellation(tx, subscriptionId, {
    code: 'requested',
    note: request.note,
    ...(verdict.kind === 'later' && { cancelAt: verdict.cancelAt }),
  })
  if (verdict.kind === 'at_once') {
    await voidOwed(tx, subscription, now)
    await endSubscription(tx, subscriptionId, { code: 'requested', at: now, now })
    return subscriptionId
  }
  await insertEvents(tx, now, [
    {
      type: 'subscription.canceling',
      accountId,
      subscriptionId,
      data: { cancel_at: verdict.cancelAt.toISOString() },
    },
  ])
  return subscriptionId
}

/** What was not paid is no longer owed. A charge of it that is still in doubt goes back in full once it is found. */
async function voidOwed(tx: BillingTx, subscription: Subscription, now: Date): Promise<void> {
  const { accountId, subscriptionId, status } = subscription
  if (status !== 'past_due' && status !== 'incomplete') return
  for (const { invoiceId } of await listOwed(tx, subscriptionId)) {
    await closeInvoice(tx, invoiceId, 'void')
    await insertEvents(tx, now, [
      { type: 'invoice.voided', accountId, subscriptionId, data: { invoice_id: invoiceId } },
    ])
  }
}

/** Looks once for charges that were in doubt, so that money found is on its way back before the caller is answered. */
async function finishCancel(app: BillingApp, subscriptionId: string): Promise<Subscription> {
  const inDoubt = await listInDoubtOfVoid(app.db, subscriptionId)
  if (inDoubt.length > 0) {
    await answerWithin(app.terms, () =>
      Promise.all(inDoubt.map((paymentId) => resolveOpenPayment(app, paymentId))),
    )
  }
  return getSubscription(app.db, subscriptionId)
}
