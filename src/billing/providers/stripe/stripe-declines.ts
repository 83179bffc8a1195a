import { type DeclineCode, isHard } from '../port.ts'

/** Stripe's reasons in the words of all providers. What is not here is `unknown`, which is soft. */
const declineTable: Readonly<Record<string, DeclineCode>> = {
  insufficient_funds: 'insufficient_funds',

  expired_card: 'expired_card',
  expired_payment_method: 'expired_card',

  lost_card: 'lost_or_stolen',
  stolen_card: 'lost_or_stolen',
  pickup_card: 'lost_or_stolen',
  restricted_card: 'lost_or_stolen',
  fraudulent: 'lost_or_stolen',
  merchant_blacklist: 'lost_or_stolen',
  security_violation: 'lost_or_stolen',

  generic_decline: 'do_not_honor',
  do_not_honor: 'do_not_honor',
  call_issuer: 'do_not_honor',
  no_action_taken: 'do_not_honor',
  payment_method_customer_decline: 'do_not_honor',
  payment_method_provider_decline: 'do_not_honor',

  card_velocity_exceeded: 'limit_exceeded',
  withdrawal_count_limit_exceeded: 'limit_exceeded',
  card_decline_rate_limit_exceeded: 'limit_exceeded',
  charge_exceeds_source_limit: 'limit_exceeded',
  charge_exceeds_transaction_limit: 'limit_exceeded',

  authentication_required: 'authentication_required',
  authentication_not_handled: 'authentication_required',
  payment_intent_authentication_failure: 'authentication_required',

  incorrect_cvc: 'invalid_card',
  invalid_cvc: 'invalid_card',
  incorrect_number: 'invalid_card',
  invalid_number: 'invalid_card',
  incorrect_zip: 'invalid_card',
  incorrect_address: 'invalid_card',
  invalid_account: 'invalid_card',
  account_closed: 'invalid_card',
  invalid_expiry_month: 'invalid_card',
  invalid_expiry_year: 'invalid_card',
  new_account_information_available: 'invalid_card',
  revocation_of_authorization: 'invalid_card',
  revocation_of_all_authorizations: 'invalid_card',
  stop_payment_order: 'invalid_card',

  card_not_supported: 'not_supported',
  currency_not_supported: 'not_supported',
  transaction_not_allowed: 'not_supported',
  service_not_allowed: 'not_supported',
  not_permitted: 'not_supported',

  processing_error: 'processing_error',
  issuer_not_available: 'processing_error',
  try_again_later: 'processing_error',
  reenter_transaction: 'processing_error',
  approve_with_id: 'processing_error',
}

export type Decline = { readonly code: DeclineCode; readonly raw: string }

type StripeReason = { decline_code?: unknown; code?: unknown; advice_code?: unknown }

/**
 * The reason, as far as Stripe tells: the issuer's own word where there is one, else the class of the error. A card that its
 * issuer wants asked no more is done with, whatever the reason: networks fine who goes on.
 */
export function declineOf(error: StripeReason): Decline {
  const reason = [error.decline_code, error.code].find((one) => typeof one === 'string' && one !== '')
  const raw = typeof reason === 'string' && /^[a-z0-9_]{1,64}$/.test(reason) ? reason : 'unknown'
  const code = (Object.hasOwn(declineTable, raw) && declineTable[raw]) || 'unknown'
  const isOver = error.advice_code === 'do_not_try_again' && code !== 'authentication_required'
  return { code: isOver && !isHard(code) ? 'invalid_card' : code, raw }
}
