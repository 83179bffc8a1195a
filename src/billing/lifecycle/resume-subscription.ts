import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { insertEvents } from '../events/event-rows.ts'
import { aboutSubscription, type MoneyRequest, type SubscriptionIntent } from '../money-request.ts'
import { refuse } from '../refusals.ts'
import { takeBackCancellation } from '../subscriptions/cancellation-rows.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { getSubscription, lockSubscription } from '../subscriptions/subscription-rows.ts'

export type ResumeRequest = {
  readonly subscriptionId: string
  readonly actor: Actor
  readonly mayTouch: (accountId: string) => boolean
}

/** Takes a cancellation back, as long as it has not been carried out. All of it is done where it begins. */
export function resumeSubscription(
  app: BillingApp,
  request: ResumeRequest,
): MoneyRequest<SubscriptionIntent<'resume'>, Subscription> {
  return {
    begin: async (tx) => aboutSubscription('resume', await resume(tx, app.clock(), request)),
    finish: async ({ id }) => ({ state: 'done', result: await getSubscription(app.db, id) }),
  }
}

async function resume(tx: BillingTx, now: Date, request: ResumeRequest): Promise<string> {
  const subscription = await lockSubscription(tx, request.subscriptionId)
  if (!subscription || !request.mayTouch(subscription.accountId)) throw refuse('subscription_not_found')
  if (subscription.status !== 'canceling') throw refuse('not_canceling')

  const { accountId, subscriptionId } = subscription
  await takeBackCancellation(tx, subscription)
  const action = 'subscription.resume'
  await insertAudit(tx, { at: now, actor: request.actor, action, accountId, target: subscriptionId })
  await insertEvents(tx, now, [{ type: 'subscription.resumed', accountId, subscriptionId }])
  return subscriptionId
}
