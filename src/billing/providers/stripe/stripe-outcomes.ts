import type Stripe from 'stripe'
import { sameMoney } from '../../money.ts'
import type {
  CancelOutcome,
  ChargeOutcome,
  ChargeRequest,
  ExchangeOutcome,
  ProviderPayment,
  RefundOutcome,
  RefundRequest,
} from '../port.ts'
import { fromStripeAmount } from './stripe-amounts.ts'
import { declineOf } from './stripe-declines.ts'
import { type Failure, isReplay, type Refused } from './stripe-failures.ts'
import { cardOf, idOf, names, needsCustomer, paymentOf, refundStatusOf } from './stripe-payments.ts'

export function intentOutcome(request: ChargeRequest, intent: WithResponse, isLive: boolean): ChargeOutcome {
  const payment = paymentOf(intent, [])
  if (intent.livemode !== isLive) return otherMode(intent)
  if (!payment || !isAbout(request, payment)) return { kind: 'mismatch' }
  switch (payment.status) {
    case 'paid':
      return { kind: 'done', payment }
    case 'awaiting':
      return { kind: 'needs_customer', payment }
    case 'declined': {
      const { code, raw } = declineOf(intent.last_payment_error ?? {})
      return { kind: 'declined', code, raw, ...replayOf(isReplay(intent.lastResponse?.headers)) }
    }
    default:
      return { kind: 'unknown' }
  }
}

/** A test key got real money, or the other way round. */
export function otherMode({ livemode }: Stripe.PaymentIntent): { kind: 'mismatch'; live?: true } {
  return livemode ? { kind: 'mismatch', live: true } : { kind: 'mismatch' }
}

type WithResponse = Stripe.PaymentIntent & { lastResponse?: { headers: unknown } }

function isAbout(request: ChargeRequest, payment: ProviderPayment): boolean {
  return payment.reference === request.key && sameMoney(payment.amount, request.amount)
}

function replayOf(isReplayed: boolean): { replayed?: true } {
  return isReplayed ? { replayed: true } : {}
}

export function chargeFailure(request: ChargeRequest, failure: Failure, isLive: boolean): ChargeOutcome {
  if (failure.kind !== 'refused') return failure
  if (failure.type === 'card_error' && failure.status === 402) return cardFailure(request, failure, isLive)
  if (failure.type !== 'invalid_request_error') return { kind: 'unknown' }
  const code = refusalOf(failure)
  const raw = failure.code ?? (code === 'provider_error' ? failure.type : undefined)
  return { kind: 'refused', code, ...(raw !== undefined && { raw }), ...replayOf(failure.isReplayed) }
}

/** A decline leaves its intent behind, which names our attempt. */
function cardFailure(request: ChargeRequest, failure: Refused, isLive: boolean): ChargeOutcome {
  const { intent } = failure
  const payment = intent && paymentOf(intent, [])
  if (intent && intent.livemode !== isLive) return otherMode(intent)
  if (intent && (!payment || !isAbout(request, payment))) return { kind: 'mismatch' }
  const reason = {
    ...(failure.code !== undefined && { code: failure.code }),
    ...(failure.declineCode !== undefined && { decline_code: failure.declineCode }),
    ...(failure.adviceCode !== undefined && { advice_code: failure.adviceCode }),
  }
  if (needsCustomer(reason) && payment?.status === 'awaiting') return { kind: 'needs_customer', payment }
  return { kind: 'declined', ...declineOf(reason), ...replayOf(failure.isReplayed) }
}

function refusalOf({ code, param }: Refused): Extract<ChargeOutcome, { kind: 'refused' }>['code'] {
  if (param === 'payment_method' || param === 'customer') return 'billing_key_invalid'
  if (param === 'currency' || code === 'currency_not_supported') return 'currency_not_supported'
  return 'provider_error'
}

/** Of several intents with one reference the one that took money counts, then the oldest. */
export function foremost(intents: readonly Stripe.PaymentIntent[]): Stripe.PaymentIntent | undefined {
  const oldestFirst = [...intents].reverse()
  return oldestFirst.find(({ status }) => status === 'succeeded') ?? oldestFirst[0]
}

export function withoutRefusal(failure: Exclude<Failure, { kind: 'key_used_otherwise' }>): CancelOutcome {
  return failure.kind === 'refused' ? { kind: 'unknown' } : failure
}

export function refundOutcome(request: RefundRequest, refund: Stripe.Refund): RefundOutcome {
  const amount = fromStripeAmount(refund.amount, refund.currency)
  const isOurs =
    amount !== undefined &&
    sameMoney(amount, request.amount) &&
    refund.metadata?.[names.refund] === request.key &&
    idOf(refund.payment_intent) === request.payment.providerId
  if (!isOurs) return { kind: 'mismatch' }
  const status = refundStatusOf(refund)
  return { kind: status === 'succeeded' ? 'done' : status === 'pending' ? 'pending' : 'declined' }
}

const refundRefusals: Readonly<Record<string, 'disputed' | 'remaining_differs' | 'declined'>> = {
  charge_disputed: 'disputed',
  refund_disputed_payment: 'disputed',
  charge_already_refunded: 'remaining_differs',
  charge_not_refundable: 'declined',
  payment_intent_unexpected_state: 'declined',
  resource_missing: 'declined',
}

export function refundFailure({ amount, remaining }: RefundRequest, failure: Failure): RefundOutcome {
  if (failure.kind !== 'refused') return failure
  // More than what remains is told by nothing but the name of the parameter; unless we asked for more than we believe is
  // left ourselves, somebody was there before.
  const isTooMuch = failure.code === undefined && failure.param === 'amount'
  const named = isTooMuch ? (amount.minor > remaining.minor ? 'declined' : 'remaining_differs') : undefined
  const kind =
    named ?? (Object.hasOwn(refundRefusals, failure.code ?? '') ? refundRefusals[failure.code!] : undefined)
  if (kind === undefined) return { kind: 'unknown' }
  return kind === 'declined' ? { kind, ...replayOf(failure.isReplayed) } : { kind }
}

export function exchanged(customer: string | null, method: Stripe.PaymentMethod): ExchangeOutcome {
  const card = cardOf(method.card)
  if (!card) return { kind: 'refused' }
  return { kind: 'done', billingKey: customer === null ? method.id : `${customer}:${method.id}`, card }
}

export function orRefused(failure: Exclude<Failure, { kind: 'key_used_otherwise' }>): ExchangeOutcome {
  return failure.kind === 'refused' ? { kind: 'refused' } : failure
}
