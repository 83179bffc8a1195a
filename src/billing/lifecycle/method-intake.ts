import type { RefusalDetail } from '../../platform/refusal.ts'
import type { BillingApp, BillingTerms } from '../app.ts'
import type { Money } from '../money.ts'
import type { Keys } from '../payments/payment-method-rows.ts'
import type { ProviderProfile } from '../providers/port.ts'
import { refuse } from '../refusals.ts'

/** What it takes to keep a payment method that is handed over: the provider it belongs to, what seals it, and our terms. */
export type MethodIntake = {
  readonly provider: ProviderProfile
  readonly keys: Keys
  readonly terms: BillingTerms
}

export function methodIntake({ providers, vault, fingerprintKey, terms }: BillingApp): MethodIntake {
  return { provider: providers.forNew, keys: { vault, fingerprintKey }, terms }
}

/** A payment method that can never be charged what is asked for takes no other's place. */
export function requireChargeable({ guards }: ProviderProfile, price: Money): void {
  const { currencies, takesAmount } = guards
  if (currencies !== 'all' && !currencies.has(price.currency)) throw refuse('currency_not_supported')
  // Found out at the charge it would be an alarm, and for a trial the end of its subscription.
  if (!takesAmount(price)) throw refuse('currency_not_supported', { details: [amountDetail(price)] })
}

function amountDetail({ currency }: Money): RefusalDetail {
  const message = `The provider takes ${currency}, but not in this amount.`
  return { path: 'payment_method', code: 'amount_not_supported', message }
}
