import { expect, test } from 'vitest'
import type { Invoice, Payment, Subscription } from './facts.ts'
import { retriesKeepTheirDays } from './judge-calendar.ts'

const failedAt = new Date('2026-12-29T00:31:00Z')
const settled = {
  invoice_id: 'inv_1',
  payment_method_id: 'pm_1',
  code: 'insufficient_funds',
  unmatched: false,
}

function judge(attempts: readonly Partial<Payment>[], adopted: readonly string[] = []): string[] {
  const payments = attempts.map((one) => ({ ...settled, settled_at: one.created_at, ...one }) as Payment)
  const invoice = { id: 'inv_1', subscription_id: 'sub_1', first_failed_at: failedAt }
  return retriesKeepTheirDays({
    payments,
    invoices: [{ ...invoice, attempt_count: attempts.length } as Invoice],
    subscriptions: [{ id: 'sub_1', time_zone: 'UTC' } as Subscription],
    adopted: new Set(adopted),
  })
}

test('the first attempt on an invoice is no retry, though the id of an adopted one of its millisecond stands before it', () => {
  const first = { id: 'pay_t', attempt: 1, created_at: failedAt }
  const second = { id: 'pay_k', attempt: 2, created_at: failedAt }
  const later = { id: 'pay_z', attempt: 3, created_at: new Date('2027-03-03T00:31:00Z') }
  expect(judge([second, first, later], ['pay_k'])).toEqual([])
})

test('a card that was declined for good is not tried again, whatever was tried in between', () => {
  const at = (day: number) => new Date(failedAt.getTime() + day * 86_400_000)
  const first = { id: 'pay_1', attempt: 1, created_at: failedAt, code: 'lost_or_stolen' }
  const offered = { id: 'pay_2', attempt: 2, created_at: at(0.5), payment_method_id: 'pm_2' }
  const again = { id: 'pay_3', attempt: 3, created_at: at(1) }
  expect(judge([first, offered])).toEqual([])
  expect(judge([first, offered, again])).toEqual(['pay_3 tried a card again that is lost_or_stolen'])
  expect(judge([first, { ...again, attempt: 2 }])).toEqual([
    'pay_3 tried a card again that is lost_or_stolen',
  ])
  // The same card, offered anew by its customer, is another payment method.
  expect(judge([first, offered, { ...again, payment_method_id: 'pm_3' }])).toEqual([])
})

test('a retry on the day of the failure comes too soon, wherever its id stands', () => {
  const first = { id: 'pay_t', attempt: 1, created_at: failedAt }
  const retry = { attempt: 2, created_at: new Date('2026-12-29T23:31:00Z') }
  for (const id of ['pay_k', 'pay_z'])
    expect(judge([{ ...retry, id }, first])).toEqual([`${id} came too soon`])
})
