import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { parseInstant } from '../../../platform/time.ts'
import { fromJson } from '../../money.ts'
import { referenceIn } from '../named-reason.ts'
import type { Card, ProviderPayment, ProviderRefund } from '../port.ts'
import { tossFailure } from './toss-declines.ts'

// Only what is read. Toss adds fields without a new version.
const Amount = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

const CardJson = Type.Object({
  issuerCode: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  number: Type.Optional(Type.String()),
})

const CancelJson = Type.Object({
  cancelAmount: Amount,
  cancelReason: Type.String(),
  cancelStatus: Type.Optional(Type.Union([Type.String(), Type.Null()])),
})

const PaymentJson = Type.Object({
  paymentKey: Type.String(),
  orderId: Type.String(),
  status: Type.String(),
  currency: Type.String(),
  totalAmount: Amount,
  balanceAmount: Amount,
  requestedAt: Type.String(),
  approvedAt: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  cancels: Type.Optional(Type.Union([Type.Array(CancelJson), Type.Null()])),
  card: Type.Optional(Type.Union([CardJson, Type.Null()])),
  failure: Type.Optional(Type.Union([Type.Object({ code: Type.String() }), Type.Null()])),
})

export const isPayment = Compile(PaymentJson)
export type PaymentJson = Static<typeof PaymentJson>

const statuses: Readonly<Record<string, ProviderPayment['status']>> = {
  DONE: 'paid',
  // Taken first and given back later; how much is what the balance says.
  CANCELED: 'paid',
  PARTIAL_CANCELED: 'paid',
  ABORTED: 'declined',
  EXPIRED: 'declined',
}

/** Undefined: this is no payment that billing could know. */
export function paymentOf(body: unknown): ProviderPayment | undefined {
  if (!isPayment.Check(body)) return undefined
  const { currency } = body
  const status = statuses[body.status] ?? 'pending'
  const amount = fromJson({ amount: body.totalAmount, currency })
  // "All given back" is a balance of zero, not a status: the last of several cancels leaves PARTIAL_CANCELED.
  const left = status === 'paid' ? body.balanceAmount : body.totalAmount
  const refunded = fromJson({ amount: body.totalAmount - left, currency })
  const at = parseInstant(body.approvedAt ?? body.requestedAt)
  if (!amount || !refunded || !at) return undefined
  const rawCode = status === 'declined' ? (body.failure?.code ?? null) : null
  return {
    reference: body.orderId,
    providerId: body.paymentKey,
    status,
    declineCode: status === 'declined' ? tossFailure(rawCode) : null,
    rawCode,
    nextAction: null,
    amount,
    refunded,
    refunds: (body.cancels ?? []).map((cancel) => ({
      reference: referenceIn(cancel.cancelReason),
      amount: { minor: BigInt(cancel.cancelAmount), currency: amount.currency },
      status: refundStatus(cancel.cancelStatus),
    })),
    // No event or field of Toss tells of a dispute.
    dispute: null,
    card: body.card ? cardOf(body.card) : null,
    at,
  }
}

function refundStatus(status: string | null | undefined): ProviderRefund['status'] {
  if (status === 'ABORTED') return 'failed'
  return status === 'IN_PROGRESS' ? 'pending' : 'succeeded'
}

// By Toss's list of card company codes.
const issuers: Readonly<Record<string, string>> = {
  '3K': 'ibk',
  '46': 'gwangju',
  '71': 'lotte',
  '30': 'kdb',
  '31': 'bc',
  '51': 'samsung',
  '38': 'saemaul',
  '41': 'shinhan',
  '62': 'shinhyup',
  '36': 'citi',
  '33': 'woori',
  W1: 'woori',
  '37': 'post',
  '39': 'savings',
  '35': 'jeonbuk',
  '42': 'jeju',
  '15': 'kakaobank',
  '3A': 'kbank',
  '24': 'tossbank',
  '21': 'hana',
  '61': 'hyundai',
  '11': 'kookmin',
  '91': 'nonghyup',
  '34': 'suhyup',
  '6D': 'diners',
  '4M': 'mastercard',
  '3C': 'unionpay',
  '7A': 'amex',
  '4J': 'jcb',
  '4V': 'visa',
}

/** Toss masks the very last digit too, and never tells when a card expires. */
export function cardOf({ issuerCode, number = '' }: Static<typeof CardJson>): Card {
  const last4 = number.replace(/[^0-9*]/g, '').slice(-4)
  return { brand: issuers[issuerCode ?? ''] ?? 'unknown', last4, expires: '' }
}
