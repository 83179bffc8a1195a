import { billingKeyOf, findCard, type TestCard } from '../cards.ts'

/** A card as this simulator knows it: how the book treats it, and what is Stripe's own about it. */
export type StripeCard = Omit<TestCard, 'declinedAs'> & {
  /** Stripe's own code of the decline. */
  readonly declinedAs?: string
  /** Asks for its customer: on every payment, or only where it was not set up before. */
  readonly authentication?: 'always' | 'unless_set_up'
  /** What happens after it paid. */
  readonly afterwards?: 'disputed'
  readonly refundAs?: 'pending' | 'fails_later'
}

const visa = { brand: 'visa', expires: '12/34' }

// The test payment methods of Stripe's own documentation.
const documented: Readonly<Record<string, StripeCard>> = {
  pm_card_visa: { ...visa, last4: '4242' },
  pm_card_mastercard: { brand: 'mastercard', last4: '4444', expires: '12/34' },
  pm_card_amex: { brand: 'amex', last4: '8431', expires: '12/34' },
  pm_card_visa_chargeDeclined: { ...visa, last4: '0002', declinedAs: 'generic_decline' },
  pm_card_chargeDeclined: { ...visa, last4: '0002', declinedAs: 'generic_decline' },
  pm_card_visa_chargeDeclinedInsufficientFunds: { ...visa, last4: '9995', declinedAs: 'insufficient_funds' },
  pm_card_visa_chargeDeclinedLostCard: { ...visa, last4: '9987', declinedAs: 'lost_card' },
  pm_card_visa_chargeDeclinedStolenCard: { ...visa, last4: '9979', declinedAs: 'stolen_card' },
  pm_card_chargeDeclinedExpiredCard: { ...visa, last4: '0069', declinedAs: 'expired_card' },
  pm_card_chargeDeclinedIncorrectCvc: { ...visa, last4: '0127', declinedAs: 'incorrect_cvc' },
  pm_card_chargeDeclinedProcessingError: { ...visa, last4: '0119', declinedAs: 'processing_error' },
  pm_card_radarBlock: { ...visa, last4: '0019', declinedAs: 'fraudulent' },
  pm_card_chargeCustomerFail: { ...visa, last4: '0341', declinedAs: 'generic_decline' },
  pm_card_visa_chargeDeclinedVelocityLimitExceeded: {
    ...visa,
    last4: '6975',
    declinedAs: 'card_velocity_exceeded',
  },
  pm_card_authenticationRequired: { ...visa, last4: '3184', authentication: 'always' },
  pm_card_authenticationRequiredOnSetup: { ...visa, last4: '3155', authentication: 'unless_set_up' },
  pm_card_createDispute: { ...visa, last4: '0259', afterwards: 'disputed' },
  pm_card_pendingRefund: { ...visa, last4: '7726', refundAs: 'pending' },
  pm_card_refundFail: { ...visa, last4: '5126', refundAs: 'fails_later' },
}

/** A card by its documented name, or by the name that every simulator of this house knows it by. */
export function findStripeCard(name: string): StripeCard | undefined {
  if (Object.hasOwn(documented, name)) return documented[name]
  const card = findCard(name)
  if (!card) return undefined
  const { declinedAs, ...rest } = card
  if (!declinedAs) return rest
  return { ...rest, declinedAs: declinedAs === 'lost_or_stolen' ? 'stolen_card' : declinedAs }
}

/** `ak_test_X` is a setup that ended well with the card behind `bk_test_X`. */
export const cardOfSetup = billingKeyOf

// These are codes of their own; every other decline is `card_declined` with its reason beside it.
const ownCodes: Readonly<Record<string, { param?: string }>> = {
  expired_card: { param: 'exp_month' },
  incorrect_cvc: { param: 'cvc' },
  processing_error: {},
}

const advice: Readonly<Record<string, string>> = {
  lost_card: 'do_not_try_again',
  stolen_card: 'do_not_try_again',
  fraudulent: 'do_not_try_again',
  expired_card: 'confirm_card_data',
  incorrect_cvc: 'confirm_card_data',
}

/** What Stripe says of a decline. */
export function declineOf(reason: string) {
  const own = ownCodes[reason]
  return {
    type: 'card_error' as const,
    advice_code: advice[reason] ?? 'try_again_later',
    code: own ? reason : 'card_declined',
    ...(reason !== 'processing_error' && { decline_code: reason }),
    doc_url: `https://stripe.com/docs/error-codes/${(own ? reason : 'card_declined').replaceAll('_', '-')}`,
    message: 'Your card was declined.',
    ...own,
  }
}

export const authenticationRequired = {
  type: 'card_error' as const,
  code: 'authentication_required',
  decline_code: 'authentication_required',
  doc_url: 'https://stripe.com/docs/error-codes/authentication-required',
  message: 'Your card was declined. This transaction requires authentication.',
}
