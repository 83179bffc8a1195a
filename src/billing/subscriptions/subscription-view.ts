import Type from 'typebox'
import { nullable } from '../../platform/http/answers.ts'
import { renderInstant } from '../../platform/time.ts'
import { toJson } from '../money.ts'
import { allowedActions, hasAccess, type Subscription, subscriptionStatuses } from './subscription.ts'

const instant = nullable(Type.String())

/** A subscription as the API shows it. */
export const SubscriptionView = Type.Object(
  {
    subscription_id: Type.String(),
    account_id: Type.String(),
    plan_id: Type.String(),
    amount: Type.Integer(),
    currency: Type.String(),
    interval: Type.String(),
    interval_count: Type.Integer(),
    timezone: Type.String(),
    status: Type.Enum([...subscriptionStatuses]),
    next_billing_at: instant,
    current_period_start: instant,
    current_period_end: instant,
    trial_ends_at: instant,
    cancel_at: instant,
    canceled_at: instant,
    cancel_reason: nullable(Type.String()),
    payment_method: nullable(
      Type.Object({ brand: Type.String(), last4: Type.String(), expires: Type.String() }),
      { title: 'PaymentMethod' },
    ),
    created_at: Type.String(),
    access: Type.Boolean(),
    allowed_actions: Type.Array(Type.String()),
  },
  { title: 'Subscription' },
)

export function subscriptionView(subscription: Subscription) {
  const at = (date: Date) => renderInstant(date, subscription.timeZone)
  const { card } = subscription
  return {
    subscription_id: subscription.subscriptionId,
    account_id: subscription.accountId,
    plan_id: subscription.planId,
    ...toJson(subscription.price),
    interval: subscription.interval.unit,
    interval_count: subscription.interval.count,
    timezone: subscription.timeZone,
    status: subscription.status,
    next_billing_at: subscription.nextBillingAt && at(subscription.nextBillingAt),
    current_period_start: at(subscription.periodStart),
    current_period_end: at(subscription.periodEnd),
    trial_ends_at: subscription.trialEndsAt && at(subscription.trialEndsAt),
    cancel_at: subscription.cancelAt && at(subscription.cancelAt),
    canceled_at: subscription.canceledAt && at(subscription.canceledAt),
    cancel_reason: subscription.cancelNote ?? subscription.cancelCode,
    payment_method: card && { brand: card.brand, last4: card.last4, expires: card.expires },
    created_at: at(subscription.createdAt),
    access: hasAccess(subscription.status),
    allowed_actions: allowedActions(subscription.status),
  }
}
