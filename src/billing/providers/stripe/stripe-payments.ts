import type Stripe from 'stripe'
import { type Money, subtract } from '../../money.ts'
import type { Card, NextAction, ProviderDispute, ProviderPayment, ProviderRefund } from '../port.ts'
import { fromStripeAmount } from './stripe-amounts.ts'
import { type Decline, declineOf } from './stripe-declines.ts'

/** Where our own names stand in Stripe's metadata. */
export const names = {
  payment: 'order_id',
  account: 'account_id',
  refund: 'refund_id',
  setup: 'setup_id',
} as const

// An account may be shared with a shop that calls its own orders by the same field.
const reference = /^rl_[0-9a-f]{40}$/

/** A name that we gave, in a field of Stripe's metadata. */
export function nameIn(metadata: unknown, field: keyof typeof names): string | null {
  const name = (metadata as Record<string, unknown> | null | undefined)?.[names[field]]
  return typeof name === 'string' && reference.test(name) ? name : null
}

/** Whether it is a payment of ours, or of an installation like ours. */
export function namesOrder({ metadata }: Stripe.PaymentIntent): boolean {
  return nameIn(metadata, 'payment') !== null
}

// A customer who has not confirmed within a day does not.
const confirmWithinMs = 24 * 3_600_000

/** Undefined: this cannot be read as a payment of ours. */
export function paymentOf(
  intent: Stripe.PaymentIntent,
  disputes: readonly Stripe.Dispute[],
): ProviderPayment | undefined {
  const status = statusOf(intent)
  const named = fromStripeAmount(status === 'paid' ? intent.amount_received : intent.amount, intent.currency)
  if (!named || typeof intent.id !== 'string' || !Number.isSafeInteger(intent.created)) return undefined
  const charge = typeof intent.latest_charge === 'object' ? intent.latest_charge : null
  const refunded = charge ? fromStripeAmount(charge.amount_refunded, charge.currency) : nothingOf(named)
  // It is told alone, and as it is: nobody may add it up with others.
  const foreign = disputes.find(({ currency, status: word }) => currency !== intent.currency && isReal(word))
  if (!refunded || (foreign && !fromStripeAmount(foreign.amount, foreign.currency))) return undefined
  const decline = status === 'declined' ? declineIn(intent) : undefined
  const at = new Date(intent.created * 1000)
  return {
    reference: intent.metadata?.[names.payment] ?? intent.id,
    providerId: intent.id,
    status,
    declineCode: decline?.code ?? null,
    rawCode: decline?.raw ?? null,
    nextAction: status === 'awaiting' ? nextActionOf(intent, at) : null,
    amount: named,
    refunded,
    refunds: (charge?.refunds?.data ?? []).map(refundOf).filter((refund) => refund !== undefined),
    dispute: disputeOf(foreign ? [foreign] : disputes),
    card: charge ? cardOf(charge.payment_method_details?.card) : null,
    at,
    live: intent.livemode,
  }
}

function nothingOf(money: Money): Money {
  return subtract(money, money)
}

function statusOf(intent: Stripe.PaymentIntent): ProviderPayment['status'] {
  switch (intent.status) {
    case 'succeeded':
      return 'paid'
    case 'canceled':
      return declineIn(intent) ? 'declined' : 'canceled'
    case 'requires_action':
      return 'awaiting'
    case 'requires_payment_method':
      if (needsCustomer(intent.last_payment_error)) return 'awaiting'
      return declineIn(intent) ? 'declined' : 'pending'
    default:
      return 'pending'
  }
}

/** Why the card did not pay, if that is what happened last. */
function declineIn({ last_payment_error: error }: Stripe.PaymentIntent): Decline | undefined {
  return error && !needsCustomer(error) ? declineOf(error) : undefined
}

/** The customer has to show that it is them, with the same intent. */
export function needsCustomer(error: { code?: string; decline_code?: string } | null | undefined): boolean {
  return (
    error?.code === 'authentication_required' ||
    error?.decline_code === 'authentication_required' ||
    error?.code === 'payment_intent_authentication_failure'
  )
}

