import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { parseInstant } from '../../../platform/time.ts'
import { fromJson, type Money } from '../../money.ts'
import { referenceIn } from '../named-reason.ts'
import type { Card, DeclineCode, ProviderDispute, ProviderPayment, ProviderRefund } from '../port.ts'
import { tossFailure } from '../toss/toss-declines.ts'

// Only what is read. Statuses, fields and cases may be added at any time.
const Amount = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

const CardJson = Type.Object({
  brand: Type.Optional(Type.String()),
  issuer: Type.Optional(Type.String()),
  publisher: Type.Optional(Type.String()),
  number: Type.Optional(Type.String()),
})

export const CancellationJson = Type.Object({
  status: Type.String(),
  totalAmount: Amount,
  reason: Type.String(),
  trigger: Type.Optional(Type.String()),
  requestedAt: Type.Optional(Type.String()),
  cancelledAt: Type.Optional(Type.String()),
})

const DisputeJson = Type.Object({
  status: Type.String(),
  createdAt: Type.String(),
  resolvedAt: Type.Optional(Type.String()),
})

const PaymentJson = Type.Object({
  status: Type.String(),
  id: Type.String(),
  amount: Type.Object({ total: Amount, cancelled: Amount }),
  currency: Type.String(),
  requestedAt: Type.String(),
  paidAt: Type.Optional(Type.String()),
  channel: Type.Optional(Type.Object({ type: Type.String() })),
  method: Type.Optional(Type.Object({ card: Type.Optional(CardJson) })),
  failure: Type.Optional(Type.Object({ pgCode: Type.Optional(Type.String()) })),
  cancellations: Type.Optional(Type.Array(CancellationJson)),
  disputes: Type.Optional(Type.Array(DisputeJson)),
})

export const isPayment = Compile(PaymentJson)
type PaymentJson = Static<typeof PaymentJson>

/** Undefined: it is in no currency that billing knows. */
export function paymentOf(body: PaymentJson): ProviderPayment | undefined {
  const amount = fromJson({ amount: body.amount.total, currency: body.currency })
  const at = parseInstant(body.requestedAt)
  if (!amount || !at) return undefined
  const status = statusOf(body)
  const rawCode = status === 'declined' ? (body.failure?.pgCode ?? null) : null
  const ours = (body.cancellations ?? []).filter(({ trigger }) => trigger !== 'CHARGEBACK')
  const refunds = ours.map((cancellation) => refundOf(cancellation, amount))
  const hiddenSince = disputesHiddenSince(body, at)
  return {
    reference: body.id,
    // Every call names a payment by the merchant's own id; there is no other to keep.
    providerId: body.id,
    status,
    declineCode: status === 'declined' ? failureCode(rawCode) : null,
    rawCode,
    nextAction: null,
    amount,
    refunded: {
      minor: refunds.reduce((sum, one) => sum + (one.status === 'succeeded' ? one.amount.minor : 0n), 0n),
      currency: amount.currency,
    },
    refunds,
    dispute: disputeOf(body, amount),
    ...(hiddenSince && { disputesHiddenSince: hiddenSince }),
    card: body.method?.card ? cardOf(body.method.card) : null,
    at,
    ...(body.channel && { live: body.channel.type === 'LIVE' }),
  }
}

function statusOf({ status, paidAt, amount }: PaymentJson): ProviderPayment['status'] {
  switch (status) {
    case 'PAID':
    case 'PARTIAL_CANCELLED':
      return 'paid'
    case 'CANCELLED':
      // Taken and given back, unless nothing was taken before.
      return paidAt === undefined && amount.cancelled === 0 ? 'canceled' : 'paid'
    case 'FAILED':
      return 'declined'
    default:
      return 'pending'
  }
}

/** PortOne passes the gateway's code on as it is; those of a Toss channel are Toss's. */
function failureCode(raw: string | null): DeclineCode {
  return raw !== null && refusedCurrencies.has(raw) ? 'not_supported' : tossFailure(raw)
}

/** What gateways say of a currency that their channel does not take. */
export const refusedCurrencies: ReadonlySet<string> = new Set(['NOT_SUPPORTED_CURRENCY', 'INVALID_CURRENCY'])

