import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { type JsonAnswer, openFetchJson } from '../../../platform/fetch-json.ts'
import { sameMoney, toJson } from '../../money.ts'
import { bookChecks } from '../book-checks.ts'
import { reasonNaming, referenceIn } from '../named-reason.ts'
import type {
  ChargeOutcome,
  ChargeRequest,
  DescribeOutcome,
  ExchangeOutcome,
  ForgetOutcome,
  PaymentListing,
  PaymentLookup,
  Provider,
  ProviderCheck,
  ProviderPayment,
  RefundOutcome,
  RefundRequest,
  WebhookHint,
} from '../port.ts'
import { verifyStandardWebhook } from '../standard-webhooks.ts'
import {
  CancellationJson,
  cardOf,
  isBillingKeyInfo,
  isPayment,
  paymentOf,
  refundStatus,
  refusedCurrencies,
} from './portone-payment.ts'

export type PortoneProviderOptions = {
  readonly apiSecret: string
  readonly storeId: string
  /** New cards are collected through it. Absent: each card is charged through the channel that it was collected by. */
  readonly channelKey?: string
  /** An origin; the real one unless given. */
  readonly baseUrl?: string
  readonly timeoutMs: number
  readonly maxConnections?: number
  /** Its own secrets, at most two while they are rotated; those of the delivery unless given. */
  readonly webhookSecrets?: readonly string[]
}

const pageSize = 100

/**
 * The adapter to PortOne V2. A paid answer names neither amount nor order, and a refused one does not tell a decline from a
 * fault of the gateway: both are believed only as the payment's own record tells them.
 */
export function portoneProvider(options: PortoneProviderOptions): Provider {
  const { storeId, channelKey, webhookSecrets } = options
  const fetchJson = openFetchJson({
    timeoutMs: options.timeoutMs,
    ...(options.maxConnections && { maxConnections: options.maxConnections }),
  })
  const base = (options.baseUrl ?? 'https://api.portone.io').replace(/\/+$/, '')
  const authorization = `PortOne ${options.apiSecret}`
  const ofStore = `storeId=${encodeURIComponent(storeId)}`

  const get = (path: string) => fetchJson({ method: 'GET', url: base + path, headers: { authorization } })
  const post = (path: string, body: unknown, key: string) =>
    fetchJson({
      method: 'POST',
      url: base + path,
      headers: { authorization, 'idempotency-key': quoted(key) },
      body: JSON.stringify(body),
    })
  const find = async (reference: string) =>
    lookupOutcome(reference, await get(`/payments/${encodeURIComponent(reference)}?${ofStore}`))
  const readBillingKey = (key: string) => get(`/billing-keys/${encodeURIComponent(key)}?${ofStore}`)

  const list = async (from: Date, to: Date, cursor: string | null, size = pageSize) => {
    const asked = {
      storeId,
      from: from.toISOString(),
      until: to.toISOString(),
      size,
      ...(cursor !== null && { cursor }),
    }
    return get(`/payments-by-cursor?requestBody=${encodeURIComponent(JSON.stringify(asked))}`)
  }

  return {
    name: 'portone',
    guards: {
      keyWindowMs: 3 * 3_600_000,
      namesRefunds: true,
      currencies: 'all',
      // What else there is to it, the gateway behind the channel tells at the charge.
      takesAmount: () => true,
      tellsOwner: true,
    },

    async charge(request) {
      if (!/^[A-Za-z0-9_-]{6,64}$/.test(request.key)) return { kind: 'refused', code: 'provider_error' }
      const body = {
        storeId,
        billingKey: request.billingKey,
        channelKey,
        orderName: request.description.slice(0, 100) || request.key,
        customer: { id: request.accountId },
        amount: { total: toJson(request.amount).amount },
        currency: request.amount.currency,
      }
      const answer = await post(`/payments/${request.key}/billing-key`, body, request.key)
      const told = chargeAnswer(answer)
      return told === 'look' ? chargeOnRecord(request, await find(request.key)) : told
    },

    findPayment: find,

    // No charge of a billing key waits for its customer, so there is nothing to end; what is there is read back.
    async cancelPayment(reference) {
      const lookup = await find(reference)
      if (lookup.kind === 'credentials_refused') return lookup
      if (lookup.kind === 'none') return { kind: 'canceled' }
      if (lookup.kind !== 'found' || lookup.payment.status === 'pending') return { kind: 'unknown' }
      return { kind: lookup.payment.status === 'paid' ? 'paid' : 'canceled' }
    },

    async refund(request) {
      const { payment } = request
      const body = {
        storeId,
        amount: toJson(request.amount).amount,
        reason: reasonNaming(request.reason, request.key),
        currentCancellableAmount: toJson(request.remaining).amount,
      }
      const path = `/payments/${encodeURIComponent(payment.providerId)}/cancel`
      const told = refundAnswer(request, await post(path, body, request.key))
      return told === 'look' ? refundOnRecord(request, await find(payment.reference)) : told
    },

    // The browser gives out a billing key at once: it is read back, and that it exists is all that is left to do.
    async exchange(authKey) {
      if (isNoName(authKey)) return { kind: 'refused' }
      return exchangeOutcome(await readBillingKey(authKey))
    },

    customerOf: () => null,

    async describe(billingKey) {
      if (isNoName(billingKey)) return { kind: 'invalid' }
      return describeOutcome(await readBillingKey(billingKey))
    },

    async forget(billingKey) {
      if (isNoName(billingKey)) return { kind: 'done' }
      const url = `${base}/billing-keys/${encodeURIComponent(billingKey)}?${ofStore}`
      return forgetOutcome(await fetchJson({ method: 'DELETE', url, headers: { authorization } }))
    },

    async setUp({ setupId }) {
      if (channelKey === undefined) return { kind: 'refused' }
      const client = { store_id: storeId, channel_key: channelKey, issue_id: setupId }
      return { kind: 'done', customerKey: null, client }
    },

    async check(now) {
      const answer = await list(new Date(now.getTime() - 30 * 86_400_000), now, null, 1)
      const listed = listingOutcome(answer, 1, new Date(0), now)
      return checks(answer, listed, webhookSecrets)
    },

    listPayments: async (from, to, cursor) =>
      listingOutcome(await list(from, to, cursor), pageSize, from, to),
    // Events tell of payments and cancellations but not of disputes, so that they are no list of all that changed.
    listChanges: null,

    verifyWebhook: (delivery) =>
      verifyStandardWebhook({ ...delivery, secrets: webhookSecrets ?? delivery.secrets }),
    readWebhook: readHint,
  }
}

