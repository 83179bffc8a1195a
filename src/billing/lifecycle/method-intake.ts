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
export function requireCurrency({ guards: { currencies } }: ProviderProfile, { currency }: Money): void {
  if (currencies !== 'all' && !currencies.has(currency)) throw refuse('currency_not_supported')
}
