import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { type JsonAnswer, openFetchJson } from '../../platform/fetch-json.ts'
import { parseInstant } from '../../platform/time.ts'
import { fromJson, type Money, sameMoney, toJson } from '../money.ts'
import {
  type ChargeOutcome,
  type ChargeRequest,
  type DeclineCode,
  type DescribeOutcome,
  declineCodes,
  type ExchangeOutcome,
  type PaymentListing,
  type PaymentLookup,
  type Provider,
  type ProviderDispute,
  type ProviderPayment,
  type ProviderRefund,
  type RefundOutcome,
  type RefundRequest,
  type WebhookHint,
} from './port.ts'
import { verifyStandardWebhook } from './standard-webhooks.ts'

export type SandboxProviderOptions = {
  readonly baseUrl: string
  readonly secretKey: string
  readonly timeoutMs: number
  readonly maxConnections?: number
}

/** The adapter to the sandbox provider, over HTTP like any other. */
export function sandboxProvider(options: SandboxProviderOptions): Provider {
  const fetchJson = openFetchJson({
    timeoutMs: options.timeoutMs,
    ...(options.maxConnections && { maxConnections: options.maxConnections }),
  })
  const base = options.baseUrl.replace(/\/+$/, '')
  const authorization = `Bearer ${options.secretKey}`

  const get = (path: string) => fetchJson({ method: 'GET', url: base + path, headers: { authorization } })
  const post = (path: string, body: unknown, key?: string) =>
    fetchJson({
      method: 'POST',
      url: base + path,
      headers: { authorization, ...(key !== undefined && { 'idempotency-key': `"${key}"` }) },
      body: JSON.stringify(body),
    })

  const list = async (by: 'created' | 'changed', from: Date, to: Date, cursor: string | null) => {
    const query = new URLSearchParams({
      from: from.toISOString(),
      to: to.toISOString(),
      by,
      ...(cursor !== null && { cursor }),
    })
    return listingOutcome(await get(`/v1/charges?${query}`))
  }

  const find = async (reference: string) =>
    lookupOutcome(reference, await get(`/v1/charges/${encodeURIComponent(reference)}`))

  return {
    name: 'sandbox',
    guards: {
      keyWindowMs: 86_400_000,
      namesRefunds: true,
      currencies: 'all',
      takesAmount: () => true,
      anyCustomer: true,
    },

    async charge(request) {
      const body = {
        reference: request.key,
        billing_key: request.billingKey,
        account_id: request.accountId,
        ...toJson(request.amount),
        description: request.description,
      }
      return chargeOutcome(request, await post('/v1/charges', body, request.key))
    },

    findPayment: find,

    async refund(request) {
      const { payment, amount, remaining, reason } = request
      const body = {
        reference: request.key,
        amount: toJson(amount).amount,
        expected_remaining: toJson(remaining).amount,
        reason,
      }
      return refundOutcome(
        request,
        await post(`/v1/charges/${encodeURIComponent(payment.providerId)}/refunds`, body, request.key),
      )
    },

    async exchange(authKey, customerKey) {
      return exchangeOutcome(
        await post('/v1/billing-keys/exchange', { auth_key: authKey, customer_key: customerKey }),
      )
    },

    customerOf: () => null,

    async describe(billingKey) {
      // A URL swallows these two, however they are escaped, and asks for something else.
      if (billingKey === '.' || billingKey === '..') return { kind: 'invalid' }
      return describeOutcome(await get(`/v1/billing-keys/${encodeURIComponent(billingKey)}`))
    },

    // No card of this provider asks for its customer, so nothing waits for one.
    async cancelPayment(reference) {
      const lookup = await find(reference)
      if (lookup.kind === 'credentials_refused') return lookup
      if (lookup.kind === 'none') return { kind: 'canceled' }
      if (lookup.kind !== 'found') return { kind: 'unknown' }
      return { kind: lookup.payment.status === 'paid' ? 'paid' : 'canceled' }
    },

    // Its cards are names that everybody knows; there is nothing to delete.
    async forget() {
      return { kind: 'done' }
    },

    async setUp({ accountId, customerKey }) {
      const key = customerKey ?? accountId
      return { kind: 'done', customerKey: key, client: { customer_key: key } }
    },

    async check(now) {
      const listed = await list('created', new Date(now.getTime() - 60_000), now, null)
      const ok = listed.kind === 'page'
      return [
        { subject: 'credentials', ok, message: keyMessages[listed.kind] },
        { subject: 'listing', ok, message: ok ? 'The book can be read.' : 'The book cannot be read.' },
        { subject: 'clock', ok: true, message: 'The sandbox follows the clock of the service.' },
      ]
    },

    listPayments: (from, to, cursor) => list('created', from, to, cursor),
    listChanges: (from, to, cursor) => list('changed', from, to, cursor),

    verifyWebhook: verifyStandardWebhook,
    readWebhook: readHint,
  }
}

