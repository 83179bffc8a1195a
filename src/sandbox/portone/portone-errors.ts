/** An error in PortOne's own words: a type, and fields of that type. */
export class PortoneError extends Error {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>

  constructor(type: PortoneErrorType, more: Readonly<Record<string, unknown>> = {}) {
    const [status, message] = errors[type]
    super(message)
    this.status = status
    this.body = { type, message, ...more }
  }
}

export type PortoneErrorType = keyof typeof errors

const errors = {
  INVALID_REQUEST: [400, 'The request is not valid.'],
  MAX_TRANSACTION_COUNT_REACHED: [400, 'This payment was tried too often.'],
  UNAUTHORIZED: [401, 'The credentials are not valid.'],
  FORBIDDEN: [403, 'The request is not allowed.'],
  PAYMENT_NOT_FOUND: [404, 'There is no such payment.'],
  BILLING_KEY_NOT_FOUND: [404, 'There is no such billing key.'],
  CHANNEL_NOT_FOUND: [404, 'There is no such channel.'],
  ALREADY_PAID: [409, 'This payment was paid before.'],
  BILLING_KEY_ALREADY_DELETED: [409, 'This billing key was deleted.'],
  IDEMPOTENCY_OUTSTANDING_REQUEST: [409, 'The first request with this key is still running.'],
  CANCEL_AMOUNT_EXCEEDS_CANCELLABLE_AMOUNT: [409, 'So much cannot be cancelled.'],
  CANCELLABLE_AMOUNT_CONSISTENCY_BROKEN: [409, 'The cancellable amount is another.'],
  PAYMENT_ALREADY_CANCELLED: [409, 'This payment was cancelled before.'],
  PAYMENT_NOT_PAID: [409, 'This payment was never paid.'],
  PG_PROVIDER: [502, 'The payment gateway gave an error.'],
  SERVICE_UNAVAILABLE: [503, 'The service is not available.'],
} as const satisfies Record<string, readonly [number, string]>

/** What the gateway behind the channel, which is Toss's, says of a decline. */
export function gatewayError(pgCode: string): PortoneError {
  return new PortoneError('PG_PROVIDER', { pgCode, pgMessage: pgMessageOf(pgCode) })
}

export function pgMessageOf(pgCode: string): string {
  return `The gateway said ${pgCode}.`
}

export function pgCodeOf(declineCode: string | null): string {
  return pgCodes[declineCode ?? ''] ?? 'REJECT_CARD_COMPANY'
}

const pgCodes: Readonly<Record<string, string>> = {
  insufficient_funds: 'REJECT_CARD_PAYMENT',
  lost_or_stolen: 'INVALID_CARD_LOST_OR_STOLEN',
  expired_card: 'INVALID_CARD_EXPIRATION',
  currency_not_supported: 'NOT_SUPPORTED_CURRENCY',
}
