import type { DeclineCode } from '../port.ts'

/**
 * What Toss's codes mean for a card. The code decides, not the HTTP status: a plain decline is a 403. What is not here is
 * no decline. PortOne passes these codes on where its channel leads to Toss.
 */
const declines: Readonly<Record<string, DeclineCode>> = {
  // One code for no funds and for a limit reached.
  REJECT_CARD_PAYMENT: 'insufficient_funds',
  REJECT_ACCOUNT_PAYMENT: 'insufficient_funds',
  EXCEED_MAX_AMOUNT: 'limit_exceeded',
  EXCEED_MAX_PAYMENT_AMOUNT: 'limit_exceeded',
  EXCEED_MAX_DAILY_PAYMENT_COUNT: 'limit_exceeded',
  EXCEED_MAX_MONTHLY_PAYMENT_AMOUNT: 'limit_exceeded',
  EXCEED_MAX_ONE_DAY_AMOUNT: 'limit_exceeded',
  REJECT_CARD_COMPANY: 'do_not_honor',
  INVALID_REJECT_CARD: 'do_not_honor',
  INVALID_CARD_EXPIRATION: 'expired_card',
  INVALID_CARD_NUMBER: 'invalid_card',
  INVALID_CARD_IDENTITY: 'invalid_card',
  INVALID_CARD_PASSWORD: 'invalid_card',
  INVALID_STOPPED_CARD: 'invalid_card',
  EXCEED_MAX_AUTH_COUNT: 'invalid_card',
  INVALID_CARD_LOST_OR_STOLEN: 'lost_or_stolen',
  NOT_SUPPORTED_CARD_TYPE: 'not_supported',
  NOT_REGISTERED_CARD_COMPANY: 'not_supported',
  // A rule against fraud will not change its mind about the same card.
  FDS_ERROR: 'not_supported',
  NOT_AVAILABLE_PAYMENT: 'processing_error',
  NOT_AVAILABLE_BANK: 'processing_error',
}

/** Undefined: this code does not say that the card was declined. */
export function tossDecline(code: string): DeclineCode | undefined {
  return Object.hasOwn(declines, code) ? declines[code] : undefined
}

/** Nothing says what came of the request; on a payment that is recorded as failed they are its reason. */
const faults: ReadonlySet<string> = new Set([
  'PROVIDER_ERROR',
  'CARD_PROCESSING_ERROR',
  'COMMON_ERROR',
  'FAILED_CARD_COMPANY_RESPONSE',
  'FAILED_DB_PROCESSING',
  'FAILED_INTERNAL_SYSTEM_PROCESSING',
  'FAILED_PAYMENT_INTERNAL_SYSTEM_PROCESSING',
  'UNKNOWN_PAYMENT_ERROR',
])

/** Whether this is a fault of Toss or of a card company, under whatever status: the same may pass another time. */
export function isTossFault(code: string): boolean {
  return faults.has(code)
}

/** Why a payment failed that the provider itself records as failed. */
export function tossFailure(code: string | null): DeclineCode {
  if (code === null) return 'unknown'
  return tossDecline(code) ?? (faults.has(code) ? 'processing_error' : 'unknown')
}

/** These say that the stored card is none, or not this customer's. */
export const tossBadBillingKeys: ReadonlySet<string> = new Set([
  'INVALID_BILL_KEY_REQUEST',
  'NOT_MATCHES_CUSTOMER_KEY',
  'ALREADY_REMOVED_BILLING_KEY',
])
