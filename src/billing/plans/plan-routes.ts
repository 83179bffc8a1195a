import Type from 'typebox'
import { envelope, page, success } from '../../platform/http/answers.ts'
import { lineOf, PlanId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { callerIdPattern } from '../../platform/id.ts'
import { pageQuery } from '../../platform/page.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import type { BillingApp } from '../app.ts'
import { fromJson, toJson } from '../money.ts'
import { refuse } from '../refusals.ts'
import { intervalUnits } from './interval.ts'
import { findPlan, highestPrice, listPlans, type Plan } from './plan-rows.ts'
import { savePlan } from './save-plan.ts'

const terms = {
  name: lineOf(200),
  amount: Type.Integer({ minimum: 1, maximum: highestPrice, description: "In the currency's minor unit" }),
  currency: Type.String({ pattern: '^[A-Z]{3}$' }),
  interval: Type.Enum([...intervalUnits]),
  interval_count: Type.Integer({ minimum: 1, maximum: 1000 }),
  trial_days: Type.Integer({ minimum: 0, maximum: 3650 }),
  active: Type.Boolean(),
}

const PlanView = Type.Object({ plan_id: Type.String(), ...terms }, { title: 'Plan' })

const PlanBody = Type.Object(
  {
    ...terms,
    interval_count: Type.Optional(terms.interval_count),
    trial_days: Type.Optional(terms.trial_days),
    active: Type.Optional(terms.active),
    plan_id: Type.Optional(PlanId),
  },
  { additionalProperties: false },
)

export function planRoutes(http: Http, app: BillingApp): void {
  http.get(
    '/api/billing/plans',
    {
      config: { access: 'billing:read' },
      schema: {
        operationId: 'listPlans',
        summary: 'What is on offer',
        tags: ['billing'],
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: page('plans', PlanView) },
      },
    },
    async (request) => {
      const found = await listPlans(app.db, request.query)
      return envelope({ plans: found.items.map(viewOf), next_cursor: found.nextCursor })
    },
  )

  http.get(
    '/api/billing/plans/:plan_id',
    {
      config: { access: 'billing:read' },
      schema: {
        operationId: 'getPlan',
        summary: 'One plan',
        tags: ['billing'],
        params: Type.Object({ plan_id: Type.String() }),
        errors: refuse.may('plan_not_found'),
        response: { 200: success(PlanView) },
      },
    },
    async (request) => {
      const { plan_id } = request.params
      const plan = callerIdPattern.test(plan_id) ? await findPlan(app.db, plan_id) : undefined
      if (!plan) throw refuse('plan_not_found')
      return envelope(viewOf(plan))
    },
  )

  http.put(
    '/api/billing/plans/:plan_id',
    {
      config: { access: 'admin' },
      schema: {
        operationId: 'savePlan',
        summary: 'Make or change a plan; running subscriptions keep their terms',
        tags: ['billing'],
        params: Type.Object({ plan_id: PlanId }),
        body: PlanBody,
        response: { 200: success(PlanView) },
      },
    },
    async (request) => {
      const { body } = request
      const { plan_id: planId } = request.params
      const price = fromJson(body)
      if (!price) throw invalid('currency', 'This is no currency of ISO 4217.')
      if (body.plan_id !== undefined && body.plan_id !== planId) {
        throw invalid('plan_id', 'This is not the plan that the path names.')
      }
      const plan: Plan = {
        planId,
        name: body.name,
        price,
        interval: body.interval,
        intervalCount: body.interval_count ?? 1,
        trialDays: body.trial_days ?? 0,
        active: body.active ?? true,
      }
      return envelope(viewOf(await savePlan(app, plan, request.principal.tokenId)))
    },
  )
}

function invalid(path: string, message: string) {
  return refuseRequest('validation_failed', { details: [{ path, code: 'not_allowed', message }] })
}

function viewOf(plan: Plan) {
  return {
    plan_id: plan.planId,
    name: plan.name,
    ...toJson(plan.price),
    interval: plan.interval,
    interval_count: plan.intervalCount,
    trial_days: plan.trialDays,
    active: plan.active,
  }
}
