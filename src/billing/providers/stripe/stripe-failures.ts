import Stripe from 'stripe'
import { NotSent } from './stripe-client.ts'

/** What an error of the SDK comes to. Its text is never passed on: it may name keys, cards and customers. */
export type Failure =
  | { kind: 'not_sent' }
  | { kind: 'unknown' }
  | { kind: 'credentials_refused' }
  | { kind: 'key_used_otherwise' }
  | Refused

/** Stripe says no, and it is clear to what. */
export type Refused = {
  readonly kind: 'refused'
  readonly status: number
  readonly type: string | undefined
  readonly code: string | undefined
  readonly declineCode: string | undefined
  readonly adviceCode: string | undefined
  readonly param: string | undefined
  readonly intent: Stripe.PaymentIntent | undefined
  readonly isReplayed: boolean
}

/** What tells neither that a request was bad nor that a card was declined, whatever it comes with. */
const codes: Readonly<Record<string, 'not_sent' | 'unknown' | 'credentials_refused'>> = {
  // The limiter stands before everything else; a lock that was not had in time does not.
  rate_limit: 'not_sent',
  lock_timeout: 'unknown',
  idempotency_key_in_use: 'unknown',
  payment_method_provider_timeout: 'unknown',

  api_key_expired: 'credentials_refused',
  platform_api_key_expired: 'credentials_refused',
  secret_key_required: 'credentials_refused',
  testmode_charges_only: 'credentials_refused',
}

export function failureOf(error: unknown): Failure {
  if (!(error instanceof Stripe.errors.StripeError)) return { kind: 'unknown' }
  if (error.detail instanceof NotSent) return { kind: 'not_sent' }
  const { statusCode: status, code } = error
  // Without a status there was no answer, or one that could not be read.
  if (status === undefined || status < 400 || status >= 500) return { kind: 'unknown' }
  const type = typeof error.rawType === 'string' ? error.rawType : undefined
  if (type === undefined) return { kind: 'unknown' }
  // Some codes come under several statuses and types, so that they are asked first.
  if (code !== undefined && Object.hasOwn(codes, code)) return { kind: codes[code]! }
  if (status === 401 || status === 403) return { kind: 'credentials_refused' }
  if (status === 409 || status === 429) return { kind: 'unknown' }
  if (type === 'idempotency_error') return { kind: 'key_used_otherwise' }
  return {
    kind: 'refused',
    status,
    type,
    code,
    declineCode: (error as { decline_code?: string }).decline_code,
    adviceCode: error.advice_code,
    param: error.param,
    intent: error.payment_intent,
    isReplayed: isReplay(error.headers),
  }
}

/** Without those that only a call with a key can meet. */
export function failureOfRead(error: unknown): Exclude<Failure, { kind: 'key_used_otherwise' }> {
  const failure = failureOf(error)
  return failure.kind === 'key_used_otherwise' ? { kind: 'unknown' } : failure
}

export function isReplay(headers: unknown): boolean {
  return headerOf(headers, 'idempotent-replayed') === 'true'
}

/** The SDK tells an answer's headers as a plain object with an error, and as the transport has them otherwise. */
export function headerOf(headers: unknown, name: string): string | undefined {
  if (headers instanceof Map) return headers.get(name)
  const value = (headers as Record<string, unknown> | null | undefined)?.[name]
  return typeof value === 'string' ? value : undefined
}

/** The thing named does not exist, by this parameter where one is given. */
export function isMissing(failure: Failure, param?: string): boolean {
  if (failure.kind !== 'refused' || failure.code !== 'resource_missing') return false
  return param === undefined || failure.param === param
}