const keyMessages: Readonly<Record<PaymentListing['kind'], string>> = {
  page: 'The key is taken.',
  credentials_refused: 'The sandbox refuses this key; correct PROVIDER_SECRET_KEY.',
  unknown: 'The sandbox gives no clear answer; check PROVIDER_BASE_URL and that it runs.',
}

function chargeOutcome(request: ChargeRequest, answer: JsonAnswer): ChargeOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  const replay = replayOf(answer)
  if ((answer.status === 200 || answer.status === 402) && isPayment.Check(answer.body)) {
    const payment = paymentOf(answer.body)
    if (payment?.reference !== request.key || !sameMoney(payment.amount, request.amount)) {
      return { kind: 'mismatch' }
    }
    if (answer.status === 200 && payment.status === 'paid') return { kind: 'done', payment }
    if (answer.status === 402 && payment.status === 'declined') {
      const { rawCode: raw, declineCode } = payment
      return { kind: 'declined', code: declineCode ?? 'unknown', ...(raw !== null && { raw }), ...replay }
    }
    return { kind: 'unknown' }
  }
  if (answer.status < 400 || answer.status >= 500) return { kind: 'unknown' }
  const code = errorCodeOf(answer.body)
  switch (code) {
    case 'billing_key_invalid':
    case 'currency_not_supported':
      return { kind: 'refused', code, raw: code, ...replay }
    case 'invalid_request':
    case 'validation_failed':
      return { kind: 'refused', code: 'provider_error', raw: code, ...replay }
    case 'idempotency_key_reused':
      return { kind: 'key_used_otherwise' }
    case 'unauthorized':
      return { kind: 'credentials_refused' }
    default:
      // A known reference or a key in use may hide a charge that went through earlier.
      return { kind: 'unknown' }
  }
}

function replayOf({ headers }: Extract<JsonAnswer, { kind: 'answered' }>): { replayed?: true } {
  return headers['idempotent-replayed'] === 'true' ? { replayed: true } : {}
}

/** Told by its code, never by the status alone: some providers answer a plain decline with 403. */
function refusesCredentials(answer: Extract<JsonAnswer, { kind: 'answered' }>): boolean {
  return answer.status >= 400 && answer.status < 500 && errorCodeOf(answer.body) === 'unauthorized'
}

function lookupOutcome(reference: string, answer: JsonAnswer): PaymentLookup {
  if (answer.kind !== 'answered') return { kind: 'unknown' }
  if (answer.status === 404 && errorCodeOf(answer.body) === 'charge_not_found') return { kind: 'none' }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.status !== 200 || !isPayment.Check(answer.body)) return { kind: 'unknown' }
  const payment = paymentOf(answer.body)
  return payment?.reference === reference ? { kind: 'found', payment } : { kind: 'mismatch' }
}

const refundRefusals: Readonly<Record<string, Exclude<RefundOutcome['kind'], 'declined'>>> = {
  charge_disputed: 'disputed',
  remaining_differs: 'remaining_differs',
  already_refunded: 'remaining_differs',
  idempotency_key_reused: 'key_used_otherwise',
  unauthorized: 'credentials_refused',
}
const refundDeclines: ReadonlySet<string> = new Set([
  'refund_declined',
  'amount_exceeds_remaining',
  'charge_not_found',
  'charge_not_paid',
])

/** A known reference may mean that this very refund went through: that is for a lookup to say. */
function refundOutcome(request: RefundRequest, answer: JsonAnswer): RefundOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (answer.status === 200 && isRefund.Check(answer.body)) {
    const { reference, amount, currency, status } = answer.body
    const echoed = reference === request.key && BigInt(amount) === request.amount.minor
    if (!echoed || (currency !== undefined && currency !== request.amount.currency))
      return { kind: 'mismatch' }
    return status === 'succeeded' ? { kind: 'done' } : { kind: 'unknown' }
  }
  if (answer.status >= 500) return { kind: 'unknown' }
  const code = errorCodeOf(answer.body) ?? ''
  if (refundDeclines.has(code)) return { kind: 'declined', ...replayOf(answer) }
  return { kind: refundRefusals[code] ?? 'unknown' }
}

