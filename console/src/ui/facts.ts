import { useLanguage } from './language.tsx'

/** What happened to a subscription, or comes next: English, Korean. What somebody asked for begins with `asked`. */
const facts: Record<string, readonly [string, string]> = {
  'subscription.created': ['Subscription created', '구독 생성'],
  'subscription.trial_started': ['Trial started', '체험 시작'],
  'subscription.activated': ['Subscription active', '구독 활성화'],
  'subscription.past_due': ['Past due', '연체'],
  'subscription.recovered': ['Paid after all', '연체 해소'],
  'subscription.canceling': ['Ends at its next date', '해지 예약'],
  'subscription.resumed': ['Goes on', '해지 취소'],
  'subscription.canceled': ['Subscription ends', '구독 종료'],
  'payment_method.changed': ['Payment method changed', '결제 수단 변경'],
  'payment_method.dropped': ['Payment method dropped', '결제 수단 삭제'],
  'invoice.paid': ['Invoice paid', '청구서 결제'],
  'invoice.held': ['Invoice held', '청구서 보류'],
  'invoice.voided': ['Invoice void', '청구서 무효'],
  'invoice.uncollectible': ['Invoice given up', '청구서 회수 포기'],
  'payment.failed': ['Payment failed', '결제 실패'],
  'payment.unknown': ['Payment without a clear answer', '결제 결과 확인 중'],
  'payment.action_required': ['The customer must confirm', '고객 확인 필요'],
  'payment.found_later': ['Payment found later', '결제 뒤늦게 확인'],
  'payment.disputed': ['Payment disputed', '결제 이의 제기'],
  'payment.dispute_won': ['Dispute won', '이의 제기 승소'],
  'payment.dispute_lost': ['Dispute lost', '이의 제기 패소'],
  'payment.settled_by_hand': ['Payment settled by hand', '결제 수동 정산'],
  'refund.requested': ['Refund requested', '환불 요청'],
  'refund.succeeded': ['Refunded', '환불 완료'],
  'refund.failed': ['Refund failed', '환불 실패'],
  'refund.reversed': ['Refund came back', '환불 반송'],
  'account.erased': ['Account erased', '계정 삭제'],
  'renewal.charge': ['Renewal charge', '갱신 결제'],
  'retry.charge': ['Charge is tried again', '결제 재시도'],
  'payment.send': ['Charge is sent', '결제 요청 전송'],
  'payment.lookup': ['The provider is asked what became of the charge', '결제 결과 조회'],
  'payment.action_expires': ['Time to confirm ends', '고객 확인 기한 종료'],
  'refund.send': ['Refund is sent', '환불 요청 전송'],
  'refund.lookup': ['The provider is asked what became of the refund', '환불 결과 조회'],
  'payment_method.lookup': ['The provider is asked about the offered card', '제시된 카드 확인'],
  'trial_end.charge': ['First charge after the trial', '체험 종료 후 첫 결제'],
  'asked.subscription.subscribe': ['Asked to subscribe', '구독 요청'],
  'asked.subscription.cancel': ['Asked to cancel', '해지 요청'],
  'asked.subscription.resume': ['Asked to go on', '해지 취소 요청'],
  'asked.subscription.change_payment_method': ['Asked to change the payment method', '결제 수단 변경 요청'],
}

export function useFactName(): (what: string) => string {
  const { language } = useLanguage()
  return (what) => facts[what]?.[language === 'ko' ? 1 : 0] ?? inWords(what)
}

function inWords(what: string): string {
  const text = what.replaceAll(/[._]/g, ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}
