/** What an event says of a payment. `changed`: something happened to it that only a lookup can tell. */
export type WebhookClaim = 'paid' | 'declined' | 'changed'

export const webhookStatuses = ['waiting', 'done', 'ignored', 'failed'] as const

export type WebhookStatus = (typeof webhookStatuses)[number]

const claims: Readonly<Record<string, WebhookClaim>> = {
  'payment.paid': 'paid',
  'payment_intent.succeeded': 'paid',
  'charge.succeeded': 'paid',
  'Transaction.Paid': 'paid',
  'payment.declined': 'declined',
  'payment_intent.payment_failed': 'declined',
  'charge.failed': 'declined',
  'Transaction.Failed': 'declined',
}

// Families of events about payments, in the words of each provider.
const aboutPayments =
  /^(?:(?:payment|payment_intent|charge|refund|Transaction)\.[\w.]{1,64}|PAYMENT_STATUS_CHANGED|CANCEL_STATUS_CHANGED|DEPOSIT_CALLBACK)$/

/** Reads the provider's word. Undefined: a type that does not concern us, kept and ignored. */
export function claimOf(type: string): WebhookClaim | undefined {
  if (Object.hasOwn(claims, type)) return claims[type]
  return aboutPayments.test(type) ? 'changed' : undefined
}

export const mostTries = 20

/** How long after its n-th fruitless look an event waits for the next one; all of them together last over a day. */
export function retryAfterSeconds(tries: number): number {
  return Math.min(6 * 3600, 5 * 2 ** Math.min(tries - 1, 20))
}
