import Type from 'typebox'
import { envelope, nullable, page } from '../../platform/http/answers.ts'
import { AccountId } from '../../platform/http/fields.ts'
import type { Http } from '../../platform/http/http.ts'
import { reading } from '../../platform/http/may-lag.ts'
import { pageQuery } from '../../platform/page.ts'
import { renderInstant } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { tenantOf } from '../tenancy.ts'
import { listEvents } from './event-rows.ts'

const BillingEvent = Type.Object(
  {
    event_id: Type.String(),
    type: Type.String(),
    account_id: Type.String(),
    subscription_id: nullable(Type.String()),
    occurred_at: Type.String(),
    data: Type.Object({}, { additionalProperties: true }),
  },
  { title: 'BillingEvent' },
)

export function eventRoutes(http: Http, app: BillingApp): void {
  http.get(
    '/api/billing/events',
    {
      config: { access: 'billing:read', mayLag: true },
      schema: {
        operationId: 'listEvents',
        summary: 'What happened, newest first',
        tags: ['billing'],
        querystring: Type.Object(
          {
            account_id: Type.Optional(AccountId),
            subscription_id: Type.Optional(Type.String({ maxLength: 64 })),
            type: Type.Optional(Type.String({ maxLength: 64 })),
            ...pageQuery,
          },
          { additionalProperties: false },
        ),
        response: { 200: page('events', BillingEvent) },
      },
    },
    async (request) => {
      const { account_id, subscription_id, type, ...paging } = request.query
      const accountId = tenantOf(request.principal, account_id)
      const found = await listEvents(
        reading(app, request).db,
        {
          ...(accountId !== undefined && { accountId }),
          ...(subscription_id !== undefined && { subscriptionId: subscription_id }),
          ...(type !== undefined && { type }),
        },
        paging,
      )
      return envelope({
        events: found.items.map((event) => ({
          event_id: event.id,
          type: event.type,
          account_id: event.accountId,
          subscription_id: event.subscriptionId,
          occurred_at: renderInstant(event.occurredAt, event.timeZone),
          data: { ...event.data },
        })),
        next_cursor: found.nextCursor,
      })
    },
  )
}
