import { newId } from '../../platform/id.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { type OfferIntent, useMethod } from '../collection/try-payment-method.ts'
import type { MoneyRequest } from '../money-request.ts'
import { type GivenMethod, insertMethod } from '../payments/payment-method-rows.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { refuse } from '../refusals.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { lockSubscription } from '../subscriptions/subscription-rows.ts'
import { type MethodIntake, methodIntake, requireChargeable } from './method-intake.ts'
import { requireOwnCustomer } from './set-up-payment-method.ts'

export type MethodRequest = {
  readonly subscriptionId: string
  readonly method: GivenMethod
  /** The caller's token reaches one account alone. */
  readonly bound: boolean
  readonly actor: Actor
  readonly mayTouch: (accountId: string) => boolean
}

/** Puts another payment method to use; what is past due is charged to it first, which may take its time to be decided. */
export function changePaymentMethod(
  app: BillingApp,
  request: MethodRequest,
): MoneyRequest<OfferIntent<'card'>, Subscription> {
  return {
    begin: async (tx) => ({
      kind: 'card',
      id: await recordOffer(tx, app.clock(), request, methodIntake(app)),
      subject: request.subscriptionId,
      leased: true,
    }),
    finish: (intent) => useMethod(app, intent),
  }
}

/** Records the offer of another payment method. It is put to use after this commits. */
async function recordOffer(
  tx: BillingTx,
  now: Date,
  request: MethodRequest,
  { provider, keys, terms }: MethodIntake,
): Promise<string> {
  const subscription = await lockSubscription(tx, request.subscriptionId)
  if (!subscription || !request.mayTouch(subscription.accountId)) throw refuse('subscription_not_found')
  if (subscription.status === 'canceled') throw refuse('already_canceled')
  if (subscription.status === 'incomplete') throw refuse('payment_in_doubt')
  requireChargeable(provider, subscription.price)

  const { accountId, subscriptionId } = subscription
  const { method, bound } = request
  await requireOwnCustomer(tx, provider, { accountId, method, bound })
  const methodId = newId('pm_', now)
  await insertMethod(tx, keys, {
    methodId,
    provider: provider.name,
    given: method,
    accountId,
    bound,
    subscriptionId,
    purpose: 'replacement',
    planId: null,
    planTerms: null,
    leaseMs: sendingLeaseMs(terms),
    now,
  })
  const action = 'subscription.change_payment_method'
  await insertAudit(tx, { at: now, actor: request.actor, action, accountId, target: subscriptionId })
  return methodId
}