/** A string by RFC 8941, and 16 characters at least. */
function quoted(key: string): string {
  return `"${key.length < 16 ? key.padStart(16, '-') : key}"`
}

/** A URL swallows these two, however they are escaped, and asks for something else. */
function isNoName(key: string): boolean {
  return key === '.' || key === '..' || key === ''
}

/** The type of an answer that refuses. */
function typeOf(answer: JsonAnswer): string | undefined {
  if (answer.kind !== 'answered' || answer.status < 400) return undefined
  const type = (answer.body as { type?: unknown } | null | undefined)?.type
  return typeof type === 'string' ? type : undefined
}

function refusesCredentials(answer: JsonAnswer): boolean {
  const type = typeOf(answer)
  return isRefusal(answer) && (type === 'UNAUTHORIZED' || type === 'FORBIDDEN')
}

function isRefusal(answer: JsonAnswer): boolean {
  return answer.kind === 'answered' && answer.status >= 400 && answer.status < 500
}

const isPaidAnswer = Compile(Type.Object({ payment: Type.Object({ paidAt: Type.String() }) }))

/** `look`: the record of the payment tells. */
function chargeAnswer(answer: JsonAnswer): ChargeOutcome | 'look' {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (answer.status === 200) return isPaidAnswer.Check(answer.body) ? 'look' : { kind: 'unknown' }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  const type = typeOf(answer)
  if (type === 'PG_PROVIDER') return 'look'
  if (!isRefusal(answer)) return { kind: 'unknown' }
  switch (type) {
    case 'BILLING_KEY_NOT_FOUND':
    case 'BILLING_KEY_ALREADY_DELETED':
      return { kind: 'refused', code: 'billing_key_invalid', raw: type }
    case 'INVALID_REQUEST':
    case 'CHANNEL_NOT_FOUND':
    case 'SUM_OF_PARTS_EXCEEDS_TOTAL_AMOUNT':
      return { kind: 'refused', code: 'provider_error', raw: type }
    default:
      // Paid already, or still running: an earlier send may have gone through.
      return { kind: 'unknown' }
  }
}

