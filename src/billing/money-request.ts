import type { Intent, OnceRequest } from '../platform/idempotency.ts'
import type { BillingTables } from './tables.ts'

/**
 * Every request that moves money, or decides about it, has this one shape: `begin` writes the intent and asks
 * nobody, `finish` asks the provider, and a sweep that finds the intent alone does the same. Statuses are the routes'.
 */
export type MoneyRequest<I extends Intent, R> = OnceRequest<BillingTables, I, R>

/** Work that is known by the subscription it is about. */
export type SubscriptionIntent<K extends string> = Intent & { readonly kind: K }

export function aboutSubscription<K extends string>(kind: K, subscriptionId: string): SubscriptionIntent<K> {
  return { kind, id: subscriptionId, subject: subscriptionId }
}
