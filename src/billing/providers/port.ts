import type { Money } from '../money.ts'

/**
 * What billing asks of a payment provider. Every call ends in one of a few outcomes and never throws for the provider's
 * sake: "no" and "don't know" are answers. An adapter turns timeouts, resets, 5xx, "still in progress" and unreadable
 * answers into `unknown`, and only what is certain into anything else. `replayed`: the provider marks this as
 * its first answer to the key, given once more.
 */
export type Provider = {
  readonly name: string
  readonly guards: ProviderGuards
  /** Takes money. `key` is derived from the attempt's place: idempotency key and reference at once. */
  charge(request: ChargeRequest): Promise<ChargeOutcome>
  /** What the provider knows of a charge, by our reference, or by its own id where we know it. */
  findPayment(reference: string, providerId?: string | null): Promise<PaymentLookup>
  /** Ends a charge that waits for its customer, so that confirming it later takes nothing. */
  cancelPayment(reference: string, providerId: string): Promise<CancelOutcome>
  /** Gives money back. `key` is derived from the payment and the refund's number. */
  refund(request: RefundRequest): Promise<RefundOutcome>
  /** Trades a one-time key of the browser for a billing key that can be charged again and again. */
  exchange(authKey: string, customerKey: string): Promise<ExchangeOutcome>
  /** Which customer of the provider a billing key names, by its text alone; null where it names none. */
  customerOf(billingKey: string): string | null
  /** What may be shown of a billing key, and whether it can be charged at all. */
  describe(billingKey: string): Promise<DescribeOutcome>
  /** Has the provider delete what it stored of a payment method. Done also where it is gone already. */
  forget(billingKey: string): Promise<ForgetOutcome>
  /** Prepares the collecting of a card in the browser. */
  setUp(request: SetUpRequest): Promise<SetUpOutcome>
  /** Harmless calls that tell whether we are set up right: one line each. */
  check(now: Date): Promise<readonly ProviderCheck[]>
  /** The provider's book between two instants, oldest first, page by page. For reconciling. */
  listPayments(from: Date, to: Date, cursor: string | null): Promise<PaymentListing>
  /**
   * The same by the time at which something last happened to each: charged, refunded, disputed, decided. Null where the
   * provider cannot tell; then whatever may still have changed is looked up one by one.
   */
  readonly listChanges: ((from: Date, to: Date, cursor: string | null) => Promise<PaymentListing>) | null
  /** Verifies a notification's signature over its raw bytes. Undefined: not authentic, or too old. */
  verifyWebhook(delivery: WebhookDelivery): VerifiedWebhook | undefined
  /** What an authentic notification is about. Its word is only a hint to look the payment up. */
  readWebhook(body: unknown): WebhookHint
}

/** Which provider it is and what it holds to, without anything that could call it. */
export type ProviderProfile = Pick<Provider, 'name' | 'guards' | 'customerOf'>

/** What protects against a second charge when an answer was lost. */
export type ProviderGuards = {
  /** How long the provider replays a known key instead of acting again. Counted in service time from the first send. */
  readonly keyWindowMs: number
  /** Whether a refund on its record carries our reference, so that one without it was made by somebody else. */
  readonly namesRefunds: boolean
  readonly currencies: ReadonlySet<string> | 'all'
  /** False: no payment method of it can be charged this amount of its currency, so that asking for it always fails. */
  readonly takesAmount: (amount: Money) => boolean
  /** Any customer key goes with a one-time key, so that none is bound to an account. */
  readonly anyCustomer?: true
  /** Only reading a billing key back tells whose it is, so that it is read before it is charged for the first time. */
  readonly tellsOwner?: true
  /** Its messages carry no signature: they come to the hints route and are only a reason to look. */
  readonly signsNothing?: true
}

export type ChargeRequest = {
  readonly key: string
  readonly accountId: string
  readonly amount: Money
  readonly billingKey: string
  readonly description: string
}

