import Type from 'typebox'
import { envelope, nullable, page, success } from '../../platform/http/answers.ts'
import type { Http } from '../../platform/http/http.ts'
import { limitOf, pageOf, pageQuery, readCursor } from '../../platform/page.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import { parseInstant, renderInstant } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { insertAudit } from '../audit/audit-rows.ts'
import { refuse } from '../refusals.ts'
import { listWebhooks, requeueWebhooks, type StoredWebhook } from './inbox-rows.ts'
import { webhookStatuses } from './webhook.ts'

const WebhookView = Type.Object(
  {
    event_id: Type.String(),
    provider: Type.String(),
    type: Type.String({ description: "The provider's own word" }),
    claim: nullable(Type.String({ description: 'What it says of the payment: paid, declined or changed' })),
    reference: nullable(Type.String({ description: "The payment's reference at the provider" })),
    status: Type.Enum([...webhookStatuses]),
    tries: Type.Integer(),
    last_error: nullable(Type.String()),
    received_at: Type.String(),
    settled_at: nullable(Type.String()),
  },
  { title: 'Webhook' },
)

/** The inbox of notifications, and looking at one of them again. It concerns the whole installation. */
export function inboxRoutes(http: Http, app: BillingApp): void {
  const common = { config: { access: 'admin' as const } }
  const zone = app.terms.timeZone
  const view = (one: StoredWebhook) => ({
    event_id: one.eventId,
    provider: one.provider,
    type: one.type,
    claim: one.claim,
    reference: one.reference,
    status: one.status,
    tries: one.tries,
    last_error: one.lastError,
    received_at: renderInstant(one.receivedAt, zone),
    settled_at: one.settledAt && renderInstant(one.settledAt, zone),
  })

  http.get(
    '/api/billing/webhooks',
    {
      ...common,
      schema: {
        operationId: 'listWebhooks',
        summary: 'Notifications of the provider and what became of them, newest first',
        tags: ['billing'],
        querystring: Type.Object(
          { status: Type.Optional(Type.Enum([...webhookStatuses])), ...pageQuery },
          { additionalProperties: false },
        ),
        response: { 200: page('webhooks', WebhookView) },
      },
    },
    async (request) => {
      const { status } = request.query
      const limit = limitOf(request.query)
      const cursor = readCursor(request.query, 3)
      const at = cursor && parseInstant(cursor[0]!)
      if (cursor && !at)
        throw refuseRequest('validation_failed', {
          details: [
            {
              path: 'cursor',
              code: 'invalid_cursor',
              message: 'This cursor was not made by this list; start without one.',
            },
          ],
        })
      const before = cursor && at ? ([at.toISOString(), cursor[1]!, cursor[2]!] as const) : undefined
      const rows = await listWebhooks(app.db, { status, before, limit: limit + 1 })
      const { items, nextCursor } = pageOf(rows, limit, ({ receivedAt, provider, eventId }) => [
        receivedAt.toISOString(),
        provider,
        eventId,
      ])
      return envelope({ webhooks: items.map(view), next_cursor: nextCursor })
    },
  )

  http.post(
    '/api/billing/webhooks/:event_id/replay',
    {
      ...common,
      schema: {
        operationId: 'replayWebhook',
        errors: refuse.may('webhook_not_found', 'webhook_of_no_payment'),
        summary: 'Act again on a stored notification; its payment is looked up whatever it said',
        tags: ['billing'],
        params: Type.Object({ event_id: Type.String({ maxLength: 512 }) }),
        response: { 202: success(Type.Object({ event_id: Type.String(), queued: Type.Literal(true) })) },
      },
    },
    async (request, reply) => {
      const { event_id } = request.params
      const [found] = await requeueWebhooks(app.db, { eventId: event_id })
      if (!found) throw refuse('webhook_not_found')
      if (!found.queued) throw refuse('webhook_of_no_payment')
      const entry = { at: app.clock(), actor: request.principal.tokenId, accountId: null }
      const target = `webhook:${event_id}`.slice(0, 128)
      await app.db
        .transaction()
        .execute((tx) => insertAudit(tx, { ...entry, action: 'webhook.replay', target }))
      return reply.code(202).send(envelope({ event_id, queued: true as const }))
    },
  )
}
