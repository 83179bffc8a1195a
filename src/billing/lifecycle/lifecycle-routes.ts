import Type, { type Static } from 'typebox'
import { mayTouch, type Principal } from '../../platform/access/access.ts'
import { answerOnce } from '../../platform/http/answer-once.ts'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { AccountId, noteOf, PlanId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { isId } from '../../platform/id.ts'
import { pageQuery } from '../../platform/page.ts'
import { renderInstant } from '../../platform/time.ts'
import { ContactBody, requireZone, TimeZone } from '../accounts/account.ts'
import type { BillingApp } from '../app.ts'
import { chargeErrors } from '../collection/charge-refusal.ts'
import { InstantField, readInstant } from '../instant-field.ts'
import { toJson } from '../money.ts'
import { onceContext } from '../once-context.ts'
import { findNextAction } from '../payments/next-action-rows.ts'
import { NextActionView, nextActionView } from '../payments/next-action-view.ts'
import type { GivenMethod } from '../payments/payment-method-rows.ts'
import { refuse } from '../refusals.ts'
import { listUpcoming } from '../subscriptions/list-upcoming.ts'
import { type Subscription, subscriptionStatuses } from '../subscriptions/subscription.ts'
import { findSubscription, listSubscriptions } from '../subscriptions/subscription-rows.ts'
import { SubscriptionView, subscriptionView } from '../subscriptions/subscription-view.ts'
import { readTimeline } from '../subscriptions/timeline.ts'
import { ownedBy, tenantOf } from '../tenancy.ts'
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

export function subscriptionRoutes(http: Http, app: BillingApp): void {
  askingRoutes(http, app)
  readingRoutes(http, app)
}

/** The five requests that change a subscription, each safe to repeat under its Idempotency-Key. */
function askingRoutes(http: Http, app: BillingApp): void {
  const Answer = success(SubscriptionView)
  const once = () => onceContext(app)
  const view = subscriptionView
  const Charged = success(
    Type.Object(
      { ...SubscriptionView.properties, next_action: NextActionView },
      { title: 'ChargedSubscription' },
    ),
  )
  const charged = (subscription: Subscription) => chargedView(app, subscription)
  const config = { access: 'billing:write', once: true } as const

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
        response: { 201: Charged, 202: Charged },
      },
    },
    async (request, reply) => {
      const { body } = request
      requireZone(body.timezone)
      const asked = {
        accountId: body.account_id,
        planId: body.plan_id,
        method: givenMethod(body.payment_method),
        timeZone: body.timezone,
        contact: body.customer,
        actor: request.principal.tokenId,
      }
      await answerOnce(once(), request, reply, subscribe(app, asked), {
        done: 201,
        pending: 202,
        view: charged,
      })
    },
  )

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
      await answerOnce(once(), request, reply, grantTrial(app, asked), { done: 201, view })
    },
  )

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
      await answerOnce(once(), request, reply, cancelSubscription(app, asked), { done: 200, view })
    },
  )

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
      await answerOnce(once(), request, reply, resumeSubscription(app, asked), { done: 200, view })
    },
  )

  http.post(
    '/api/billing/payment-method',
    {
      config,
      schema: {
        operationId: 'changePaymentMethod',
        summary: 'Use another card; what is past due is charged to it at once',
        tags: ['billing'],
        body: Type.Object(
          { subscription_id: SubscriptionId, payment_method: MethodBody },
          { additionalProperties: false },
        ),
        errors: [...refuse.may('subscription_not_found', 'payment_in_doubt'), ...chargeErrors],
        response: { 200: Charged, 202: Charged },
      },
    },
    async (request, reply) => {
      const { subscription_id, payment_method } = request.body
      const asked = { ...target(request.principal, subscription_id), method: givenMethod(payment_method) }
      await answerOnce(once(), request, reply, changePaymentMethod(app, asked), {
        done: 200,
        pending: 202,
        view: charged,
      })
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

/** Which subscription is meant, and who asks. */
function target(principal: Principal, subscriptionId: string) {
  return {
    subscriptionId,
    actor: principal.tokenId,
    mayTouch: (accountId: string) => mayTouch(principal.account, accountId),
  }
}

function readingRoutes(http: Http, app: BillingApp): void {
  const config = { access: 'billing:read' } as const
  const lagging = { ...config, mayLag: true } as const
  const params = Type.Object({ subscription_id: Type.String() })

  http.get(
    '/api/billing/subscriptions',
    {
      config: lagging,
      schema: {
        operationId: 'listSubscriptions',
        summary: 'Subscriptions, newest first',
        tags: ['billing'],
        querystring: Type.Object(
          {
            account_id: Type.Optional(AccountId),
            status: Type.Optional(Type.Enum([...subscriptionStatuses])),
            ...pageQuery,
          },
          { additionalProperties: false },
        ),
        response: { 200: page('subscriptions', SubscriptionView) },
      },
    },
    async (request) => {
      const { account_id, status, ...paging } = request.query
      const accountId = tenantOf(request.principal, account_id)
      const filter = {
        ...(accountId !== undefined && { accountId }),
        ...(status !== undefined && { status }),
      }
      const found = await listSubscriptions(reading(app, request).db, filter, paging)
      return envelope({ subscriptions: found.items.map(subscriptionView), next_cursor: found.nextCursor })
    },
  )

  http.get(
    '/api/billing/subscriptions/:subscription_id',
    {
      config,
      schema: {
        operationId: 'getSubscription',
        summary: 'One subscription',
        tags: ['billing'],
        params,
        errors: refuse.may('subscription_not_found'),
        response: { 200: success(SubscriptionView) },
      },
    },
    async (request) =>
      envelope(subscriptionView(await getOwned(app, request.principal, request.params.subscription_id))),
  )

  http.get(
    '/api/billing/subscriptions/:subscription_id/timeline',
    {
      config: lagging,
      schema: {
        operationId: 'getTimeline',
        summary: 'Every fact that led here, and what happens next and when',
        tags: ['billing'],
        params,
        errors: refuse.may('subscription_not_found'),
        response: { 200: success(TimelineView) },
      },
    },
    async (request) => {
      const reader = reading(app, request)
      const subscription = await getOwned(reader, request.principal, request.params.subscription_id)
      const { facts, next } = await readTimeline(reader.db, subscription)
      const at = (instant: Date) => renderInstant(instant, subscription.timeZone)
      return envelope({
        subscription_id: subscription.subscriptionId,
        facts: facts.map((fact) => ({ ...fact, at: at(fact.at), data: { ...fact.data } })),
        next: next.map((one) => ({ ...one, at: at(one.at) })),
      })
    },
  )

  http.get(
    '/api/billing/upcoming',
    {
      config: lagging,
      schema: {
        operationId: 'listUpcomingCharges',
        summary: 'Every charge that would run by an instant, without running it',
        tags: ['billing'],
        querystring: Type.Object(
          { until: InstantField, account_id: Type.Optional(AccountId), ...pageQuery },
          { additionalProperties: false },
        ),
        response: { 200: page('charges', ChargeView) },
      },
    },
    async (request) => {
      const { until, account_id, ...paging } = request.query
      const accountId = tenantOf(request.principal, account_id)
      const filter = { until: readInstant('until', until), ...(accountId !== undefined && { accountId }) }
      const found = await listUpcoming(reading(app, request), filter, paging)
      return envelope({
        charges: found.items.map((charge) => ({
          at: renderInstant(charge.at, charge.timeZone),
          what: charge.what,
          account_id: charge.accountId,
          subscription_id: charge.subscriptionId,
          plan_id: charge.planId,
          invoice_id: charge.invoiceId,
          ...toJson(charge.amount),
          period_start: renderInstant(charge.period.start, charge.timeZone),
          period_end: renderInstant(charge.period.end, charge.timeZone),
        })),
        next_cursor: found.nextCursor,
      })
    },
  )

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

const TimelineView = Type.Object(
  {
    subscription_id: Type.String(),
    facts: Type.Array(
      Type.Object({
        at: Type.String(),
        what: Type.String(),
        by: nullable(Type.String()),
        data: Type.Object({}, { additionalProperties: true }),
      }),
    ),
    next: Type.Array(Type.Object({ at: Type.String(), what: Type.String() })),
  },
  { title: 'Timeline' },
)

const ChargeView = Type.Object(
  {
    at: Type.String(),
    what: Type.Enum(['renewal', 'trial_end', 'retry']),
    account_id: Type.String(),
    subscription_id: Type.String(),
    plan_id: Type.String(),
    invoice_id: nullable(Type.String()),
    amount: Type.Integer(),
    currency: Type.String(),
    period_start: Type.String(),
    period_end: Type.String(),
  },
  { title: 'UpcomingCharge' },
)

async function getOwned(
  app: BillingApp,
  principal: Principal,
  subscriptionId: string,
): Promise<Subscription> {
  const found = isId('sub_', subscriptionId) ? await findSubscription(app.db, subscriptionId) : undefined
  return ownedBy(principal, found, () => refuse('subscription_not_found'))
}
