import { createHash } from 'node:crypto'
import { renderInstant } from '../../platform/time.ts'
import type { BookPayment } from '../book-payment.ts'
import type { TestCard } from '../cards.ts'
import { declineOf, TossError } from './toss-errors.ts'

export const shopId = 'simulated'
const card = '카드'

const issuerCodes: Readonly<Record<string, string>> = {
  visa: '4V',
  mastercard: '4M',
  amex: '7A',
  jcb: '4J',
  shinhan: '41',
  kookmin: '11',
}

export type PaymentParts = {
  readonly payment: BookPayment
  readonly orderName: string
  readonly card: TestCard
  /** The reason of each cancel by the reference the book keeps it under. */
  readonly reasons: ReadonlyMap<string, string>
}

/** A payment as Toss tells it. */
export function renderPayment({ payment, orderName, card: tested, reasons }: PaymentParts) {
  const isPaid = payment.status === 'paid'
  const cancels = payment.refunds.map((refund) => ({
    transactionKey: refund.id,
    cancelReason: reasons.get(refund.reference) ?? 'Cancelled.',
    taxExemptionAmount: 0,
    canceledAt: koreanTime(refund.created_at),
    easyPayDiscountAmount: 0,
    receiptKey: null,
    cancelStatus: refund.status === 'succeeded' ? 'DONE' : 'ABORTED',
    cancelRequestId: null,
    cancelAmount: refund.amount,
    taxFreeAmount: 0,
    refundableAmount: payment.amount - refundedUntil(payment, refund.id),
  }))
  const declined = declineOf(payment.decline_code)
  return {
    mId: shopId,
    lastTransactionKey: payment.refunds.at(-1)?.id ?? payment.id,
    paymentKey: payment.id,
    orderId: payment.reference,
    orderName,
    taxExemptionAmount: 0,
    status: statusOf(payment),
    requestedAt: koreanTime(payment.created_at),
    approvedAt: isPaid ? koreanTime(payment.created_at) : null,
    useEscrow: false,
    cultureExpense: false,
    card: {
      ...renderCard(tested),
      installmentPlanMonths: 0,
      isInterestFree: false,
      interestPayer: null,
      approveNo: String(parseInt(digestOf(payment.id).slice(0, 7), 16) % 100_000_000).padStart(8, '0'),
      useCardPoint: false,
      acquireStatus: isPaid && payment.amount === payment.amount_refunded ? 'CANCELED' : 'READY',
      amount: payment.amount,
    },
    virtualAccount: null,
    transfer: null,
    mobilePhone: null,
    giftCertificate: null,
    cashReceipt: null,
    cashReceipts: null,
    discount: null,
    cancels: cancels.length > 0 ? cancels : null,
    secret: `ps_${digestOf(payment.id).slice(0, 24)}`,
    type: 'BILLING',
    easyPay: null,
    country: 'KR',
    failure: isPaid ? null : { code: declined, message: new TossError(declined).message },
    isPartialCancelable: true,
    receipt: { url: `https://dashboard.tosspayments.com/receipt/redirection?transactionId=${payment.id}` },
    checkout: null,
    currency: payment.currency,
    totalAmount: payment.amount,
    balanceAmount: isPaid ? payment.amount - payment.amount_refunded : 0,
    suppliedAmount: payment.amount - Math.floor(payment.amount / 11),
    vat: Math.floor(payment.amount / 11),
    taxFreeAmount: 0,
    method: card,
    version: '2022-11-16',
    metadata: null,
  }
}

/** After a first part went back, giving back the rest leaves `PARTIAL_CANCELED`: only the balance tells. */
function statusOf(payment: BookPayment): string {
  if (payment.status === 'declined') return 'ABORTED'
  if (payment.amount_refunded === 0) return 'DONE'
  const inOneGo = payment.refunds.some(
    ({ status, amount }) => status === 'succeeded' && amount === payment.amount,
  )
  return inOneGo ? 'CANCELED' : 'PARTIAL_CANCELED'
}

function refundedUntil(payment: BookPayment, refundId: string): number {
  const until = payment.refunds.findIndex(({ id }) => id === refundId)
  return payment.refunds
    .slice(0, until + 1)
    .reduce((sum, { status, amount }) => sum + (status === 'succeeded' ? amount : 0), 0)
}

/** The payment as it stood right after one of its refunds: what Toss answered then, and answers again. */
export function asOfRefund(payment: BookPayment, refundId: string): BookPayment {
  const until = payment.refunds.findIndex(({ id }) => id === refundId)
  return {
    ...payment,
    refunds: payment.refunds.slice(0, until + 1),
    amount_refunded: refundedUntil(payment, refundId),
  }
}

/** The last digit stays hidden too. */
function renderCard(tested: TestCard) {
  const code = issuerCodes[tested.brand] ?? '51'
  return {
    issuerCode: code,
    acquirerCode: code,
    number: `43301234****${tested.last4.slice(0, 3)}*`,
    cardType: '신용',
    ownerType: '개인',
  }
}

export function renderBilling(billingKey: string, customerKey: string, tested: TestCard, at: Date) {
  const shown = renderCard(tested)
  return {
    mId: shopId,
    customerKey,
    authenticatedAt: koreanTime(at.toISOString()),
    method: card,
    billingKey,
    card: shown,
    cardCompany: tested.brand,
    cardNumber: shown.number,
  }
}

export function koreanTime(instant: string): string {
  return renderInstant(new Date(instant), 'Asia/Seoul')
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
