import type { FastifyError } from 'fastify'
import type { Http } from '../../platform/http/http.ts'
import { newId } from '../../platform/id.ts'
import { followModeOfKey } from '../live-mode.ts'
import type { ProviderContext } from '../provider-context.ts'
import { sendJson } from '../provider-context.ts'
import { parseForm } from './form.ts'
import { isLiveKey, modeOfKey, openStripeCalls, versionOf } from './stripe-calls.ts'
import { customerRoutes } from './stripe-customer-routes.ts'
import { invalid, StripeAnswer, unauthorized, unavailable } from './stripe-error.ts'
import { intentRoutes } from './stripe-intent-routes.ts'
import { inLiveMode } from './stripe-objects.ts'
import { refundRoutes } from './stripe-refund-routes.ts'
import type { StripeStore } from './stripe-store.ts'

/** Stripe's API, as far as cards that are charged off session need it. Mounted below `/v1`. */
export function stripeRoutes(http: Http, context: ProviderContext, store: StripeStore): void {
  http.removeAllContentTypeParsers()
  http.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, text, done) => done(null, parseForm(text as string)),
  )
  http.addContentTypeParser('*', { parseAs: 'string' }, (_request, text, done) =>
    text === ''
      ? done(null, {})
      : done(
          invalid(
            'Invalid request (check that your POST content type is application/x-www-form-urlencoded).',
          ),
        ),
  )
  http.setNotFoundHandler(async (request, reply) => {
    const { status, body } = invalid(
      `Unrecognized request URL (${request.method}: ${request.url.split('?')[0]}).`,
      { status: 404 },
    )
    return sendJson(reply, status, body)
  })
  http.setErrorHandler(async (error: FastifyError, _request, reply) => {
    if (reply.sent) return reply
    if (error instanceof StripeAnswer) return sendJson(reply, error.status, error.body)
    // A fault of the simulator's own is for whoever runs it.
    if ((error.statusCode ?? 500) >= 500) throw error
    const unreadable = invalid('This request cannot be read.')
    return sendJson(reply, unreadable.status, unreadable.body)
  })
  followModeOfKey(http, isLiveKey, inLiveMode)
  http.addHook('onRequest', async (request, reply) => {
    reply.headers({ 'request-id': newId('req_'), 'stripe-version': versionOf(request) })
    const { down, refuse_credentials } = await context.faults.inForce()
    if (refuse_credentials || modeOfKey(request.headers.authorization) === undefined) throw unauthorized()
    if (down === 'reset') request.raw.socket.resetAndDestroy()
    if (down) throw unavailable()
  })

  const calls = openStripeCalls(http, context)
  customerRoutes(context, store, calls)
  intentRoutes(context, store, calls)
  refundRoutes(context, store, calls)
  calls.get('/balance', async () => ({
    object: 'balance',
    available: [{ amount: 0, currency: 'krw', source_types: { card: 0 } }],
    livemode: false,
    pending: [{ amount: 0, currency: 'krw', source_types: { card: 0 } }],
  }))
}
