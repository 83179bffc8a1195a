import { refusalsOf } from '../platform/refusal.ts'

/** Every "no" of the provider but declines, which are payments of their own. */
export const refuse = refusalsOf({
  unauthorized: ['unauthorized', 'Send a secret key as Bearer token.'],
  idempotency_key_required: ['malformed', 'This call moves money and needs an Idempotency-Key.'],
  idempotency_key_reused: ['unprocessable', 'This Idempotency-Key was used with another request.'],
  idempotency_key_in_use: ['conflict', 'The first request with this Idempotency-Key is still running.'],
  billing_key_invalid: ['unprocessable', 'There is no such billing key.'],
  billing_key_not_found: ['not_found', 'There is no such billing key.'],
  auth_key_invalid: ['unprocessable', 'This auth key cannot be exchanged.'],
  currency_not_supported: ['unprocessable', 'This currency is not taken.'],
  charge_not_found: ['not_found', 'There is no charge with this reference.'],
  charge_not_paid: ['conflict', 'This charge was declined; there is nothing to give back.'],
  charge_disputed: ['conflict', 'This charge is disputed; the bank decides who gets the money.'],
  duplicate_reference: ['conflict', 'This reference was used before; look it up.'],
  remaining_differs: ['conflict', 'What remains of this charge is not what you expect; look it up.'],
  already_refunded: ['conflict', 'This charge was given back in full.'],
  amount_exceeds_remaining: ['unprocessable', 'The amount is more than what remains of this charge.'],
  dispute_not_possible: ['conflict', 'This charge cannot be disputed now, or has no open dispute to decide.'],
  clock_backwards: ['malformed', 'Time only goes forward; name a later instant.'],
  refund_not_found: ['not_found', 'There is no such refund that succeeded.'],
  invalid_instant: ['malformed', 'Give instants in ISO 8601 with an offset.'],
  invalid_cursor: ['malformed', 'This cursor was not made by this list; start without one.'],
  provider_down: ['unavailable', 'The provider is down.'],
})
