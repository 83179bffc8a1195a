import type { Language } from '../seller.ts'
import type { Invoice, InvoicePayment, InvoiceRefund } from './invoice.ts'

/** Everything that is printed on an invoice and is the same on all of them. */
export type Words = {
  readonly invoice: string
  readonly number: string
  readonly issued: string
  readonly status: string
  readonly period: string
  readonly paidAt: string
  readonly onHold: string
  readonly from: string
  readonly billTo: string
  readonly account: string
  readonly registration: string
  readonly taxId: string
  readonly description: string
  readonly quantity: string
  readonly amount: string
  readonly total: string
  readonly paid: string
  readonly refunded: string
  readonly owed: string
  readonly paymentsTitle: string
  readonly refundsTitle: string
  readonly when: string
  readonly what: string
  readonly reference: string
  readonly disputed: string
  readonly statuses: Readonly<Record<Invoice['status'], string>>
  readonly payments: Readonly<Record<InvoicePayment['status'], string>>
  readonly refunds: Readonly<Record<InvoiceRefund['status'], string>>
  /** Decline codes and reasons; one that is missing is printed as it is called. */
  readonly codes: Readonly<Record<string, string>>
  foot(timeZone: string, subscriptionId: string): string
}

export const wordsIn: Readonly<Record<Language, Words>> = {
  en: {
    invoice: 'Invoice',
    number: 'Number',
    issued: 'Issued',
    status: 'Status',
    period: 'Period',
    paidAt: 'Paid',
    onHold: 'on hold',
    from: 'From',
    billTo: 'Bill to',
    account: 'Account',
    registration: 'Registration no.',
    taxId: 'Tax ID',
    description: 'Description',
    quantity: 'Quantity',
    amount: 'Amount',
    total: 'Total',
    paid: 'Paid',
    refunded: 'Refunded',
    owed: 'Amount owed',
    paymentsTitle: 'Payments',
    refundsTitle: 'Refunds',
    when: 'When',
    what: 'What',
    reference: 'Reference',
    disputed: 'disputed',
    statuses: {
      open: 'Open',
      paid: 'Paid',
      partially_refunded: 'Partially refunded',
      refunded: 'Refunded',
      uncollectible: 'Uncollectible',
      void: 'Void: nothing is owed',
    },
    payments: { pending: 'in progress', succeeded: 'paid', failed: 'failed' },
    refunds: { pending: 'in progress', succeeded: 'refunded', failed: 'failed' },
    codes: {},
    foot: (timeZone, subscriptionId) => `Times are in ${timeZone}. Subscription ${subscriptionId}.`,
  },
  ko: {
    invoice: '청구서',
    number: '청구서 번호',
    issued: '발행일',
    status: '상태',
    period: '이용 기간',
    paidAt: '결제일시',
    onHold: '보류',
    from: '공급자',
    billTo: '공급받는 자',
    account: '계정',
    registration: '사업자등록번호',
    taxId: '세금 식별번호',
    description: '내역',
    quantity: '수량',
    amount: '금액',
    total: '합계',
    paid: '결제 금액',
    refunded: '환불 금액',
    owed: '미결제 금액',
    paymentsTitle: '결제 내역',
    refundsTitle: '환불 내역',
    when: '일시',
    what: '구분',
    reference: '참조번호',
    disputed: '이의 제기됨',
    statuses: {
      open: '미결제',
      paid: '결제 완료',
      partially_refunded: '부분 환불',
      refunded: '환불 완료',
      uncollectible: '수금 불가',
      void: '무효 (청구 금액 없음)',
    },
    payments: { pending: '처리 중', succeeded: '결제 완료', failed: '실패' },
    refunds: { pending: '처리 중', succeeded: '환불 완료', failed: '실패' },
    codes: {
      insufficient_funds: '잔액 부족',
      expired_card: '카드 유효기간 만료',
      lost_or_stolen: '분실 또는 도난 카드',
      do_not_honor: '카드사 승인 거절',
      limit_exceeded: '한도 초과',
      authentication_required: '본인 인증 필요',
      invalid_card: '유효하지 않은 카드',
      not_supported: '지원하지 않는 카드',
      processing_error: '처리 오류',
      unknown: '알 수 없음',
      duplicate: '중복 결제',
      fraudulent: '부정 거래',
      requested_by_customer: '고객 요청',
      other: '기타',
    },
    foot: (timeZone, subscriptionId) => `시각은 ${timeZone} 기준입니다. 구독 ${subscriptionId}`,
  },
}
