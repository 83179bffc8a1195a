import type { BookDispute, BookPayment, BookRefund } from '../book-payment.ts'
import type { TestCard } from '../cards.ts'
import { pgCodeOf, pgMessageOf } from './portone-errors.ts'

const merchantId = 'merchant-simulated'
export const defaultStoreId = 'store-simulated'

const channel = {
  type: 'TEST',
  id: 'channel-id-simulated',
  key: 'channel-key-simulated',
  name: 'simulated',
  pgProvider: 'TOSSPAYMENTS',
  pgMerchantId: 'simulated',
} as const

export type PaymentParts = {
  readonly payment: BookPayment
  readonly billingKey: string
  readonly description: string
  readonly card: TestCard
  readonly storeId: string
  /** The reason of each cancellation by the reference the book keeps it under. */
  readonly reasons: ReadonlyMap<string, string>
}

/** A payment as PortOne tells it: one of several shapes, by its status. */
export function renderPayment(parts: PaymentParts) {
  const { payment, description, card, storeId } = parts
  const lost = payment.dispute?.status === 'lost' ? payment.dispute : null
  const cancelled = payment.amount_refunded + (lost?.amount ?? 0)
  const common = {
    id: payment.reference,
    transactionId: transactionIdOf(payment.reference),
    merchantId,
    storeId,
    method: {
      type: 'PaymentMethodCard',
      card: renderCard(card),
      approvalNumber: payment.id.slice(-8),
      installment: { month: 0, isInterestFree: false },
      pointUsed: false,
    },
    channel,
    version: 'V2',
    billingKey: parts.billingKey,
    webhooks: [],
    requestedAt: payment.created_at,
    updatedAt: changedAt(payment),
    statusChangedAt: changedAt(payment),
    orderName: description,
    amount: renderAmount(payment, cancelled),
    currency: payment.currency,
    customer: { id: payment.account_id },
    origin: { platformType: 'API', ipAddress: '127.0.0.1' },
  }
  if (payment.status === 'declined') {
    const pgCode = pgCodeOf(payment.decline_code)
    const failure = { reason: pgMessageOf(pgCode), pgCode, pgMessage: pgMessageOf(pgCode) }
    return { status: 'FAILED', ...common, failedAt: payment.created_at, failure }
  }
  const cancellations = [
    ...payment.refunds.map((refund) => renderCancellation(refund, parts.reasons.get(refund.reference))),
    ...(lost ? [renderChargeback(payment, lost)] : []),
  ]
  const paid = {
    ...common,
    paidAt: payment.created_at,
    pgTxId: payment.id,
    receiptUrl: `https://dashboard.tosspayments.com/receipt/redirection?transactionId=${payment.id}`,
    ...(cancellations.length > 0 && { cancellations }),
  }
  // The published schema has disputes in this shape alone.
  const disputes = payment.dispute ? [renderDispute(payment.dispute)] : []
  if (cancelled === 0) return { status: 'PAID', ...paid, disputes }
  const status = cancelled === payment.amount ? 'CANCELLED' : 'PARTIAL_CANCELLED'
  return { status, ...paid, cancelledAt: changedAt(payment) }
}

export type RenderedPayment = ReturnType<typeof renderPayment>

function renderAmount({ amount, status }: BookPayment, cancelled: number) {
  const vat = Math.floor(amount / 11)
  return {
    total: amount,
    taxFree: 0,
    vat,
    supply: amount - vat,
    discount: 0,
    paid: status === 'paid' ? amount - cancelled : 0,
    cancelled,
    cancelledTaxFree: 0,
  }
}

function changedAt({ created_at, refunds, dispute }: BookPayment): string {
  const instants = [
    created_at,
    ...refunds.map((refund) => refund.created_at),
    dispute?.opened_at,
    dispute?.closed_at,
  ]
  return instants
    .filter((one) => typeof one === 'string')
    .sort()
    .at(-1)!
}

export function renderCancellation(
  refund: Pick<BookRefund, 'id' | 'amount' | 'status' | 'created_at'>,
  reason = 'Cancelled.',
) {
  const hasSucceeded = refund.status === 'succeeded'
  return {
    status: hasSucceeded ? 'SUCCEEDED' : 'FAILED',
    id: refund.id,
    ...(hasSucceeded && { pgCancellationId: refund.id, cancelledAt: refund.created_at }),
    totalAmount: refund.amount,
    taxFreeAmount: 0,
    vatAmount: Math.floor(refund.amount / 11),
    reason,
    requestedAt: refund.created_at,
    trigger: 'API',
  }
}

/** What a bank takes back after a dispute shows as a cancellation that nobody here asked for. */
function renderChargeback(payment: BookPayment, { amount, closed_at, opened_at }: BookDispute) {
  const at = closed_at ?? opened_at
  const refund = { id: `chargeback-${payment.id}`, amount, status: 'succeeded', created_at: at } as const
  return { ...renderCancellation(refund, 'chargeback'), trigger: 'CHARGEBACK' }
}

/** Neither its amount nor who won is told. */
function renderDispute({ status, opened_at, closed_at }: BookDispute) {
  return {
    status: status === 'open' ? 'UNRESOLVED' : 'RESOLVED',
    reason: 'The cardholder does not recognise it.',
    createdAt: opened_at,
    ...(closed_at !== null && { resolvedAt: closed_at }),
  }
}

const brands: Readonly<Record<string, string>> = {
  visa: 'VISA',
  mastercard: 'MASTER',
  amex: 'AMEX',
  jcb: 'JCB',
}

function renderCard(card: TestCard) {
  const isLocal = brands[card.brand] === undefined
  const issuer = isLocal ? `${card.brand.toUpperCase()}_CARD` : 'SAMSUNG_CARD'
  return {
    publisher: issuer,
    issuer,
    brand: brands[card.brand] ?? 'LOCAL',
    type: 'CREDIT',
    ownerType: 'PERSONAL',
    bin: '433012',
    name: 'Test card',
    number: `43301234****${card.last4}`,
  }
}

export type StoredKey = {
  readonly card: string
  readonly customerId: string | null
  /** What the merchant's browser called this issue. */
  readonly issueId?: string
  readonly issuedAt: string
  readonly deletedAt: string | null
}

export function renderBillingKey(billingKey: string, stored: StoredKey, card: TestCard, storeId: string) {
  return {
    status: stored.deletedAt === null ? 'ISSUED' : 'DELETED',
    billingKey,
    merchantId,
    storeId,
    methods: [{ type: 'BillingKeyPaymentMethodCard', card: renderCard(card) }],
    channels: [channel],
    customer: stored.customerId === null ? {} : { id: stored.customerId },
    ...(stored.issueId !== undefined && { issueId: stored.issueId }),
    requestedAt: stored.issuedAt,
    issuedAt: stored.issuedAt,
    ...(stored.deletedAt !== null && { deletedAt: stored.deletedAt }),
  }
}

export function renderIssued(billingKey: string, issuedAt: string) {
  return { billingKeyInfo: { billingKey, channels: [channel], issuedAt } }
}

/** One payment is tried once here, so that its transaction follows from its name. */
export function transactionIdOf(paymentId: string): string {
  return `tx-${paymentId}`
}

/** The same, told of a channel that moves real money. */
export function inLiveMode(json: string): string {
  return json.replaceAll(`"type":"TEST","id":"${channel.id}"`, `"type":"LIVE","id":"${channel.id}"`)
}
