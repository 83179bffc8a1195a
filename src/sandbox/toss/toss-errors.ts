/** An error in Toss's own words. Its code is what counts; the status is whatever Toss pairs with it. */
export class TossError extends Error {
  readonly status: number
  readonly code: string

  constructor(code: string) {
    super(errors[code]?.[1] ?? 'This error was asked for by its code.')
    this.code = code
    this.status = errors[code]?.[0] ?? 400
  }
}

const errors: Readonly<Record<string, readonly [status: number, message: string]>> = {
  INVALID_REQUEST: [400, 'The request is not valid.'],
  INVALID_IDEMPOTENCY_KEY: [400, 'An idempotency key has at most 300 characters.'],
  IDEMPOTENT_REQUEST_PROCESSING: [409, 'The first request with this key is still being processed.'],
  UNAUTHORIZED_KEY: [401, 'This secret key is not known.'],
  INVALID_API_KEY: [400, 'This is no secret key.'],
  INCORRECT_BASIC_AUTH_FORMAT: [
    403,
    'Send the secret key and a colon, base64 encoded, as Basic credentials.',
  ],
  FORBIDDEN_REQUEST: [403, 'This request is not allowed.'],
  FORBIDDEN_CONSECUTIVE_REQUEST: [403, 'Too many requests one after another.'],
  NOT_FOUND: [404, 'There is no such call.'],
  NOT_FOUND_PAYMENT: [404, 'There is no such payment.'],
  INVALID_BILL_KEY_REQUEST: [400, 'There is no such billing key.'],
  NOT_MATCHES_CUSTOMER_KEY: [400, 'The billing key belongs to another customer key.'],
  ALREADY_REMOVED_BILLING_KEY: [400, 'This billing key was deleted.'],
  INVALID_AUTHORIZE_AUTH: [400, 'This auth key cannot be exchanged.'],
  BELOW_MINIMUM_AMOUNT: [400, 'A card takes 100 won at least.'],
  DUPLICATED_ORDER_ID: [400, 'This order id was used before.'],
  ALREADY_PROCESSED_PAYMENT: [400, 'This payment was processed before.'],
  REJECT_CARD_PAYMENT: [403, 'Not enough funds, or over the limit.'],
  REJECT_ACCOUNT_PAYMENT: [403, 'Not enough funds.'],
  REJECT_CARD_COMPANY: [403, 'The card company declined.'],
  EXCEED_MAX_ONE_DAY_AMOUNT: [403, 'Over the daily limit.'],
  EXCEED_MAX_AUTH_COUNT: [403, 'Tried too often.'],
  FDS_ERROR: [403, 'The payment looks like fraud.'],
  NOT_AVAILABLE_BANK: [403, 'The bank is closed.'],
  INVALID_CARD_LOST_OR_STOLEN: [400, 'The card was lost or stolen.'],
  INVALID_CARD_EXPIRATION: [400, 'The card has expired.'],
  PROVIDER_ERROR: [400, 'A passing error; try again later.'],
  CARD_PROCESSING_ERROR: [400, 'The card company failed.'],
  ALREADY_CANCELED_PAYMENT: [400, 'This payment was cancelled before.'],
  NOT_MATCHES_REFUNDABLE_AMOUNT: [400, 'The refundable amount is another.'],
  REFUND_REJECTED: [400, 'The card company does not take the money back.'],
  NOT_CANCELABLE_AMOUNT: [403, 'So much cannot be cancelled.'],
  NOT_CANCELABLE_PAYMENT: [403, 'This payment cannot be cancelled.'],
  NOT_ALLOWED_PARTIAL_REFUND: [403, 'This payment cannot be cancelled in parts.'],
  EXCEED_MAX_REFUND_DUE: [403, 'It is too late to cancel.'],
  TOO_MANY_REQUESTS: [429, 'Too many requests.'],
  FAILED_CARD_COMPANY_RESPONSE: [500, 'The card company does not answer.'],
  FAILED_DB_PROCESSING: [500, 'The provider failed.'],
  FAILED_REFUND_PROCESS: [500, 'The provider failed.'],
  FAILED_INTERNAL_SYSTEM_PROCESSING: [500, 'The provider failed.'],
  FAILED_PAYMENT_INTERNAL_SYSTEM_PROCESSING: [500, 'The provider failed.'],
  UNKNOWN_PAYMENT_ERROR: [500, 'The provider failed.'],
  COMMON_ERROR: [500, 'The provider failed.'],
}

/** How a decline of the book reads at Toss. */
export function declineOf(code: string | null): string {
  return declines[code ?? ''] ?? 'REJECT_CARD_COMPANY'
}

const declines: Readonly<Record<string, string>> = {
  insufficient_funds: 'REJECT_CARD_PAYMENT',
  lost_or_stolen: 'INVALID_CARD_LOST_OR_STOLEN',
  expired_card: 'INVALID_CARD_EXPIRATION',
}
