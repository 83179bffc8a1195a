import { maskText } from '../../platform/log/3-mask-values.ts'
import { type Money, sameMoney } from '../money.ts'
import type {
  Card,
  ChargeOutcome,
  DeclineCode,
  NextAction,
  PaymentLookup,
  ProviderPayment,
} from '../providers/port.ts'
import { declineCodes, isOfOneCurrency } from '../providers/port.ts'
import type { BillingTables } from '../tables.ts'
import { comesLate, type ResendDeclines } from './doubt.ts'

export type PaymentStatus = BillingTables['billing.payment']['status']

/** What a caller reads of a charge or refund. */
export const movementStatuses = ['pending', 'succeeded', 'failed'] as const

export type MovementStatus = (typeof movementStatuses)[number]

/** An attempt to take an invoice's amount, with all that is needed to ask the provider. */
export type Attempt = {
  readonly paymentId: string
  /** Key and reference at the provider, derived from the attempt's place: subscription, period, number. */
  readonly reference: string
  /** Who is asked for the money, and about it. */
  readonly provider: string
  /** The provider's own id, where an answer has told it. */
  readonly providerId: string | null
  readonly invoiceId: string
  readonly subscriptionId: string
  readonly accountId: string
  readonly amount: Money
  readonly description: string
  /** Service time at which its invoice fell due. */
  readonly dueAt: Date
  /** It belongs to a time of which a backup may have forgotten what was sent. */
  readonly maybeSentBefore: boolean
  /** Service time of the first send; null while nothing has left us. */
  readonly sentAt: Date | null
  /** Until when it is its holder's to send, as the database has it to the microsecond: whoever resumes it later has another. */
  readonly lease: string
  /** Service time until which its customer may confirm it; null while nobody is awaited. */
  readonly awaitedUntil: Date | null
  readonly lookupCount: number
  readonly notFoundCount: number
  readonly notFoundSince: Date | null
  /** The same "no" to re-sends in a row, so far. */
  readonly resendDeclines: (ResendDeclines & { readonly code: string }) | null
  /** Nobody pays for an invoice that was withdrawn meanwhile, so nothing more is sent for it. */
  readonly invoiceOpen: boolean
  readonly method: MethodInUse
  /** Its subscription is charged to another payment method by now. */
  readonly replaced: boolean
}

/** The payment method of an attempt. What is sealed opens in memory only, just before it is used. */
export type MethodInUse = {
  readonly methodId: string
  /** Who stored it. */
  readonly provider: string
  readonly sealed: Buffer | null
  readonly exchanged: boolean
  /** Who offers it, as long as it was neither described nor charged. */
  readonly offer?: MethodOffer | null
}

/** `bound`: the token that brought it reaches this account alone. */
export type MethodOffer = { readonly accountId: string; readonly bound: boolean }

/** Where a payment is to be found at its provider, and what that said of it: for an operator's eyes. */
export type ProviderTrace = {
  readonly provider: string
  /** The provider's own id, where an answer has told it. */
  readonly provider_id: string | null
  /** Its own code of a failure. */
  readonly provider_code: string | null
}

/** Why an attempt failed: the payment method, the provider, or nobody. */
export type FailureCode =
  | DeclineCode
  | 'billing_key_invalid'
  | 'currency_not_supported'
  | 'provider_error'
  | 'provider_unavailable'
  /** No trace of it at the provider after its key could no longer be used. */
  | 'never_arrived'
  /** Its invoice was voided, or another payment method was offered for it, before anything was sent. */
  | 'withdrawn'

/** What a person must look into before an attempt or refund can be settled. */
export type Contradicted = 'amount_differs' | 'key_used_otherwise'

/** What became of an attempt. */
export type PaymentOutcome =
  | { kind: 'paid'; providerId: string; card: Card | null }
  /** `raw`: the provider's own code for it, for an operator's eyes. */
  | { kind: 'failed'; code: FailureCode; raw?: string | null }
  /** Its customer has to confirm it. Nothing was taken, and anything may be until it is ended at the provider. */
  | { kind: 'awaiting'; providerId: string; nextAction: NextAction }
  /** `answered`: the provider was asked about it and answered, only not with what became of it. */
  | { kind: 'unknown'; alarm?: Contradicted; answered?: true }
  | { kind: 'not_sent' }

/** The provider has decided: there is nothing left to wait for. */
export type DecidedOutcome = Extract<PaymentOutcome, { kind: 'paid' | 'failed' }>

/** What an attempt that has just been written says of its place. */
type Opened = Pick<
  Attempt,
  | 'paymentId'
  | 'reference'
  | 'invoiceId'
  | 'subscriptionId'
  | 'accountId'
  | 'amount'
  | 'description'
  | 'dueAt'
  | 'maybeSentBefore'
  | 'lease'
  | 'method'
