import { expect, test } from 'vitest'
import type { Facts } from './facts.ts'
import type { Entry } from './history.ts'
import { refusalsAreRightful } from './judge-service.ts'

const charged = Date.parse('2026-10-24T00:30:00Z')
const day = 24 * 3_600_000

/** A charge whose outcome is dated by the day it was asked for, and a request of a month later that was told of a doubt. */
function facts(step: number, inDoubt: readonly string[]): Facts {
  const at = charged + 34 * day
  const refused = {
    kind: 'request',
    step,
    at,
    method: 'POST',
    path: '/api/billing/payment-method',
    body: { subscription_id: 'sub_1' },
    answer: { status: 409, text: '{"error":{"code":"payment_in_doubt"}}', replayed: false },
    ended: { step, at },
  } as unknown as Entry
  return {
    requests: [refused],
    payments: [
      {
        id: 'pay_1',
        subscription_id: 'sub_1',
        created_at: new Date(charged),
        settled_at: new Date(charged),
      },
    ],
    restores: [{ kind: 'restore', step: 8, since: 2, inDoubt: new Set(inDoubt) }],
  } as unknown as Facts
}

test('what a restored copy had in doubt was one for whoever asked before the copy was made, and for nobody else', () => {
  expect(refusalsAreRightful(facts(2, ['pay_1']))).toEqual([])
  expect(refusalsAreRightful(facts(2, []))).toHaveLength(1)
  expect(refusalsAreRightful(facts(9, ['pay_1']))).toHaveLength(1)
})
