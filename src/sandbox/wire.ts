import type { Http } from '../platform/http/http.ts'
import { adminRoutes } from './admin-routes.ts'
import { chargeRoutes } from './charge-routes.ts'
import { type Notification, type ProviderEvent, signedNotification } from './notifier.ts'
import type { ProviderContext } from './provider-context.ts'
import { requireOneOf } from './secret-key.ts'

/** How a provider speaks over HTTP: its own routes, errors, keys and notifications, over the one book of money. */
export type Wire = {
  readonly name: 'sandbox' | 'stripe' | 'toss' | 'portone'
  /** How long this provider remembers an idempotency key, in service time. */
  readonly keyWindowMs: number
  /** Its notifications carry no signature, so that it needs no secret to send them. */
  readonly unsigned?: true
  /** The bank has what is disputed while it decides, and it is told when that money goes and comes back. */
  readonly withdrawsDisputed?: true
  /** Mounts its routes, with its own way to tell who calls, and the staff's under `/__sandbox`. */
  routes(http: Http, context: ProviderContext, keys: readonly string[]): void
  /** A notification as it goes out; undefined where this provider sends none of its kind. */
  notification(
    event: ProviderEvent,
    secret: string,
    context: ProviderContext,
  ): Promise<Notification | undefined>
}

const dayMs = 86_400_000

/** The sandbox's own language. */
export const sandboxWire: Wire = {
  name: 'sandbox',
  keyWindowMs: dayMs,
  routes(http, context, keys) {
    http.addHook('onRequest', requireOneOf(keys))
    chargeRoutes(http, context)
    adminRoutes(http, context)
  },
  async notification(event, secret) {
    return signedNotification(event, secret)
  },
}