>

/** An attempt that has just been written and is its writer's to send. Nobody has answered anything about it yet. */
export function openedAttempt(opened: Opened, now: Date): Attempt {
  return {
    ...opened,
    provider: opened.method.provider,
    sentAt: now,
    providerId: null,
    awaitedUntil: null,
    lookupCount: 0,
    notFoundCount: 0,
    notFoundSince: null,
    resendDeclines: null,
    invoiceOpen: true,
    replaced: false,
  }
}

/** Whether the provider is asked what it knows before the first send: it comes late, or may not be the first at all. */
export function needsLookupFirst(attempt: Pick<Attempt, 'dueAt' | 'maybeSentBefore'>, now: Date): boolean {
  return attempt.maybeSentBefore || comesLate(attempt.dueAt, now)
}

export function isDecline(code: string | null): code is DeclineCode {
  return (declineCodes as readonly string[]).includes(code ?? '')
}

const longestRaw = 200

/**
 * What is kept of a provider's own code. It is a provider's text: an unprintable character in it would keep its payment
 * from being recorded, and a provider may quote what it was sent.
 */
export function keptCode(raw: string): string {
  const printable = raw.slice(0, 5 * longestRaw).replace(/[^\x20-\x7e]/g, '?')
  return maskText(printable).slice(0, longestRaw)
}

type Asked = Pick<Attempt, 'reference' | 'amount'>

/** What the answer to a first send says. A re-send is another matter: see `outcomeOfResend`. */
export function outcomeOfCharge(answer: ChargeOutcome, asked: Asked): PaymentOutcome {
  switch (answer.kind) {
    case 'done':
      return outcomeOfPayment(answer.payment, asked)
    case 'declined':
    case 'refused':
      return { kind: 'failed', code: answer.code, ...(answer.raw !== undefined && { raw: answer.raw }) }
    case 'mismatch':
      return { kind: 'unknown', alarm: 'amount_differs' }
    case 'key_used_otherwise':
      return { kind: 'unknown', alarm: 'key_used_otherwise' }
    case 'credentials_refused':
      return { kind: 'not_sent' }
    case 'needs_customer':
      return outcomeOfPayment(answer.payment, asked)
    default:
      return answer
  }
}

/** A "no" that the provider does not call its first answer once more: it says nothing about an earlier send. */
export function isUnproven(
  answer: ChargeOutcome,
): answer is Extract<ChargeOutcome, { kind: 'declined' | 'refused' }> {
  return (answer.kind === 'declined' || answer.kind === 'refused') && !answer.replayed
}

/** What the answer to a re-send says. An earlier send may still be running, so that an unproven "no" settles nothing. */
export function outcomeOfResend(answer: ChargeOutcome, asked: Asked): PaymentOutcome {
  if (isUnproven(answer)) return { kind: 'unknown' }
  const outcome = outcomeOfCharge(answer, asked)
  return outcome.kind === 'not_sent' ? { kind: 'unknown' } : outcome
}

/**
 * A payment that the provider still works on is as unknown as one without an answer, and so is one that is not about
 * our money. The card may be another than we know: issuers renew them.
 */
export function outcomeOfPayment(payment: ProviderPayment, asked: Asked): PaymentOutcome {
  if (!isAsAsked(payment, asked)) return { kind: 'unknown', alarm: 'amount_differs', answered: true }
  if (payment.status === 'paid') return { kind: 'paid', providerId: payment.providerId, card: payment.card }
  const { declineCode, rawCode: raw } = payment
  if (payment.status === 'declined') return { kind: 'failed', code: declineCode ?? 'unknown', raw }
  // Nobody ends a payment but one that waits for its customer.
  if (payment.status === 'canceled') return { kind: 'failed', code: 'authentication_required' }
  if (payment.status === 'awaiting' && payment.nextAction)
    return { kind: 'awaiting', providerId: payment.providerId, nextAction: payment.nextAction }
  return { kind: 'unknown', answered: true }
}

export function outcomeOfLookup(lookup: PaymentLookup, asked: Asked): PaymentOutcome {
  switch (lookup.kind) {
    case 'found':
      return outcomeOfPayment(lookup.payment, asked)
    case 'mismatch':
      return { kind: 'unknown', alarm: 'amount_differs', answered: true }
    case 'none':
      return { kind: 'unknown', answered: true }
    default:
      return { kind: 'unknown' }
  }
}

/** Whether a record is about the money we asked for, in all that it says of money. */
export function isAsAsked(payment: ProviderPayment, asked: Asked): boolean {
  const isSame = payment.reference === asked.reference && sameMoney(payment.amount, asked.amount)
  return isSame && isOfOneCurrency(payment)
}