export type ChargeOutcome =
  | { kind: 'done'; payment: ProviderPayment }
  /** `raw`: the provider's own code, for an operator's eyes. */
  | { kind: 'declined'; code: DeclineCode; raw?: string; replayed?: true }
  /** The customer has to confirm it at the provider; until then nothing is taken. */
  | { kind: 'needs_customer'; payment: ProviderPayment }
  /**
   * The provider refused the request itself. What an earlier send of the key did is another matter. `provider_error`: neither
   * the card nor its currency is to blame, so that it is ours to put right.
   */
  | {
      kind: 'refused'
      code: 'billing_key_invalid' | 'currency_not_supported' | 'provider_error'
      raw?: string
      replayed?: true
    }
  | Contradiction
  | CredentialsRefused
  /** Nothing left this process: the circuit is open, too many calls are in flight, or nobody listens there. */
  | { kind: 'not_sent' }
  | { kind: 'unknown' }

/** An answer that cannot be about what we asked. Money may have moved, so it is unknown, and a person must look. */
export type Contradiction =
  /** It names another amount, currency or payment than ours, or is of the other mode. `live`: it speaks of real money. */
  | { kind: 'mismatch'; live?: true }
  /** The key is known with another request. */
  | { kind: 'key_used_otherwise' }

/** Our own credentials are refused, by the provider's code for that: nothing was done, and no payment method has to do with it. */
export type CredentialsRefused = { kind: 'credentials_refused' }

export type PaymentLookup =
  | { kind: 'found'; payment: ProviderPayment }
  | { kind: 'none' }
  /** What was found cannot be what we asked for. Its amount is for the caller to compare. */
  | { kind: 'mismatch'; live?: true }
  | CredentialsRefused
  | { kind: 'unknown' }

export type ProviderPayment = {
  /** The key of our attempt. */
  readonly reference: string
  /** The provider's own id. */
  readonly providerId: string
  /** `awaiting`: it waits for its customer. `canceled`: it was ended before anything was taken. */
  readonly status: 'paid' | 'declined' | 'pending' | 'awaiting' | 'canceled'
  readonly declineCode: DeclineCode | null
  /** The provider's own code of a decline, for an operator's eyes. */
  readonly rawCode: string | null
  /** What the customer has to do, while it is awaited. */
  readonly nextAction: NextAction | null
  readonly amount: Money
  readonly refunded: Money
  readonly refunds: readonly ProviderRefund[]
  readonly dispute: ProviderDispute | null
  /** Money went back then, and from then on its record shows no disputes, only what the bank took by them. */
  readonly disputesHiddenSince?: Date
  /** The card that was asked, where the provider tells. */
  readonly card: Card | null
  readonly at: Date
  /** Whether real money moved, where the provider tells. */
  readonly live?: boolean
}

/** The cardholder's bank takes a payment back, or tries to. `won` and `lost` are said from our side. */
export type ProviderDispute = {
  readonly status: 'open' | 'won' | 'lost'
  /** Of several: what the open one is about, or else what all that were lost took. */
  readonly amount: Money
  readonly openedAt: Date
  readonly closedAt: Date | null
  /** What is gone although this one is not lost: another was, the bank takes it when it opens, or has yet to give it back. */
  readonly alreadyLost?: Money
}

/** What the disputes of a payment took so far. */
export function lostIn({ status, amount, alreadyLost }: ProviderDispute): bigint {
  return status === 'lost' ? amount.minor : (alreadyLost?.minor ?? 0n)
}

/** Whether all that a record says of money is about the payment's own currency, so that its amounts can be held against each other. */
export function isOfOneCurrency({ amount, refunded, refunds, dispute }: ProviderPayment): boolean {
  const named = [refunded, ...refunds.map((refund) => refund.amount)]
  if (dispute) named.push(dispute.amount, ...(dispute.alreadyLost ? [dispute.alreadyLost] : []))
  return named.every(({ currency }) => currency === amount.currency)
}

/** Where a customer confirms a payment: with the provider's browser SDK, or at an address. */
export type NextAction = {
  readonly type: 'authenticate'
  readonly clientSecret: string | null
  readonly url: string | null
  readonly expiresAt: Date
}

export type CancelOutcome =
  | { kind: 'canceled' }
  /** Too late: the customer confirmed it. */
  | { kind: 'paid' }
  | CredentialsRefused
  | { kind: 'not_sent' }
  | { kind: 'unknown' }