function refundOf(cancellation: Static<typeof CancellationJson>, { currency }: Money): ProviderRefund {
  return {
    reference: referenceIn(cancellation.reason),
    amount: { minor: BigInt(cancellation.totalAmount), currency },
    status: refundStatus(cancellation.status),
  }
}

export function refundStatus(status: string): ProviderRefund['status'] {
  if (status === 'SUCCEEDED') return 'succeeded'
  return status === 'FAILED' ? 'failed' : 'pending'
}

/**
 * A dispute names neither its amount nor who won. What the bank takes back appears as a cancellation by chargeback: with
 * one, a decided dispute is lost, and without one it was won. Of several nobody tells which one took it, and gone it is.
 */
function disputeOf(body: PaymentJson, amount: Money): ProviderDispute | null {
  const dispute = body.disputes?.findLast(isUnresolved) ?? body.disputes?.at(-1)
  const cancelled = (body.cancellations ?? []).filter(({ status }) => status === 'SUCCEEDED')
  const chargebacks = cancelled.filter(({ trigger }) => trigger === 'CHARGEBACK')
  const taken = sumOf(chargebacks)
  const openedAt = parseInstant(dispute?.createdAt ?? chargebacks[0]?.requestedAt ?? '')
  if (!openedAt || (!dispute && taken === 0n)) return null
  const disputed = { ...amount, minor: leftAt(openedAt, amount.minor, cancelled) }
  const gone = { ...amount, minor: taken }
  if (dispute && isUnresolved(dispute)) {
    const open = { status: 'open', amount: disputed, openedAt, closedAt: null } as const
    return taken > 0n ? { ...open, alreadyLost: gone } : open
  }
  const closedAt = parseInstant(dispute?.resolvedAt ?? '') ?? openedAt
  if (taken > 0n) return { status: 'lost', amount: gone, openedAt, closedAt }
  return { status: 'won', amount: disputed, openedAt, closedAt }
}

/** The shape of a payment of which something went back has no disputes, neither open nor decided. */
function disputesHiddenSince({ disputes, cancellations = [] }: PaymentJson, at: Date): Date | undefined {
  const done = cancellations.filter(({ status }) => status === 'SUCCEEDED')
  if (disputes !== undefined || done.length === 0) return undefined
  const times = done.map((one) => backAt(one)?.getTime()).filter((time) => time !== undefined)
  return times.length > 0 ? new Date(Math.min(...times)) : at
}

function backAt({ cancelledAt, requestedAt }: Cancellation): Date | undefined {
  return parseInstant(cancelledAt ?? requestedAt ?? '')
}

function isUnresolved({ status }: { status: string }): boolean {
  return status === 'UNRESOLVED'
}

type Cancellation = Static<typeof CancellationJson>

function sumOf(cancellations: readonly Cancellation[]): bigint {
  return cancellations.reduce((sum, { totalAmount }) => sum + BigInt(totalAmount), 0n)
}

/**
 * What a dispute opened then was about. What went back after that does not count, or the amount of a decided dispute would
 * shrink with every refund; and nobody can dispute nothing, also where all had gone back before.
 */
function leftAt(openedAt: Date, total: bigint, cancelled: readonly Cancellation[]): bigint {
  const before = cancelled.filter((one) => {
    const at = backAt(one)
    return at !== undefined && at < openedAt
  })
  const left = total - sumOf(before)
  return left > 0n ? left : 1n
}

/** Masked numbers differ by gateway; PortOne never tells when a card expires. */
export function cardOf(card: Static<typeof CardJson>): Card {
  const brand = (card.brand === 'LOCAL' ? card.issuer : card.brand) ?? card.issuer ?? 'unknown'
  return {
    brand: brand === 'MASTER' ? 'mastercard' : brand.toLowerCase().replace(/_card$/, ''),
    last4: (card.number ?? '').replace(/[^0-9*]/g, '').slice(-4),
    expires: '',
  }
}

export const isBillingKeyInfo = Compile(
  Type.Object({
    status: Type.String(),
    billingKey: Type.String({ minLength: 1 }),
    methods: Type.Optional(Type.Array(Type.Object({ card: Type.Optional(CardJson) }))),
    // What the merchant's browser gave with the card: our setup, and whatever it calls its customer.
    issueId: Type.Optional(Type.String()),
    customer: Type.Optional(Type.Object({ id: Type.Optional(Type.String()) })),
  }),
)