/** Keys may not look at the body, so that the amount on record is what counts. */
function chargeOnRecord(request: ChargeRequest, lookup: PaymentLookup): ChargeOutcome {
  if (lookup.kind !== 'found') return { kind: lookup.kind === 'mismatch' ? 'mismatch' : 'unknown' }
  const { payment } = lookup
  if (!sameMoney(payment.amount, request.amount)) return { kind: 'mismatch' }
  if (payment.status === 'paid') return { kind: 'done', payment }
  if (payment.status !== 'declined') return { kind: 'unknown' }
  const raw = payment.rawCode
  if (raw !== null && refusedCurrencies.has(raw))
    return { kind: 'refused', code: 'currency_not_supported', raw }
  return { kind: 'declined', code: payment.declineCode ?? 'unknown', ...(raw !== null && { raw }) }
}

function lookupOutcome(reference: string, answer: JsonAnswer): PaymentLookup {
  if (answer.kind !== 'answered') return { kind: 'unknown' }
  if (answer.status === 404 && typeOf(answer) === 'PAYMENT_NOT_FOUND') return { kind: 'none' }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.status !== 200 || !isPayment.Check(answer.body)) return { kind: 'unknown' }
  const payment = paymentOf(answer.body)
  return payment?.reference === reference ? { kind: 'found', payment } : { kind: 'mismatch' }
}

const isCancellation = Compile(Type.Object({ cancellation: CancellationJson }))

const refundRefusals: Readonly<Record<string, 'declined' | 'remaining_differs'>> = {
  PAYMENT_NOT_FOUND: 'declined',
  PAYMENT_NOT_PAID: 'declined',
  MAX_CANCEL_COUNT_REACHED: 'declined',
  PAYMENT_ALREADY_CANCELLED: 'remaining_differs',
  CANCELLABLE_AMOUNT_CONSISTENCY_BROKEN: 'remaining_differs',
}

function refundAnswer(request: RefundRequest, answer: JsonAnswer): RefundOutcome | 'look' {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (answer.status === 200) {
    if (!isCancellation.Check(answer.body)) return { kind: 'unknown' }
    return cancellationOutcome(request, answer.body.cancellation)
  }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  const type = typeOf(answer) ?? ''
  if (type === 'PG_PROVIDER') return 'look'
  if (!isRefusal(answer)) return { kind: 'unknown' }
  if (type === 'CANCEL_AMOUNT_EXCEEDS_CANCELLABLE_AMOUNT')
    return { kind: request.amount.minor > request.remaining.minor ? 'declined' : 'remaining_differs' }
  return { kind: refundRefusals[type] ?? 'unknown' }
}

/** A 200 may well say that it failed. */
function cancellationOutcome(
  request: RefundRequest,
  { reason, totalAmount, status }: Static<typeof CancellationJson>,
): RefundOutcome {
  if (referenceIn(reason) !== request.key || BigInt(totalAmount) !== request.amount.minor)
    return { kind: 'mismatch' }
  return { kind: refundOutcomes[refundStatus(status)] }
}

const refundOutcomes = { succeeded: 'done', pending: 'pending', failed: 'declined' } as const

/** The gateway refused or failed, which reads alike: what the payment's record says of this refund, or of a dispute. */
function refundOnRecord(request: RefundRequest, lookup: PaymentLookup): RefundOutcome {
  if (lookup.kind !== 'found') return { kind: 'unknown' }
  const { refunds, dispute } = lookup.payment
  const ours = refunds.find(({ reference }) => reference === request.key)
  if (ours)
    return sameMoney(ours.amount, request.amount)
      ? { kind: refundOutcomes[ours.status] }
      : { kind: 'mismatch' }
  return { kind: dispute && dispute.status !== 'won' ? 'disputed' : 'unknown' }
}

