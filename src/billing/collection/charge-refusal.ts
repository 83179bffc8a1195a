import type { Refusal } from '../../platform/refusal.ts'
import { isDecline } from '../payments/payment.ts'
import { refuse } from '../refusals.ts'

/** Whatever `chargeRefusal` may say. */
export const chargeErrors = refuse.may(
  'payment_declined',
  'billing_key_invalid',
  'currency_not_supported',
  'already_canceled',
  'subscription_exists',
  'provider_unavailable',
  'provider_error',
)

/** What a caller is told of a charge that failed, by its code. */
export function chargeRefusal(code: string | null): Refusal {
  if (isDecline(code)) {
    return refuse('payment_declined', {
      details: [{ path: 'payment_method', code, message: 'The card was declined for this reason.' }],
    })
  }
  switch (code) {
    case 'billing_key_invalid':
    case 'currency_not_supported':
    case 'already_canceled':
    case 'subscription_exists':
      return refuse(code)
    case 'provider_unavailable':
      return refuse('provider_unavailable', { headers: { 'retry-after': '5' } })
    case 'withdrawn':
      return refuse('already_canceled')
    default:
      return refuse('provider_error')
  }
}
