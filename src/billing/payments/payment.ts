import type { Money } from '../money.ts'
import type { Card, ChargeOutcome, DeclineCode, PaymentLookup, ProviderPayment } from '../providers/port.ts'
import { declineCodes } from '../providers/port.ts'

/** An attempt to take an invoice's amount, with all that is needed to ask the provider. */
export type Attempt = {
  readonly paymentId: string
  /** Key and reference at the provider, derived from the attempt's place: subscription, period, number. */
  readonly reference: string
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
  readonly looks: number
  readonly noneCount: number
  readonly noneSince: Date | null
  /** Nobody pays for an invoice that was withdrawn meanwhile, so nothing more is sent for it. */
  readonly invoiceOpen: boolean
  readonly method: MethodInUse
}

/** The card of an attempt. What is sealed opens in memory only, just before it is used. */
export type MethodInUse = {
  readonly methodId: string
  readonly sealed: Buffer | null
  readonly exchanged: boolean
}

/** Why an attempt failed: the card, the provider, or nobody. */
export type FailureCode =
  | DeclineCode
  | 'billing_key_invalid'
  | 'currency_not_supported'
  | 'provider_error'
  | 'provider_unavailable'
  /** No trace of it at the provider after its key could no longer be used. */
  | 'never_arrived'
  /** Its invoice was voided before anything was sent. */
  | 'withdrawn'

/** What became of an attempt. */
export type PaymentNews = {
  readonly paymentId: string
  readonly outcome:
    | { kind: 'paid'; providerId: string; card: Card | null }
    | { kind: 'failed'; code: FailureCode }
    | { kind: 'unknown' }
    | { kind: 'not_sent' }
}

const lateMs = 3_600_000

/** Whether the provider is asked what it knows before the first send: it comes late, or may not be the first at all. */
export function needsLookupFirst(attempt: Pick<Attempt, 'dueAt' | 'maybeSentBefore'>, now: Date): boolean {
  return attempt.maybeSentBefore || now.getTime() - attempt.dueAt.getTime() > lateMs
}

export function isDecline(code: string | null): code is DeclineCode {
  return (declineCodes as readonly string[]).includes(code ?? '')
}

export function newsOfCharge(outcome: ChargeOutcome): PaymentNews['outcome'] {
  switch (outcome.kind) {
    case 'done':
      return newsOfPayment(outcome.payment)
    case 'declined':
    case 'refused':
      return { kind: 'failed', code: outcome.code }
    default:
      return outcome
  }
}

/** A payment that the provider still works on is as unknown as one without an answer. */
export function newsOfPayment(payment: ProviderPayment): PaymentNews['outcome'] {
  if (payment.status === 'paid') return { kind: 'paid', providerId: payment.providerId, card: payment.card }
  if (payment.status === 'declined') return { kind: 'failed', code: payment.declineCode ?? 'unknown' }
  return { kind: 'unknown' }
}

export function newsOfLookup(lookup: PaymentLookup): PaymentNews['outcome'] {
  return lookup.kind === 'found' ? newsOfPayment(lookup.payment) : { kind: 'unknown' }
}
