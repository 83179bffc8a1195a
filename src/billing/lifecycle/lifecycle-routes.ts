import Type, { type Static } from 'typebox'
import { mayTouch, type Principal } from '../../platform/access/access.ts'
import { answerOnce } from '../../platform/http/answer-once.ts'
import { envelope, success } from '../../platform/http/answers.ts'
import { AccountId, noteOf, PlanId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { ContactBody, requireZone, TimeZone } from '../accounts/account.ts'
import type { BillingApp } from '../app.ts'
import { chargeErrors } from '../collection/charge-refusal.ts'
import { onceContext } from '../once-context.ts'
import { findNextAction } from '../payments/next-action-rows.ts'
import { NextActionView, nextActionView } from '../payments/next-action-view.ts'
import type { GivenMethod } from '../payments/payment-method-rows.ts'
import { refuse } from '../refusals.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { SubscriptionView, subscriptionView } from '../subscriptions/subscription-view.ts'
import { cancelSubscription } from './cancel-subscription.ts'
import { changePaymentMethod } from './change-payment-method.ts'
import { eraseAccount } from './erase-account.ts'
import { grantTrial } from './grant-trial.ts'
import { resumeSubscription } from './resume-subscription.ts'
import { subscribe } from './subscribe.ts'

const key = Type.String({ minLength: 1, maxLength: 300, pattern: '^[\\x21-\\x7e]+$' })

const MethodBody = Type.Union(
  [
    Type.Object({ billing_key: key }, { additionalProperties: false }),
    Type.Object({ auth_key: key, customer_key: key }, { additionalProperties: false }),
  ],
  {
    title: 'PaymentMethodInput',
    description: 'A billing key, or the one-time key and customer key of the card form',
  },
)

const SubscriptionId = Type.String({ maxLength: 64 })

const Answer = success(SubscriptionView)
const ChargedAnswer = success(
  Type.Object(
    { ...SubscriptionView.properties, next_action: NextActionView },
    { title: 'ChargedSubscription' },
  ),
)
const config = { access: 'billing:write', once: true } as const

/**
 * The five requests that change a subscription, each safe to repeat under its Idempotency-Key, and forgetting whoever had
 * one.
 */
export function lifecycleRoutes(http: Http, app: BillingApp): void {
  subscribeRoute(http, app)
  trialRoute(http, app)
  cancelRoute(http, app)
  resumeRoute(http, app)
  paymentMethodRoute(http, app)
  eraseRoute(http, app)
}

function subscribeRoute(http: Http, app: BillingApp): void {
  http.post(
    '/api/billing/subscribe',
    {
      config,
      schema: {
        operationId: 'subscribe',
        summary: 'Start a recurring subscription; the first period is charged at once',
        tags: ['billing'],
        body: Type.Object(
          {
            account_id: AccountId,
            plan_id: PlanId,
            payment_method: MethodBody,
            timezone: Type.Optional(TimeZone),
            customer: Type.Optional(ContactBody),
          },
          { additionalProperties: false },
        ),
        errors: [...refuse.may('plan_not_found'), ...chargeErrors],
        response: { 201: ChargedAnswer, 202: ChargedAnswer },
      },
    },
    async (request, reply) => {
      const { body } = request
      requireZone(body.timezone)
      const asked = {
        accountId: body.account_id,
        planId: body.plan_id,
        method: givenMethod(body.payment_method),
        bound: isBound(request.principal),
        timeZone: body.timezone,
        contact: body.customer,
        actor: request.principal.tokenId,
      }
      await answerOnce(onceContext(app), request, reply, subscribe(app, asked), {
        done: 201,
        pending: 202,
        view: (subscription) => chargedView(app, subscription),
      })
    },
  )
}

function trialRoute(http: Http, app: BillingApp): void {
  http.post(
    '/api/billing/trial',
    {
      config,
      schema: {
        operationId: 'grantTrial',
        summary: 'Grant the one trial of an account',
        tags: ['billing'],
        body: Type.Object({ account_id: AccountId, plan_id: PlanId }, { additionalProperties: false }),
        errors: refuse.may(
          'plan_not_found',
          'plan_has_no_trial',
          'subscription_exists',
          'trial_already_used',
        ),
        response: { 201: Answer },
      },
    },
    async (request, reply) => {
      const { account_id: accountId, plan_id: planId } = request.body
      const asked = { accountId, planId, actor: request.principal.tokenId }
      await answerOnce(onceContext(app), request, reply, grantTrial(app, asked), {
        done: 201,
        view: subscriptionView,
      })
    },
  )
}

function cancelRoute(http: Http, app: BillingApp): void {
  http.post(
    '/api/billing/cancel',
    {
      config,
      schema: {
        operationId: 'cancelSubscription',
        summary: 'Cancel just before the next billing date',
        tags: ['billing'],
        body: Type.Object(
          { subscription_id: SubscriptionId, reason: Type.Optional(noteOf(500)) },
          { additionalProperties: false },
        ),
        errors: refuse.may('subscription_not_found', 'already_canceled'),
        response: { 200: Answer },
      },
    },
    async (request, reply) => {
      const { subscription_id, reason } = request.body
      const asked = { ...target(request.principal, subscription_id), note: reason ?? null }
      await answerOnce(onceContext(app), request, reply, cancelSubscription(app, asked), {
        done: 200,
        view: subscriptionView,
      })
    },
  )
}

function resumeRoute(http: Http, app: BillingApp): void {
  http.post(
    '/api/billing/resume',
    {
      config,
      schema: {
        operationId: 'resumeSubscription',
        summary: 'Take a cancellation back before it ran',
        tags: ['billing'],
        body: Type.Object({ subscription_id: SubscriptionId }, { additionalProperties: false }),
        errors: refuse.may('subscription_not_found', 'not_canceling'),
        response: { 200: Answer },
      },
    },
    async (request, reply) => {
      const asked = target(request.principal, request.body.subscription_id)
      await answerOnce(onceContext(app), request, reply, resumeSubscription(app, asked), {
        done: 200,
        view: subscriptionView,
      })
    },
  )
}

function paymentMethodRoute(http: Http, app: BillingApp): void {
  http.post(
    '/api/billing/payment-method',
    {
      config,
      schema: {
        operationId: 'changePaymentMethod',
        summary: 'Replace the payment method and charge what is past due',
        tags: ['billing'],
        body: Type.Object(
          { subscription_id: SubscriptionId, payment_method: MethodBody },
          { additionalProperties: false },
        ),
        errors: [...refuse.may('subscription_not_found', 'payment_in_doubt'), ...chargeErrors],
        response: { 200: ChargedAnswer, 202: ChargedAnswer },
      },
    },
    async (request, reply) => {
      const { subscription_id, payment_method } = request.body
      const asked = {
        ...target(request.principal, subscription_id),
        method: givenMethod(payment_method),
        bound: isBound(request.principal),
      }
      await answerOnce(onceContext(app), request, reply, changePaymentMethod(app, asked), {
        done: 200,
        pending: 202,
        view: (subscription) => chargedView(app, subscription),
      })
    },
  )
}

function eraseRoute(http: Http, app: BillingApp): void {
  http.delete(
    '/api/billing/accounts/:account_id',
    {
      config: { access: 'billing:write' },
      schema: {
        operationId: 'eraseAccount',
        summary: 'Forget the person behind an account; money and the trial stay',
        tags: ['billing'],
        params: Type.Object({ account_id: AccountId }),
        errors: refuse.may('account_not_found', 'subscription_exists'),
        response: { 200: success(Type.Object({ account_id: Type.String(), erased: Type.Boolean() })) },
      },
    },
    async (request) => {
      await eraseAccount(app, request.params.account_id, request.principal.tokenId)
      return envelope({ account_id: request.params.account_id, erased: true })
    },
  )
}

/** The subscription after a charge, and what its customer has to do should the charge wait for that. */
async function chargedView(app: BillingApp, subscription: Subscription) {
  const mayWait = subscription.status === 'incomplete' || subscription.status === 'past_due'
  const kept = mayWait ? await findNextAction(app.db, subscription.subscriptionId) : null
  return {
    ...subscriptionView(subscription),
    next_action: nextActionView(app, kept, subscription.timeZone),
  }
}

function givenMethod(body: Static<typeof MethodBody>): GivenMethod {
  return 'billing_key' in body
    ? { billingKey: body.billing_key }
    : { authKey: body.auth_key, customerKey: body.customer_key }
}

function isBound({ account }: Principal): boolean {
  return account !== '*'
}

/** Which subscription is meant, and who asks. */
function target(principal: Principal, subscriptionId: string) {
  return {
    subscriptionId,
    actor: principal.tokenId,
    mayTouch: (accountId: string) => mayTouch(principal.account, accountId),
  }
}
