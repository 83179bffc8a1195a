import { expect, test } from 'vitest'
import type { Facts } from './facts.ts'
import type { HintForgery } from './history.ts'
import { hintsAreHeeded } from './judge-hints.ts'

const looked = { call: 'lookup', key: 'pay_1', at: 0 } as const

/** One hint about a payment, answered when two calls had reached the provider. */
function judge(lookups: number, row: string | null, forgery: HintForgery | null = null): string[] {
  return hintsAreHeeded({
    deliveries: [
      {
        kind: 'delivery',
        step: 5,
        eventId: 'hint-pay_1',
        reference: 'pay_1',
        type: 'hint',
        forged: forgery !== null,
        hint: { forgery, heardAfter: 2 },
        answer: { status: 200, text: '' },
      },
    ],
    calls: Array.from({ length: lookups }, () => looked),
    payments: [{ id: 'pay_1' }],
    webhooks: row === null ? [] : [{ event_id: 'hint:pay_1', status: row, reference: 'pay_1' }],
    adopted: new Set(),
  } as unknown as Facts)
}

test('a payment is looked up after its hint came, whoever sent that', () => {
  for (const forgery of [null, 'another payment'] as const) {
    expect(judge(3, 'done', forgery)).toEqual([])
    expect(judge(2, 'done', forgery)).toEqual(['#5 about pay_1 was taken, and nobody looked after it came'])
    expect(judge(3, 'failed', forgery)).toEqual(['#5 about pay_1 is failed'])
    expect(judge(3, null, forgery)).toEqual(['#5 about pay_1 is not there'])
  }
})

test('one that names nobody, or has the wrong secret, leaves nothing', () => {
  for (const forgery of ['nobody', 'wrong secret'] as const) {
    expect(judge(2, null, forgery)).toEqual([])
    expect(judge(2, 'done', forgery)).toEqual(['hint:pay_1 was told by nobody'])
  }
})
