import { createHash, timingSafeEqual } from 'node:crypto'
import Type from 'typebox'
import { envelope, success } from '../../platform/http/answers.ts'
import { bodyLimits, type Http } from '../../platform/http/http.ts'
import { refuseRequest } from '../../platform/refusal.ts'
import type { BillingApp } from '../app.ts'
import { openInbox } from './inbox-rows.ts'
import { receiveHint, receiveWebhook, type WebhookStore } from './receive-webhook.ts'

const ReceivedView = Type.Object(
  { received: Type.Literal(true), duplicate: Type.Boolean() },
  { title: 'WebhookReceived' },
)

/** Where the provider's notifications come in. Their bodies stay raw bytes until the signature is known to be good. */
export function webhookRoutes(http: Http, app: BillingApp): void {
  const webhookStore: WebhookStore = { inbox: openInbox(app.pool), vault: app.quietVault }
  void http.register(async (scope: Http) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    signedRoute(scope, app, webhookStore)
    signedRouteOfProvider(scope, app, webhookStore)
    if (app.terms.hintSecret !== undefined) hintRoute(scope, app, app.terms.hintSecret)
  })
}

function signedRoute(http: Http, app: BillingApp, webhookStore: WebhookStore): void {
  http.post(
    '/api/billing/webhook',
    {
      bodyLimit: bodyLimits.webhook,
      config: { access: 'signed' },
      schema: {
        operationId: 'receiveWebhook',
        summary: 'Receive a signed notification of the payment provider',
        tags: ['billing'],
        errors: refuseRequest.may('invalid_signature', 'invalid_json'),
        response: { 200: success(ReceivedView) },
      },
    },
    async (request) => {
      const { headers } = request
      const { duplicate } = await receiveWebhook(app, webhookStore, { headers, body: bytesOf(request.body) })
      return envelope({ received: true as const, duplicate })
    },
  )
}

/** The same for one of several providers, whose secrets alone are tried. */
function signedRouteOfProvider(http: Http, app: BillingApp, webhookStore: WebhookStore): void {
  http.post(
    '/api/billing/webhook/:provider',
    {
      bodyLimit: bodyLimits.webhook,
      config: { access: 'signed' },
      schema: {
        operationId: 'receiveProviderWebhook',
        summary: 'Receive a signed notification of the payment provider named',
        tags: ['billing'],
        params: Type.Object({ provider: Type.String({ description: 'sandbox, stripe, toss or portone' }) }),
        errors: refuseRequest.may('invalid_signature', 'invalid_json', 'route_not_found'),
        response: { 200: success(ReceivedView) },
      },
    },
    async (request) => {
      const { headers, params } = request
      const delivery = { headers, body: bytesOf(request.body), from: params.provider }
      const { duplicate } = await receiveWebhook(app, webhookStore, delivery)
      return envelope({ received: true as const, duplicate })
    },
  )
}

/** For a provider that signs nothing: whoever knows the path may make us look a payment up, and nothing more. */
function hintRoute(http: Http, app: BillingApp, secret: string): void {
  http.post(
    '/api/billing/hints/:secret',
    {
      bodyLimit: bodyLimits.webhook,
      config: { access: 'signed' },
      schema: {
        operationId: 'receiveHint',
        summary: 'Receive a hint to look a payment up; off unless HINT_SECRET is set',
        tags: ['billing'],
        params: Type.Object({ secret: Type.String() }),
        errors: refuseRequest.may('invalid_json', 'route_not_found'),
        response: { 200: success(Type.Object({ received: Type.Literal(true) })) },
      },
    },
    async (request) => {
      if (!isSame(request.params.secret, secret)) throw refuseRequest('route_not_found')
      await receiveHint(app, bytesOf(request.body))
      return envelope({ received: true as const })
    },
  )
}

function bytesOf(body: unknown): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}

/** Compares digests, so that neither content nor length shows in the time it takes. */
function isSame(given: string, secret: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(secret))
}
