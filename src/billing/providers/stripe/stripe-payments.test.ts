import type Stripe from 'stripe'
import { expect, test } from 'vitest'
import { paymentOf } from './stripe-payments.ts'

const intentOf = (charge: object) =>
  ({
    id: 'pi_1',
    status: 'succeeded',
    amount: 9900,
    amount_received: 9900,
    currency: 'krw',
    created: 1,
    livemode: false,
    metadata: {},
    latest_charge: { amount_refunded: 0, currency: 'krw', ...charge },
  }) as unknown as Stripe.PaymentIntent
const disputeOf = (more: object) =>
  ({ status: 'lost', amount: 100, currency: 'krw', created: 1, ...more }) as unknown as Stripe.Dispute

test('what went back in another currency is told in that one, for whoever compares', () => {
  const refunds = { data: [{ amount: 500, currency: 'usd', status: 'succeeded' }] }
  expect(paymentOf(intentOf({ amount_refunded: 500, currency: 'usd', refunds }), [])).toMatchObject({
    amount: { minor: 9900n, currency: 'KRW' },
    refunded: { minor: 500n, currency: 'USD' },
    refunds: [{ amount: { minor: 500n, currency: 'USD' } }],
  })
})

test('a dispute in another currency is told alone, and never added up with others', () => {
  const foreign = disputeOf({ currency: 'usd', amount: 700 })
  for (const disputes of [
    [foreign],
    [disputeOf({ created: 2 }), foreign],
    [disputeOf({ status: 'needs_response' }), foreign],
  ])
    expect(paymentOf(intentOf({}), disputes)?.dispute).toMatchObject({
      status: 'lost',
      amount: { minor: 700n, currency: 'USD' },
    })
  // An inquiry takes nothing, in whatever currency.
  const inquiry = disputeOf({ currency: 'usd', status: 'warning_needs_response' })
  expect(paymentOf(intentOf({}), [disputeOf({}), inquiry])?.dispute).toMatchObject({
    amount: { minor: 100n },
  })
})

test('a record with a dispute in a currency that nobody knows cannot be read', () => {
  expect(paymentOf(intentOf({}), [disputeOf({ currency: 'xxq' })])).toBeUndefined()
})
