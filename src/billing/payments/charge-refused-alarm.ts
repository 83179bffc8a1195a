import { raiseAlarm } from '../../platform/alarm.ts'
import type { BillingTx } from '../app.ts'
import type { PaymentOutcome } from './payment.ts'

export const chargeRefusedAlarm = 'charge_refused'

/** What a provider refused though no card is to blame: every request of ours, or, where a currency is named, those in it. */
export type ChargeRefused = {
  readonly provider: string
  readonly currency: string | null
  /** The provider's own code. */
  readonly raw: string | null | undefined
}

/** Undefined: the card is to blame, or nobody is, or whoever begins in this currency is told so. */
export function chargeRefused(
  { provider, currency, begins }: { provider: string; currency: string; begins: boolean },
  { code, raw }: Extract<PaymentOutcome, { kind: 'failed' }>,
): ChargeRefused | undefined {
  if (code === 'provider_error') return { provider, currency: null, raw }
  return code === 'currency_not_supported' && !begins ? { provider, currency, raw } : undefined
}

/** Its alarm's subject: what is taken again tells by it that the alarm is over. */
export function subjectOf({ provider, currency }: ChargeRefused): string {
  return currency === null ? provider : `${provider} ${currency}`
}

/**
 * A setting of ours is wrong, or a currency is no longer taken, and everybody's renewal would fail by it. It goes when a
 * charge begun since then is paid.
 */
export async function raiseChargeRefused(tx: BillingTx, refused: ChargeRefused, now: Date): Promise<void> {
  const { provider, currency, raw } = refused
  const code = /^[\w.-]{1,64}$/.test(raw ?? '') ? ` (${raw})` : ''
  const note =
    currency === null
      ? `${provider} rejects our charge requests${code}: a setting is wrong, not a card. Failed renewals are in dunning meanwhile. Fix the settings (docs/providers.md) and restart; the next retries collect.`
      : `${provider} does not take charges in ${currency}${code}; no card is to blame. Failed renewals are in dunning meanwhile. Have the provider take the currency, or let these customers bring a card of a provider that does (docs/runbook.md).`
  await raiseAlarm(tx, { kind: chargeRefusedAlarm, subject: subjectOf(refused), note }, now)
}
