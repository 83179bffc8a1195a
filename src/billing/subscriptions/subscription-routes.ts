import Type from 'typebox'
import type { Principal } from '../../platform/access/access.ts'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import { AccountId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { isId } from '../../platform/id.ts'
import { pageQuery } from '../../platform/page.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { InstantField, readInstant } from '../instant-field.ts'
import { toJson } from '../money.ts'
import { refuse } from '../refusals.ts'
import { isOperator, ownedBy, tenantOf } from '../tenancy.ts'
import { listUpcoming } from './list-upcoming.ts'
import { type Subscription, subscriptionStatuses } from './subscription.ts'
import { findSubscription, listSubscriptions } from './subscription-rows.ts'
import { SubscriptionView, subscriptionView } from './subscription-view.ts'
import { readTimeline } from './timeline.ts'

/** What is known of subscriptions, and what will be charged for them. */
export function subscriptionRoutes(http: Http, app: BillingApp): void {
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
      const { facts, next } = await readTimeline(reader.db, subscription, app.clock(), {
        traces: isOperator(request.principal),
      })
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
    next: Type.Array(
      Type.Object({ at: Type.String(), what: Type.String(), blocked_by: Type.Optional(Type.String()) }),
    ),
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
