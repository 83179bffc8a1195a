import { expect, test } from 'vitest'
import { claimOf, mostTries, retryAfterSeconds } from './webhook.ts'

test.each([
  ['payment.paid', 'paid'],
  ['payment_intent.succeeded', 'paid'],
  ['Transaction.Paid', 'paid'],
  ['payment.declined', 'declined'],
  ['charge.failed', 'declined'],
  ['payment.refunded', 'changed'],
  ['charge.dispute.funds_withdrawn', 'changed'],
  ['refund.failed', 'changed'],
  ['charge.succeeded', 'paid'],
  ['payment_intent.payment_failed', 'declined'],
  ['payment_intent.requires_action', 'changed'],
  ['payment_intent.canceled', 'changed'],
  ['charge.refunded', 'changed'],
  ['charge.dispute.created', 'changed'],
  ['Transaction.Failed', 'declined'],
  ['Transaction.Cancelled', 'changed'],
  ['Transaction.DisputeCreated', 'changed'],
  ['Transaction.DisputeResolved', 'changed'],
  ['CANCEL_STATUS_CHANGED', 'changed'],
  ['BILLING_DELETED', undefined],
  ['setup_intent.succeeded', undefined],
  ['Transaction.PartialCancelled', 'changed'],
  ['PAYMENT_STATUS_CHANGED', 'changed'],
  ['BillingKey.Issued', undefined],
  ['customer.created', undefined],
  ['constructor', undefined],
  ['payment.', undefined],
  ['', undefined],
])('an event of type %s claims %s', (type, claim) => {
  expect(claimOf(type)).toBe(claim)
})

test('waits grow, and a provider that is away for a day does not make an event fail', () => {
  const waits = Array.from({ length: mostTries - 1 }, (_, at) => retryAfterSeconds(at + 1))
  expect(waits).toEqual([...waits].sort((a, b) => a - b))
  expect(waits[0]).toBe(5)
  expect(waits.reduce((sum, wait) => sum + wait, 0)).toBeGreaterThan(86_400)
})
