import Type from 'typebox'
import { Compile } from 'typebox/compile'
import { type JsonAnswer, openFetchJson } from '../../../platform/fetch-json.ts'
import { renderInstant } from '../../../platform/time.ts'
import { sameMoney, toJson } from '../../money.ts'
import { bookChecks } from '../book-checks.ts'
import { reasonNaming } from '../named-reason.ts'
import type {
  ChargeOutcome,
  ChargeRequest,
  ExchangeOutcome,
  ForgetOutcome,
  PaymentListing,
  PaymentLookup,
  Provider,
  ProviderPayment,
  RefundOutcome,
  RefundRequest,
  WebhookHint,
} from '../port.ts'
import { customerKeyPattern, packBillingKey, unpackBillingKey } from './toss-billing-key.ts'
import { isTossFault, tossBadBillingKeys, tossDecline } from './toss-declines.ts'
import { cardOf, isPayment, paymentOf } from './toss-payment.ts'
import { credentialCodes, refusalOf, refusesCredentials } from './toss-refusals.ts'
import { type Transaction, type Transactions, transactionsOutcome } from './toss-transactions.ts'

export type TossProviderOptions = {
  readonly secretKey: string
  /** An origin; the real one unless given. */
  readonly baseUrl?: string
  readonly timeoutMs: number
  readonly maxConnections?: number
}

// By card; less is BELOW_MINIMUM_AMOUNT at every charge.
const leastWon = 100n
const pageSize = 100
const lookupsAtOnce = 4

/**
 * The adapter to Toss Payments. Its codes decide and never its HTTP statuses alone; its idempotency keys do not look at the
 * body, so that every answer is held against what was asked; and no approval of a stored payment method is ever notified.
 */
