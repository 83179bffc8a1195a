import Type from 'typebox'
import { envelope, nullable, success } from '../../platform/http/answers.ts'
import { AccountId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import { addDays, renderInstant } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { InstantField, readInstant } from '../instant-field.ts'
import { subscriptionStatuses } from '../subscriptions/subscription.ts'
import { tenantOf } from '../tenancy.ts'
import {
  churnDays,
  churnOf,
  daysOf,
  monthlyRevenue,
  mostDays,
  openSummaries,
  type Summary,
} from './summarise.ts'

const Amount = Type.Integer({ description: 'In minor units' })
const currency = Type.String()
const SummaryView = Type.Object({
  as_of: Type.String(),
  timezone: Type.String({ description: 'Whose midnights part the days' }),
  from: Type.String(),
  to: Type.String({ description: 'The last day, included' }),
  subscriptions: Type.Record(Type.String(), Type.Integer(), {
    description: 'How many there are in each status',
  }),
  monthly_revenue: Type.Array(Type.Object({ currency, amount: Amount }), {
    description: 'What active and past due subscriptions come to in a month',
  }),
  churn: Type.Object({
    days: Type.Integer(),
    ended: Type.Integer(),
    live: Type.Integer(),
    rate: Type.Number({ description: 'ended / (ended + live)' }),
  }),
  days: Type.Array(Type.Object({ day: Type.String(), currency, paid: Amount, refunded: Amount }), {
    description: 'From the ledger; days on which nothing moved are left out',
  }),
  failing: Type.Array(
    Type.Object({ code: Type.String(), currency, invoices: Type.Integer(), amount: Amount }),
    {
      description: 'Open invoices in dunning, by why the last attempt failed',
    },
  ),
  upcoming: Type.Array(
    Type.Object({ day: Type.String(), currency, charges: Type.Integer(), amount: Amount }),
    {
      description: 'What falls due in the next 30 days',
    },
  ),
  unknown: Type.Object({
    payments: Type.Integer(),
    refunds: Type.Integer(),
    oldest_seconds: Type.Number(),
  }),
  webhooks: nullable(
    Type.Object(
      { waiting: Type.Integer(), failed: Type.Integer(), lag_seconds: Type.Number() },
      {
        description: 'Null for a token of one account',
      },
    ),
  ),
  charging_stopped: nullable(Type.Boolean()),
})

export function summaryRoutes(http: Http, app: BillingApp): void {
  const summaryOf = openSummaries(app)
  http.get(
    '/api/billing/summary',
    {
      config: { access: 'billing:read' },
      schema: {
        operationId: 'getBillingSummary',
        summary: 'How billing stands: states, revenue by day, what fails and what falls due',
        description: `\`from\` and \`to\` name the days of revenue and refunds, at most ${mostDays} of them; without them the last thirty. Figures are of \`as_of\`; \`unknown\`, \`webhooks\` and \`charging_stopped\` are of now.`,
        tags: ['billing'],
        querystring: Type.Object(
          {
            from: Type.Optional(InstantField),
            to: Type.Optional(InstantField),
            account_id: Type.Optional(AccountId),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(SummaryView) },
      },
    },
    async (request) => {
      const { from, to, account_id } = request.query
      const tenant = tenantOf(request.principal, account_id)
      const days = daysOf(
        app,
        from === undefined ? undefined : readInstant('from', from),
        to === undefined ? undefined : readInstant('to', to),
      )
      if (!days)
        throw refuseRequest('validation_failed', {
          details: [
            {
              path: 'from',
              code: 'out_of_range',
              message: `from comes before to, by at most ${mostDays} days.`,
            },
          ],
        })
      return envelope(viewOf(await summaryOf(tenant, days), app.terms.timeZone))
    },
  )
}

function viewOf(summary: Summary, zone: string) {
  const counts: Record<string, number> = Object.fromEntries(subscriptionStatuses.map((status) => [status, 0]))
  for (const { status, count } of summary.terms) counts[status] = (counts[status] ?? 0) + count
  const { installation, unknown } = summary
  return {
    as_of: renderInstant(summary.asOf, zone),
    timezone: zone,
    from: summary.from,
    to: addDays(summary.until, -1),
    subscriptions: counts,
    monthly_revenue: monthlyRevenue(summary.terms).map((one) => ({ ...one, amount: Number(one.amount) })),
    churn: { days: churnDays, ...churnOf(summary.terms) },
    days: summary.days.map((one) => ({ ...one, paid: Number(one.paid), refunded: Number(one.refunded) })),
    failing: summary.failing.map((one) => ({ ...one, amount: Number(one.amount) })),
    upcoming: summary.upcoming.map((one) => ({ ...one, amount: Number(one.amount) })),
    unknown: { payments: unknown.payments, refunds: unknown.refunds, oldest_seconds: unknown.oldestSeconds },
    webhooks: installation && {
      waiting: installation.webhooksWaiting,
      failed: installation.webhooksFailed,
      lag_seconds: installation.webhookLag,
    },
    charging_stopped: installation === null ? null : installation.chargingStopped,
  }
}
