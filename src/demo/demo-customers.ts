/** A made-up customer and what they do in which month of the year. */
export type Customer = {
  readonly accountId: string
  readonly name: string
  readonly timezone: string
  /** Brings a new card when the old one is declined. */
  readonly hasAnotherCard: boolean
  readonly deeds: readonly Deed[]
}

export type Deed = { readonly month: number } & (
  | { readonly kind: 'subscribe'; readonly plan: string; readonly card: string }
  | { readonly kind: 'trial'; readonly plan: string }
  | { readonly kind: 'change_card'; readonly card: string }
  | { readonly kind: 'cancel'; readonly reason?: string }
  | { readonly kind: 'resume' }
  | {
      readonly kind: 'refund'
      readonly percent: number
      readonly reason: 'requested_by_customer' | 'duplicate' | 'other'
    }
)

/** Fifty customers. The n-th always does the same, so that two runs can be compared. */
export function demoCustomers(prefix: string): Customer[] {
  return names.map((name, at) => ({
    accountId: `${prefix}${String(at + 1).padStart(2, '0')}`,
    name,
    timezone: /[가-힣]/.test(name) ? 'Asia/Seoul' : (['America/New_York', 'Europe/Berlin'] as const)[at % 2]!,
    hasAnotherCard: at % 20 >= 10,
    deeds: storyOf(at),
  }))
}

const plans = ['starter-monthly', 'pro-monthly', 'starter-monthly', 'global-monthly', 'pro-yearly'] as const

function storyOf(at: number): Deed[] {
  const plan = plans[at % plans.length]!
  const month = at % 4
  const subscribe = (card: string, when = month): Deed => ({ kind: 'subscribe', plan, card, month: when })
  switch (at % 10) {
    // A trial that becomes a customer, and one that does not.
    case 1:
      return [{ kind: 'trial', plan, month }, subscribe('bk_test_ok')]
    case 2:
      return [{ kind: 'trial', plan, month }]
    // The first card is refused, the second one pays.
    case 3:
      return [
        subscribe(['bk_test_stolen', 'bk_test_insufficient_funds', 'bk_test_expired'][at % 3]!),
        subscribe('bk_test_ok', month + 1),
      ]
    // The card stops working. Those who have another stay, the others are lost.
    case 4:
      return [subscribe('bk_test_fails_on_renewal')]
    case 5:
      return [
        subscribe('bk_test_ok'),
        { kind: 'change_card', card: 'bk_test_fails_on_renewal', month: month + 2 },
      ]
    // Leaves, or nearly.
    case 6:
      return [subscribe('bk_test_ok'), { kind: 'cancel', reason: 'We closed the shop', month: month + 4 }]
    case 7:
      return [
        subscribe('bk_test_ok'),
        { kind: 'cancel', month: month + 3 },
        { kind: 'resume', month: month + 3 },
      ]
    // Gets some or all of it back.
    case 8:
      return [
        subscribe('bk_test_ok'),
        {
          kind: 'refund',
          percent: at % 20 === 8 ? 30 : 100,
          reason: 'requested_by_customer',
          month: month + 1,
        },
      ]
    // A new card, for no reason but that the old one ran out.
    case 9:
      return [subscribe('bk_test_ok'), { kind: 'change_card', card: 'bk_test_ok', month: month + 5 }]
    default:
      return [subscribe('bk_test_ok')]
  }
}

const names = [
  '한빛 분식',
  'Alder & Finch',
  '서울 자전거 공방',
  'Bluebird Ceramics',
  '제주 감귤 농장',
  'Cobalt Outfitters',
  '달빛 서점',
  'Driftwood Kitchen',
  '부산 어묵집',
  'Ember Yoga',
  '전주 한지 공예',
  'Foxglove Florist',
  '강릉 커피 로스터스',
  'Granite Climbing',
  '초록 반찬가게',
  'Harbor Optics',
  '인천 가구 마을',
  'Iris Dental',
  '하늘 요가원',
  'Juniper Toys',
  '대구 안경점',
  'Kestrel Bikes',
  '광주 김치 명가',
  'Lantern Books',
  '수원 통닭 거리',
  'Maple Records',
  '솔내음 캠핑',
  'Northwind Sails',
  '우리동네 꽃집',
  'Opal Jewellers',
  '경주 찰보리빵',
  'Pebble Shoes',
  '여수 밤바다 펜션',
  'Quarry Coffee',
  '청주 도예원',
  'Rowan Pet Supply',
  '춘천 닭갈비',
  'Saltmarsh Tea',
  '안동 찜닭 본가',
  'Tinder & Thyme',
  '속초 오징어순대',
  'Umber Paints',
  '포항 과메기',
  'Verge Gardens',
  '홍대 악기 상가',
  'Willow Baby',
  '울산 고래 빵집',
  'Xylem Furniture',
  '통영 꿀빵',
  'Yarrow Apothecary',
]