export function tossProvider(options: TossProviderOptions): Provider {
  const fetchJson = openFetchJson({
    timeoutMs: options.timeoutMs,
    ...(options.maxConnections && { maxConnections: options.maxConnections }),
  })
  const base = (options.baseUrl ?? 'https://api.tosspayments.com').replace(/\/+$/, '')
  const authorization = `Basic ${Buffer.from(`${options.secretKey}:`).toString('base64')}`
  const headers = { authorization, 'accept-language': 'en-US' }

  const get = (path: string) => fetchJson({ method: 'GET', url: base + path, headers })
  const post = (path: string, body: unknown, key?: string) =>
    fetchJson({
      method: 'POST',
      url: base + path,
      headers: { ...headers, ...(key !== undefined && { 'idempotency-key': key }) },
      body: JSON.stringify(body),
    })
  const find = async (reference: string) =>
    lookupOutcome(reference, await get(`/v1/payments/orders/${encodeURIComponent(reference)}`))

  /** Approvals and cancels of a time, as Toss lists them: without refunds or cards. */
  const transactions = async (from: Date, to: Date, cursor: string | null): Promise<Transactions> => {
    const query = new URLSearchParams({
      // Whole seconds of Korean time without an offset. What the wider window catches too is left out again below.
      startDate: renderInstant(wholeSecond(from), 'Asia/Seoul').slice(0, 19),
      endDate: renderInstant(wholeSecond(new Date(to.getTime() + 999)), 'Asia/Seoul').slice(0, 19),
      limit: String(pageSize),
      ...(cursor !== null && { startingAfter: cursor }),
    })
    return transactionsOutcome(await get(`/v1/transactions?${query}`))
  }

  /** The payments of listed transactions, each looked up, because a transaction tells nothing of what followed it. */
  const list = async (
    from: Date,
    to: Date,
    cursor: string | null,
    wanted: (transaction: Transaction) => boolean,
  ): Promise<PaymentListing> => {
    const listed = await transactions(from, to, cursor)
    if (listed.kind !== 'page') return listed
    const since = wholeSecond(from)
    const keys = new Set(
      listed.transactions
        .filter((one) => wanted(one) && one.at >= since && one.at < to)
        .map(({ paymentKey }) => paymentKey),
    )
    const payments: ProviderPayment[] = []
    for (const some of inGroups([...keys], lookupsAtOnce)) {
      const answers = await Promise.all(some.map((key) => get(`/v1/payments/${encodeURIComponent(key)}`)))
      for (const answer of answers) {
        if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
        if (answer.kind !== 'answered' || answer.status !== 200 || !isPayment.Check(answer.body))
          return { kind: 'unknown' }
        const payment = paymentOf(answer.body)
        // A payment in a currency that billing does not know is none of ours.
        if (payment) payments.push(payment)
      }
    }
    const isLast = listed.transactions.length < pageSize
    return { kind: 'page', payments, next: isLast ? null : listed.transactions.at(-1)!.transactionKey }
  }

  return {
    name: 'toss',
    guards: {
      keyWindowMs: 15 * 86_400_000,
      namesRefunds: true,
      currencies: new Set(['KRW']),
      takesAmount: ({ minor }) => minor >= leastWon,
      signsNothing: true,
    },

    async charge(request) {
      // There is no field for a currency: whatever is sent counts as won.
      if (request.amount.currency !== 'KRW') return { kind: 'refused', code: 'currency_not_supported' }
      const stored = unpackBillingKey(request.billingKey)
      if (!stored) return { kind: 'refused', code: 'billing_key_invalid' }
      if (!/^[A-Za-z0-9_-]{6,64}$/.test(request.key)) return { kind: 'refused', code: 'provider_error' }
      const body = {
        amount: toJson(request.amount).amount,
        customerKey: stored.customerKey ?? request.accountId,
        orderId: request.key,
        orderName: request.description.slice(0, 100) || request.key,
      }
      const path = `/v1/billing/${encodeURIComponent(stored.billingKey)}`
      return chargeOutcome(request, await post(path, body, request.key))
    },

    findPayment: find,

    // No approval here waits for its customer, so there is nothing to end; what is there is read back.
    async cancelPayment(reference) {
      const lookup = await find(reference)
      if (lookup.kind === 'credentials_refused') return lookup
      if (lookup.kind === 'none') return { kind: 'canceled' }
      if (lookup.kind !== 'found' || lookup.payment.status === 'pending') return { kind: 'unknown' }
      return { kind: lookup.payment.status === 'paid' ? 'paid' : 'canceled' }
    },

    async refund(request) {
      const body = {
        cancelReason: reasonNaming(request.reason, request.key),
        cancelAmount: toJson(request.amount).amount,
        // Deprecated in favour of the key; sent all the same, because the key is forgotten one day.
        refundableAmount: toJson(request.remaining).amount,
      }
      const path = `/v1/payments/${encodeURIComponent(request.payment.providerId)}/cancel`
      return refundOutcome(request, await post(path, body, request.key))
    },

    async exchange(authKey, customerKey) {
      if (!customerKeyPattern.test(customerKey) || authKey.length > 300) return { kind: 'refused' }
      const answer = await post('/v1/billing/authorizations/issue', { authKey, customerKey })
      return exchangeOutcome(customerKey, answer)
    },

    customerOf: (billingKey) => unpackBillingKey(billingKey)?.customerKey ?? null,

    // Toss reads no billing key back: what the exchange told is all there is, and whether it still pays a charge tells.
    async describe(billingKey) {
      const stored = unpackBillingKey(billingKey)
      if (!stored) return { kind: 'invalid' }
      return { kind: 'valid', card: stored.card ?? { brand: 'unknown', last4: '', expires: '' } }
    },

    async forget(billingKey) {
      const stored = unpackBillingKey(billingKey)
      if (!stored) return { kind: 'done' }
      const url = `${base}/v1/billing/${encodeURIComponent(stored.billingKey)}`
      return forgetOutcome(await fetchJson({ method: 'DELETE', url, headers }))
    },

    // The browser needs nothing of Toss but a name for the customer, hard to guess, that stays the same.
    async setUp({ setupId, customerKey }) {
      const key = customerKey ?? setupId
      return { kind: 'done', customerKey: key, client: { customer_key: key } }
    },

    async check(now) {
      const answer = await get(`/v1/transactions?${lastMinute(now)}`)
      return bookChecks(answer, transactionsOutcome(answer), {
        taken: 'The secret key is taken.',
        refused:
          'Toss refuses this key; correct TOSS_SECRET_KEY, an API key (sk) of a shop contracted for automatic payments.',
        unclear: 'Toss gives no clear answer; check TOSS_BASE_URL and the way out of this network.',
        entries: 'Transactions',
      })
    },

    listPayments: (from, to, cursor) => list(from, to, cursor, ({ status }) => status === 'DONE'),
    // Every approval and cancel is a transaction of its own time, and Toss knows nothing else that could happen.
    listChanges: (from, to, cursor) => list(from, to, cursor, () => true),

    verifyWebhook: () => undefined,
    readWebhook: readHint,
  }
}

// Said before anything was tried.
const refusedRequests: ReadonlySet<string> = new Set([
  'INVALID_REQUEST',
  'INVALID_ORDER_ID',
  'INVALID_ORDER_NAME',
  'BELOW_MINIMUM_AMOUNT',
  'NOT_SUPPORTED_METHOD',
])

/** No answer of Toss says reliably that it is a replay, so none is marked as one. */
function chargeOutcome(request: ChargeRequest, answer: JsonAnswer): ChargeOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (answer.status === 200) {
    if (!isPayment.Check(answer.body)) return { kind: 'unknown' }
    const payment = paymentOf(answer.body)
    // The key does not look at the body: a replay may be about another order or amount.
    if (payment?.reference !== request.key || !sameMoney(payment.amount, request.amount))
      return { kind: 'mismatch' }
    return payment.status === 'paid' ? { kind: 'done', payment } : { kind: 'unknown' }
  }
  const raw = refusalOf(answer)
  if (raw === undefined) return { kind: 'unknown' }
  const code = tossDecline(raw)
  if (code) return { kind: 'declined', code, raw }
  if (credentialCodes.has(raw)) return { kind: 'credentials_refused' }
  if (tossBadBillingKeys.has(raw)) return { kind: 'refused', code: 'billing_key_invalid', raw }
  if (refusedRequests.has(raw)) return { kind: 'refused', code: 'provider_error', raw }
  // A known order, a key in use, a fault of the card company: each may hide an approval.
  return { kind: 'unknown' }
}

