import { refusalsOf } from '../platform/refusal.ts'

/** Every "no" of the billing area. */
const refusals = {
  payment_declined: ['declined', 'The card was declined.'],
  refund_declined: ['declined', 'The provider declined the refund; nothing was given back.'],
  account_not_found: ['not_found', 'There is no such account.'],
  invoice_not_found: ['not_found', 'There is no such invoice.'],
  plan_not_found: ['not_found', 'There is no such plan, or it is no longer offered.'],
  refund_not_found: ['not_found', 'There is no such refund.'],
  subscription_not_found: ['not_found', 'There is no such subscription.'],
  webhook_not_found: ['not_found', 'No such notification is stored.'],
  already_canceled: ['conflict', 'This subscription has ended.'],
  invoice_not_paid: ['conflict', 'Only a paid invoice can be refunded.'],
  not_canceling: ['conflict', 'This subscription is not being canceled, so there is nothing to resume.'],
  nothing_to_refund: ['conflict', 'All of this invoice has been refunded.'],
  payment_disputed: [
    'conflict',
    'The customer disputes this payment; the bank decides where its money goes.',
  ],
  payment_in_doubt: [
    'conflict',
    'A charge of this subscription has no clear answer yet; ask again once it has.',
  ],
  refund_in_doubt: [
    'conflict',
    'An earlier refund of this invoice has no clear answer yet; ask again once it has.',
  ],
  subscription_exists: ['conflict', 'This account has a live subscription.'],
  trial_already_used: ['conflict', 'This account has had its trial.'],
  reconciliation_running: ['conflict', 'A reconciliation is under way; wait for it to end.'],
  webhook_of_no_payment: [
    'conflict',
    'This notification speaks of no payment, so there is nothing to look up.',
  ],
  billing_key_invalid: ['unprocessable', 'This payment method cannot be used for this account.'],
  currency_not_supported: [
    'unprocessable',
    'The provider does not take this currency, or not this amount of it.',
  ],
  plan_has_no_trial: ['unprocessable', 'This plan has no trial.'],
  refund_exceeds_remaining: ['unprocessable', 'That is more than what is left to refund.'],
  provider_error: ['provider_refused', 'The payment provider refused the request; no money was moved.'],
  provider_unavailable: ['unavailable', 'The payment provider cannot be reached; nothing was sent.'],
} as const

export type BillingRefusal = keyof typeof refusals

export const refuse = refusalsOf(refusals)
