/** A test card: what is shown of it, and how it behaves when money is asked of it or given back to it. */
export type TestCard = {
  readonly brand: string
  readonly last4: string
  readonly expires: string
  readonly declinedAs?: 'insufficient_funds' | 'lost_or_stolen' | 'expired_card'
  /** Pays for an account's first charge and has no funds for any later one. */
  readonly firstChargeOnly?: true
  readonly charge?: 'error_before' | 'timeout_after'
  readonly chargeSlowMs?: number
  readonly refund?: 'declined' | 'timeout_after'
}

const cards: Readonly<Record<string, TestCard>> = {
  bk_test_ok: { brand: 'visa', last4: '4242', expires: '12/34' },
  bk_test_insufficient_funds: {
    brand: 'visa',
    last4: '9995',
    expires: '11/33',
    declinedAs: 'insufficient_funds',
  },
  bk_test_stolen: { brand: 'mastercard', last4: '9979', expires: '10/32', declinedAs: 'lost_or_stolen' },
  bk_test_expired: { brand: 'mastercard', last4: '0069', expires: '01/24', declinedAs: 'expired_card' },
  bk_test_fails_on_renewal: { brand: 'visa', last4: '0341', expires: '09/33', firstChargeOnly: true },
  bk_test_timeout_after_charge: { brand: 'amex', last4: '0005', expires: '08/32', charge: 'timeout_after' },
  bk_test_error_before_charge: { brand: 'jcb', last4: '0505', expires: '07/31', charge: 'error_before' },
  bk_test_slow: { brand: 'shinhan', last4: '7726', expires: '06/33', chargeSlowMs: 2_000 },
  bk_test_refund_fails: { brand: 'visa', last4: '5126', expires: '05/34', refund: 'declined' },
  bk_test_refund_timeout: { brand: 'kookmin', last4: '3155', expires: '04/33', refund: 'timeout_after' },
}

export function findCard(billingKey: string): TestCard | undefined {
  return Object.hasOwn(cards, billingKey) ? cards[billingKey] : undefined
}

/** The name of the test card whose number ends so. */
export function findCardByLast4(last4: string): string | undefined {
  return Object.keys(cards).find((name) => cards[name]?.last4 === last4)
}

/** `ak_test_X` stands for the card behind `bk_test_X`, as often as it is brought. */
export function billingKeyOf(authKey: string): string | undefined {
  const billingKey = authKey.replace(/^ak_test_/, 'bk_test_')
  return authKey.startsWith('ak_test_') && findCard(billingKey) ? billingKey : undefined
}

export const refundRefusingKeys = Object.keys(cards).filter((key) => cards[key]?.refund === 'declined')