function lookupOutcome(reference: string, answer: JsonAnswer): PaymentLookup {
  if (answer.kind !== 'answered') return { kind: 'unknown' }
  if (answer.status === 404 && refusalOf(answer) === 'NOT_FOUND_PAYMENT') return { kind: 'none' }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.status !== 200 || !isPayment.Check(answer.body)) return { kind: 'unknown' }
  const payment = paymentOf(answer.body)
  return payment?.reference === reference ? { kind: 'found', payment } : { kind: 'mismatch' }
}

const refundDeclines: ReadonlySet<string> = new Set([
  'NOT_FOUND_PAYMENT',
  'NOT_CANCELABLE_PAYMENT',
  'NOT_ALLOWED_PARTIAL_REFUND',
  'EXCEED_MAX_REFUND_DUE',
  'REFUND_REJECTED',
])
const remainderCodes: ReadonlySet<string> = new Set([
  'NOT_MATCHES_REFUNDABLE_AMOUNT',
  'ALREADY_CANCELED_PAYMENT',
  'ALREADY_REFUND_PAYMENT',
])

function refundOutcome(request: RefundRequest, answer: JsonAnswer): RefundOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (answer.status === 200) {
    if (!isPayment.Check(answer.body)) return { kind: 'unknown' }
    const payment = paymentOf(answer.body)
    const ours = payment?.refunds.find(({ reference }) => reference === request.key)
    if (payment?.reference !== request.payment.reference || !ours || !sameMoney(ours.amount, request.amount))
      return { kind: 'mismatch' }
    return { kind: ({ succeeded: 'done', pending: 'pending', failed: 'declined' } as const)[ours.status] }
  }
  const code = refusalOf(answer) ?? ''
  if (credentialCodes.has(code)) return { kind: 'credentials_refused' }
  if (remainderCodes.has(code)) return { kind: 'remaining_differs' }
  // Said of too much, and of a balance of zero: then somebody was there before.
  if (code === 'NOT_CANCELABLE_AMOUNT')
    return { kind: request.amount.minor > request.remaining.minor ? 'declined' : 'remaining_differs' }
  return { kind: refundDeclines.has(code) ? 'declined' : 'unknown' }
}

const isBilling = Compile(
  Type.Object({
    billingKey: Type.String({ minLength: 1 }),
    customerKey: Type.String(),
    card: Type.Optional(
      Type.Union([
        Type.Object({ issuerCode: Type.Optional(Type.String()), number: Type.Optional(Type.String()) }),
        Type.Null(),
      ]),
    ),
  }),
)

// No money is at stake: whatever is refused clearly cannot become a card.
const passing: ReadonlySet<string> = new Set([
  'IDEMPOTENT_REQUEST_PROCESSING',
  'FORBIDDEN_CONSECUTIVE_REQUEST',
  'NOT_AVAILABLE_PAYMENT',
  'NOT_AVAILABLE_BANK',
  'TOO_MANY_REQUESTS',
])

function exchangeOutcome(customerKey: string, answer: JsonAnswer): ExchangeOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (answer.status === 200 && isBilling.Check(answer.body)) {
    if (answer.body.customerKey !== customerKey) return { kind: 'unknown' }
    const { billingKey } = answer.body
    const card = cardOf(answer.body.card ?? {})
    return { kind: 'done', billingKey: packBillingKey({ billingKey, customerKey, card }), card }
  }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  const code = refusalOf(answer)
  const isClear = code !== undefined && answer.status !== 429 && !isTossFault(code) && !passing.has(code)
  return { kind: isClear ? 'refused' : 'unknown' }
}

function forgetOutcome(answer: JsonAnswer): ForgetOutcome {
  if (answer.kind !== 'answered') return { kind: answer.kind }
  if (refusesCredentials(answer)) return { kind: 'credentials_refused' }
  if (answer.status >= 200 && answer.status < 300) return { kind: 'done' }
  return { kind: tossBadBillingKeys.has(refusalOf(answer) ?? '') ? 'done' : 'unknown' }
}

/** Unsigned, so that it proves nothing: the payment it names is looked up, and "live" is nobody's word here. */
function readHint(body: unknown): WebhookHint {
  const { eventType, data, orderId } = (body ?? {}) as Record<string, unknown>
  const named = (data as { orderId?: unknown } | null | undefined)?.orderId ?? orderId
  return {
    // The callback of a virtual account carries no type.
    type: typeof eventType === 'string' ? eventType : 'unknown',
    reference: typeof named === 'string' ? named : null,
    live: null,
  }
}

function lastMinute(now: Date): URLSearchParams {
  const at = (instant: Date) => renderInstant(instant, 'Asia/Seoul').slice(0, 19)
  return new URLSearchParams({
    startDate: at(new Date(now.getTime() - 60_000)),
    endDate: at(now),
    limit: '1',
  })
}

function wholeSecond(instant: Date): Date {
  return new Date(Math.floor(instant.getTime() / 1000) * 1000)
}

function* inGroups<T>(items: readonly T[], size: number): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size)
}
