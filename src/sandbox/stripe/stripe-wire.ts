import { createHmac } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import Type from 'typebox'
import type { Http } from '../../platform/http/http.ts'
import { newId } from '../../platform/id.ts'
import { adminRoutes } from '../admin-routes.ts'
import type { Notification, ProviderEvent } from '../notifier.ts'
import type { ProviderContext } from '../provider-context.ts'
import { refuse } from '../refusals.ts'
import { requireOneOf } from '../secret-key.ts'
import type { Wire } from '../wire.ts'
import { renderDispute } from './stripe-dispute.ts'
import { authenticate } from './stripe-intents.ts'
import { inLiveMode, renderEvent, seconds } from './stripe-objects.ts'
import { stripeRoutes } from './stripe-routes.ts'
import { type StripeStore, stripeStoreOf } from './stripe-store.ts'

const dayMs = 86_400_000
const strict = { additionalProperties: false }
const Reference = Type.String({ minLength: 1, maxLength: 255 })

/** Stripe's language. */
export const stripeWire: Wire = {
  name: 'stripe',
  keyWindowMs: dayMs,
  withdrawsDisputed: true,
  routes(http, context, keys) {
    const store = stripeStoreOf(context)
    http.register(async (scope) => stripeRoutes(scope as unknown as Http, context, store), { prefix: '/v1' })
    http.register(async (scope) => {
      const known = requireOneOf(keys)
      scope.addHook('onRequest', async (request: FastifyRequest) => {
        if (!/^Bearer (?:sk|rk)_(?:test|live)_\w+$/.test(request.headers.authorization ?? ''))
          await known(request)
      })
      adminRoutes(scope as unknown as Http, context)
      staffRoutes(scope as unknown as Http, context, store)
    })
  },
  async notification(event, secret, context) {
    return notificationOf(event, secret, stripeStoreOf(context))
  },
}

/** What a merchant's people do in the dashboard, and what its customers do in their browsers. */
function staffRoutes(http: Http, context: ProviderContext, store: StripeStore): void {
  http.post(
    '/__sandbox/refunds',
    {
      schema: {
        body: Type.Object(
          { reference: Reference, amount: Type.Optional(Type.Integer({ minimum: 1 })) },
          strict,
        ),
      },
    },
    async (request) => {
      const intent = await store.intentNamed(request.body.reference)
      const payment = intent && (await store.paymentOf(intent))
      if (payment?.status !== 'paid') throw refuse('charge_not_found')
      const now = await context.now()
      const id = newId('re_', now)
      const stored = { id, intent: intent!.id, metadata: {}, reason: null, pendingUntil: null }
      await context.objects.put('refund', id, stored, now)
      const amount = BigInt(request.body.amount ?? payment.amount - payment.amount_refunded)
      const { entered, refund } = await store.refund(
        payment,
        amount,
        { id, reference: id },
        { copies: 1, delayMs: 0 },
        now,
      )
      if (!refund)
        throw refuse(entered.outcome === 'disputed' ? 'charge_disputed' : 'amount_exceeds_remaining')
      return refund
    },
  )

  http.post(
    '/__sandbox/authentications',
    {
      schema: {
        body: Type.Object(
          {
            reference: Reference,
            result: Type.Union([Type.Literal('succeeded'), Type.Literal('failed')]),
          },
          strict,
        ),
      },
    },
    async (request) => {
      const named = await store.intentNamed(request.body.reference)
      if (!named) throw refuse('charge_not_found')
      return store.inTurn(named.id, async () => {
        const intent = (await store.intent(named.id))!
        const done = await authenticate(context, store, intent, request.body.result === 'succeeded')
        if (!done) throw refuse('charge_not_paid')
        return store.show(done)
      })
    },
  )
}

const eventTypes: Readonly<Record<string, string>> = {
  'payment.paid': 'payment_intent.succeeded',
  'payment.declined': 'payment_intent.payment_failed',
  'payment.refunded': 'charge.refunded',
  'refund.failed': 'refund.failed',
  'payment.disputed': 'charge.dispute.created',
  'payment.dispute_closed': 'charge.dispute.closed',
  'payment.funds_withdrawn': 'charge.dispute.funds_withdrawn',
  'payment.funds_reinstated': 'charge.dispute.funds_reinstated',
}

async function notificationOf(
  event: ProviderEvent,
  secret: string,
  store: StripeStore,
): Promise<Notification | undefined> {
  const type = eventTypes[event.type]
  const fresh = store.takeFresh(event)
  const intent = fresh?.intent ?? (await store.intentNamed(event.reference))
  const payment = fresh?.payment ?? (intent && (await store.paymentOf(intent)))
  if (type === undefined || !intent || !payment) return undefined
  const object = await objectOf(type, event)
  if (!object) return undefined
  const id = `evt_${event.id.replace(/^whk_/, '')}`
  const created = seconds(event.happenedAt.toISOString())
  const told = JSON.stringify(renderEvent({ id, type, created, key: null }, object), null, 2)
  const body = intent.isLive ? inLiveMode(told) : told
  return { headers: { 'stripe-signature': signatureOf(body, secret) }, body }

  async function objectOf(kind: string, { refundReference }: ProviderEvent): Promise<object | undefined> {
    if (kind.startsWith('payment_intent.')) return store.show(intent!, [], payment)
    if (kind === 'charge.refunded') return store.chargeOf(intent!, payment!, false)
    if (kind.startsWith('charge.dispute.')) return renderDispute(intent!, payment!)
    const known = payment!.refunds.find(({ reference }) => reference === refundReference)
    return (await store.refundsOf(intent!, payment!)).find(({ id: one }) => one === known?.id)
  }
}

/** The key is the whole secret as text, `whsec_` included. The time is real. */
function signatureOf(body: string, secret: string): string {
  const at = Math.floor(Date.now() / 1000)
  const signature = createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')
  return `t=${at},v1=${signature}`
}