function exchangeOutcome(answer: JsonAnswer): ExchangeOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (answer.status === 200 && isBillingKey.Check(answer.body)) {
    return { kind: 'done', billingKey: answer.body.billing_key, card: answer.body.card }
  }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  return errorCodeOf(answer.body) === 'auth_key_invalid' ? { kind: 'refused' } : { kind: 'unknown' }
}

function describeOutcome(answer: JsonAnswer): DescribeOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (answer.status === 200 && isBillingKey.Check(answer.body))
    return { kind: 'valid', card: answer.body.card }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  return errorCodeOf(answer.body) === 'billing_key_not_found' ? { kind: 'invalid' } : { kind: 'unknown' }
}

function listingOutcome(answer: JsonAnswer): PaymentListing {
  if (answer.kind !== 'answered') return { kind: 'unknown' }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.status !== 200 || !isListing.Check(answer.body)) return { kind: 'unknown' }
  const payments = answer.body.charges.map(paymentOf)
  if (!payments.every((payment) => payment !== undefined)) return { kind: 'unknown' }
  return { kind: 'page', payments, next: answer.body.next_cursor }
}

function readHint(body: unknown): WebhookHint {
  const type = textAt(body, 'type') ?? 'unknown'
  const data = (body as { data?: unknown } | null)?.data
  return { type, reference: textAt(data, 'reference') ?? null, live: null }
}

function textAt(body: unknown, name: string): string | undefined {
  const value = (body as Record<string, unknown> | null | undefined)?.[name]
  return typeof value === 'string' ? value : undefined
}

const CardJson = Type.Object({ brand: Type.String(), last4: Type.String(), expires: Type.String() })

const RefundJson = Type.Object({
  reference: Type.String(),
  amount: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  currency: Type.Optional(Type.String()),
  status: Type.Union([Type.Literal('succeeded'), Type.Literal('failed')]),
})

const DisputeJson = Type.Object({
  status: Type.Union([Type.Literal('open'), Type.Literal('won'), Type.Literal('lost')]),
  amount: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  opened_at: Type.String(),
  closed_at: Type.Union([Type.String(), Type.Null()]),
})

const PaymentJson = Type.Object({
  id: Type.String(),
  reference: Type.String(),
  amount: Type.Integer(),
  currency: Type.String(),
  status: Type.Union([Type.Literal('paid'), Type.Literal('declined')]),
  decline_code: Type.Union([Type.String(), Type.Null()]),
  amount_refunded: Type.Integer(),
  refunds: Type.Array(RefundJson),
  dispute: Type.Union([DisputeJson, Type.Null()]),
  card: Type.Optional(CardJson),
  created_at: Type.String(),
})

const isRefund = Compile(RefundJson)
const isPayment = Compile(PaymentJson)
const isBillingKey = Compile(Type.Object({ billing_key: Type.String(), card: CardJson }))
const isListing = Compile(
  Type.Object({ charges: Type.Array(Type.Unknown()), next_cursor: Type.Union([Type.String(), Type.Null()]) }),
)

function paymentOf(body: unknown): ProviderPayment | undefined {
  if (!isPayment.Check(body)) return undefined
  const amount = fromJson(body)
  const refunded = fromJson({ amount: body.amount_refunded, currency: body.currency })
  const at = parseInstant(body.created_at)
  const dispute = body.dispute && disputeOf(body.dispute, body.currency)
  if (!amount || !refunded || !at || dispute === undefined) return undefined
  return {
    reference: body.reference,
    providerId: body.id,
    status: body.status,
    declineCode: body.decline_code === null ? null : declineCodeOf(body.decline_code),
    rawCode: body.decline_code,
    nextAction: null,
    amount,
    refunded,
    refunds: body.refunds.map((refund) => refundOf(refund, amount)),
    dispute,
    card: body.card ?? null,
    at,
  }
}

function disputeOf(dispute: Static<typeof DisputeJson>, currency: string): ProviderDispute | undefined {
  const amount = fromJson({ amount: dispute.amount, currency })
  const openedAt = parseInstant(dispute.opened_at)
  const closedAt = dispute.closed_at === null ? null : parseInstant(dispute.closed_at)
  if (!amount || !openedAt || closedAt === undefined) return undefined
  return { status: dispute.status, amount, openedAt, closedAt }
}

function refundOf(refund: Static<typeof RefundJson>, { currency }: Money): ProviderRefund {
  return {
    reference: refund.reference,
    amount: { minor: BigInt(refund.amount), currency },
    status: refund.status,
  }
}

function declineCodeOf(text: string): DeclineCode {
  return declineCodes.find((code) => code === text) ?? 'unknown'
}

function errorCodeOf(body: unknown): string | undefined {
  return textAt((body as { error?: unknown } | null | undefined)?.error, 'code')
}