function exchangeOutcome(answer: JsonAnswer): ExchangeOutcome {
  const described = describeOutcome(answer)
  if (described.kind === 'invalid') return { kind: 'refused' }
  if (described.kind !== 'valid') return described
  if (answer.kind !== 'answered' || !isBillingKeyInfo.Check(answer.body)) return { kind: 'unknown' }
  return { kind: 'done', billingKey: answer.body.billingKey, card: described.card }
}

function describeOutcome(answer: JsonAnswer): DescribeOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.status === 200 && isBillingKeyInfo.Check(answer.body)) {
    const { status, methods, issueId, customer } = answer.body
    if (status !== 'ISSUED') return { kind: 'invalid' }
    const card = cardOf(methods?.find((method) => method.card)?.card ?? {})
    const issuedTo = [issueId, customer?.id].filter((name) => name !== undefined)
    return { kind: 'valid', card, ...(issuedTo.length > 0 && { issuedTo }) }
  }
  // A gateway that fails may name anything.
  const isMissing = isRefusal(answer) && typeOf(answer) === 'BILLING_KEY_NOT_FOUND'
  return { kind: isMissing ? 'invalid' : 'unknown' }
}

const goneKeys: ReadonlySet<string> = new Set([
  'BILLING_KEY_ALREADY_DELETED',
  'BILLING_KEY_NOT_FOUND',
  'BILLING_KEY_NOT_ISSUED',
])

function forgetOutcome(answer: JsonAnswer): ForgetOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.status === 200) return { kind: 'done' }
  return { kind: isRefusal(answer) && goneKeys.has(typeOf(answer) ?? '') ? 'done' : 'unknown' }
}

const isListing = Compile(
  Type.Object({ items: Type.Array(Type.Object({ payment: Type.Unknown(), cursor: Type.String() })) }),
)

function listingOutcome(answer: JsonAnswer, size: number, from: Date, to: Date): PaymentListing {
  if (answer.kind !== 'answered') return { kind: 'unknown' }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.status !== 200 || !isListing.Check(answer.body)) return { kind: 'unknown' }
  const { items } = answer.body
  const payments: ProviderPayment[] = []
  for (const item of items) {
    if (!isPayment.Check(item.payment)) return { kind: 'unknown' }
    const payment = paymentOf(item.payment)
    // One in a currency that billing does not know is none of ours.
    if (payment && payment.at >= from && payment.at < to) payments.push(payment)
  }
  return { kind: 'page', payments, next: items.length < size ? null : items.at(-1)!.cursor }
}

function checks(
  answer: JsonAnswer,
  listed: PaymentListing,
  webhookSecrets: readonly string[] | undefined,
): ProviderCheck[] {
  const secrets = webhookSecrets ?? []
  const isSigned = secrets.length > 0 && secrets.every(canSign)
  return [
    ...bookChecks(answer, listed, {
      taken: 'The API secret is taken.',
      refused: 'PortOne refuses this secret for this store; correct PORTONE_API_SECRET and PORTONE_STORE_ID.',
      unclear: 'PortOne gives no clear answer; check PORTONE_BASE_URL and the way out of this network.',
      entries: 'Payments',
    }),
    {
      subject: 'webhook_secret',
      ok: isSigned,
      message: isSigned
        ? 'A webhook secret is set.'
        : 'Set PORTONE_WEBHOOK_SECRETS to the secret that the console shows beside the webhook (version 2024-04-25).',
    },
  ]
}

function canSign(secret: string): boolean {
  return Buffer.from(secret.replace(/^whsec_/, ''), 'base64').length >= 16
}

/** Thin by design: it names the payment, and the payment is looked up. It does not say whether the channel is live. */
function readHint(body: unknown): WebhookHint {
  const { type, data, payment_id } = (body ?? {}) as Record<string, unknown>
  const named = (data as { paymentId?: unknown } | null | undefined)?.paymentId ?? payment_id
  return {
    type: typeof type === 'string' ? type : 'unknown',
    reference: typeof named === 'string' ? named : null,
    live: null,
  }
}