export type ForgetOutcome = { kind: 'done' } | CredentialsRefused | { kind: 'not_sent' } | { kind: 'unknown' }

export type SetUpRequest = {
  readonly setupId: string
  readonly accountId: string
  /** What an earlier setup gave this account, so that it stays one customer there. */
  readonly customerKey: string | null
  readonly email: string | null
}

export type SetUpOutcome =
  /** `client` is what the provider's browser SDK needs. */
  | { kind: 'done'; customerKey: string | null; client: Readonly<Record<string, string>> }
  | { kind: 'refused' }
  | CredentialsRefused
  | { kind: 'not_sent' }
  | { kind: 'unknown' }

export type ProviderCheck = {
  readonly subject: 'credentials' | 'clock' | 'listing' | 'webhook_secret'
  readonly ok: boolean
  /** One sentence without secrets; where it is not ok, what to do. */
  readonly message: string
}

export type ProviderRefund = {
  /** The key of our refund where the provider carries it. */
  readonly reference: string | null
  readonly amount: Money
  readonly status: 'succeeded' | 'pending' | 'failed'
}

export type RefundRequest = {
  readonly key: string
  readonly payment: { readonly reference: string; readonly providerId: string }
  readonly amount: Money
  /** What we believe is left before this refund. */
  readonly remaining: Money
  readonly reason: string
}

export type RefundOutcome =
  | { kind: 'done' }
  /** Accepted, and settled later by a notification or a lookup. */
  | { kind: 'pending' }
  | { kind: 'declined'; replayed?: true }
  | { kind: 'disputed' }
  /** Not done, because another remainder is left than we expect: this refund was done before, or somebody else's was. */
  | { kind: 'remaining_differs' }
  | Contradiction
  | CredentialsRefused
  | { kind: 'not_sent' }
  | { kind: 'unknown' }

export type Card = { readonly brand: string; readonly last4: string; readonly expires: string }

export type ExchangeOutcome =
  | { kind: 'done'; billingKey: string; card: Card }
  | { kind: 'refused' }
  | CredentialsRefused
  | { kind: 'not_sent' }
  | { kind: 'unknown' }

export type DescribeOutcome =
  /** `issuedTo`: the names it was issued under, of a setup or a customer, where the provider keeps them. */
  | { kind: 'valid'; card: Card; issuedTo?: readonly string[] }
  | { kind: 'invalid' }
  | CredentialsRefused
  | { kind: 'not_sent' }
  | { kind: 'unknown' }

export type PaymentListing =
  | { kind: 'page'; payments: readonly ProviderPayment[]; next: string | null }
  | CredentialsRefused
  | { kind: 'unknown' }

export type WebhookDelivery = {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
  readonly secrets: readonly string[]
  /** Real time: the tolerance of a signature does not move with the sandbox clock. */
  readonly now: Date
}

export type VerifiedWebhook = {
  readonly eventId: string
  /** What the body says, where the id had to be read from it. */
  readonly message?: unknown
}

export type WebhookHint = {
  readonly type: string
  /** Our reference of the payment it speaks of, if it speaks of one. */
  readonly reference: string | null
  /** The provider's own id of that payment, for news that carries nothing of ours, such as a dispute. */
  readonly providerId?: string | null
  /** Whether it happened with real money; null where the provider does not say. */
  readonly live: boolean | null
}

/** Why a payment method did not pay, in one vocabulary for all providers. */
export type DeclineCode = (typeof declineCodes)[number]

export const declineCodes = [
  'insufficient_funds',
  'expired_card',
  'lost_or_stolen',
  'do_not_honor',
  'limit_exceeded',
  'authentication_required',
  'invalid_card',
  'not_supported',
  'processing_error',
  'unknown',
] as const

const hardDeclines: ReadonlySet<DeclineCode> = new Set([
  'expired_card',
  'lost_or_stolen',
  'invalid_card',
  'not_supported',
])

/** A hard decline will not pass with the same payment method, however often it is tried. */
export function isHard(code: DeclineCode): boolean {
  return hardDeclines.has(code)
}