function nextActionOf({ client_secret }: Stripe.PaymentIntent, at: Date): NextAction {
  return {
    type: 'authenticate',
    clientSecret: client_secret,
    url: null,
    expiresAt: new Date(at.getTime() + confirmWithinMs),
  }
}

function refundOf(refund: Stripe.Refund): ProviderRefund | undefined {
  const amount = fromStripeAmount(refund.amount, refund.currency)
  if (!amount) return undefined
  return { reference: nameIn(refund.metadata, 'refund'), amount, status: refundStatusOf(refund) }
}

export function refundStatusOf({ status }: Stripe.Refund): ProviderRefund['status'] {
  if (status === 'succeeded') return 'succeeded'
  return status === 'failed' || status === 'canceled' ? 'failed' : 'pending'
}

// An inquiry takes no money, and one that was prevented never became a dispute.
const disputeStatuses: Readonly<Record<string, ProviderDispute['status']>> = {
  needs_response: 'open',
  under_review: 'open',
  appeal_needs_response: 'open',
  appeal_under_review: 'open',
  won: 'won',
  lost: 'lost',
}

function isReal(status: string): boolean {
  return Object.hasOwn(disputeStatuses, status)
}

/** The newest that is open counts, else those that were lost, else the newest; what any of them has taken is gone. */
function disputeOf(disputes: readonly Stripe.Dispute[]): ProviderDispute | null {
  const newestFirst = [...disputes].sort((a, b) => b.created - a.created)
  const real = newestFirst.map(readDispute).filter((one) => one !== undefined)
  const withStatus = (status: string) => real.find(({ dispute }) => dispute.status === status)
  const { dispute } = withStatus('open') ?? withStatus('lost') ?? real[0] ?? { dispute: null }
  const taken = real.reduce((sum, one) => sum + one.taken, 0n)
  if (!dispute || taken === 0n) return dispute
  const gone = { ...dispute.amount, minor: taken }
  return dispute.status === 'lost' ? { ...dispute, amount: gone } : { ...dispute, alreadyLost: gone }
}

function readDispute(told: Stripe.Dispute): { dispute: ProviderDispute; taken: bigint } | undefined {
  const status = Object.hasOwn(disputeStatuses, told.status) && disputeStatuses[told.status]
  const amount = fromStripeAmount(told.amount, told.currency)
  if (!status || !amount) return undefined
  const openedAt = new Date(told.created * 1000)
  const closedAt = status === 'open' ? null : closedAtOf(told)
  const isTaken = status === 'lost' || isWithdrawn(told)
  return { dispute: { status, amount, openedAt, closedAt }, taken: isTaken ? amount.minor : 0n }
}

/**
 * Stripe takes what is disputed when the dispute opens, and gives it back some time after it is won. What it books is in the
 * currency of our account there, at the rate of each day, so that only how often it took and gave counts.
 */
function isWithdrawn({ balance_transactions }: Stripe.Dispute): boolean {
  return (balance_transactions ?? []).reduce((sum, { amount }) => sum + Math.sign(amount), 0) < 0
}

/** Stripe does not say when a dispute was decided; the last thing it booked about it stands for that. */
function closedAtOf({ created, balance_transactions }: Stripe.Dispute): Date {
  const times = (balance_transactions ?? []).map((booked) => booked.created)
  return new Date(Math.max(created, ...times) * 1000)
}

export function cardOf(
  card:
    | { brand?: string | null; last4?: string | null; exp_month?: number; exp_year?: number }
    | null
    | undefined,
): Card | null {
  if (
    typeof card?.last4 !== 'string' ||
    typeof card.exp_month !== 'number' ||
    typeof card.exp_year !== 'number'
  )
    return null
  const month = String(card.exp_month).padStart(2, '0')
  const year = String(card.exp_year % 100).padStart(2, '0')
  return { brand: card.brand ?? 'unknown', last4: card.last4, expires: `${month}/${year}` }
}

export function idOf(thing: string | { id: string } | null): string | null {
  return typeof thing === 'string' ? thing : (thing?.id ?? null)
}
