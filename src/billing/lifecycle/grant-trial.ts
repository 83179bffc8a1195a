import { newId } from '../../platform/id.ts'
import { ensureAccount } from '../accounts/account-rows.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { insertEvents } from '../events/event-rows.ts'
import { aboutSubscription, type MoneyRequest, type SubscriptionIntent } from '../money-request.ts'
import { findPlan } from '../plans/plan-rows.ts'
import { refuse } from '../refusals.ts'
import { trialEnd } from '../subscriptions/period.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { getSubscription, insertSubscription } from '../subscriptions/subscription-rows.ts'
import { insertTrialGrant } from '../subscriptions/trial-grant-rows.ts'

export type TrialRequest = { readonly accountId: string; readonly planId: string; readonly actor: Actor }

/** Grants the one trial of an account. All of it is done where it begins. */
export function grantTrial(
  app: BillingApp,
  request: TrialRequest,
): MoneyRequest<SubscriptionIntent<'trial'>, Subscription> {
  return {
    begin: async (tx) =>
      aboutSubscription('trial', await grant(tx, app.clock(), request, app.terms.timeZone)),
    finish: async ({ id }) => ({ state: 'done', result: await getSubscription(app.db, id) }),
  }
}

/**
 * The grant is a row keyed by the account that nothing deletes; a refusal further
 * down takes the whole transaction back, and with it the grant.
 */
async function grant(
  tx: BillingTx,
  now: Date,
  request: TrialRequest,
  defaultTimeZone: string,
): Promise<string> {
  const { accountId, planId } = request
  const subscriptionId = newId('sub_', now)
  const granted = await insertTrialGrant(tx, { accountId, subscriptionId, planId, grantedAt: now })
  if (!granted) throw refuse('trial_already_used')

  const plan = await findPlan(tx, planId)
  if (!plan?.active) throw refuse('plan_not_found')
  if (plan.trialDays === 0) throw refuse('plan_has_no_trial')

  const timeZone = await ensureAccount(tx, accountId, defaultTimeZone, now)
  const endsAt = trialEnd(now, plan.trialDays, timeZone)
  const subscription = await insertSubscription(
    tx,
    {
      subscriptionId,
      accountId,
      timeZone,
      status: 'trialing',
      anchor: endsAt,
      lastK: -1,
      nextBillingAt: endsAt,
      periodStart: now,
      periodEnd: endsAt,
      trialEndsAt: endsAt,
      cancelAt: null,
      canceledAt: null,
      cancelCode: null,
      cancelNote: null,
      methodId: null,
      createdAt: now,
    },
    plan,
  )
  if (!subscription) throw refuse('subscription_exists')
  await insertAudit(tx, {
    at: now,
    actor: request.actor,
    action: 'trial.grant',
    accountId,
    target: subscriptionId,
  })
  await insertEvents(tx, now, [
    { type: 'subscription.trial_started', accountId, subscriptionId, data: { plan_id: planId } },
  ])
  return subscriptionId
}
