import { describe, expect, test } from 'vitest'
import type { ProviderPayment } from '../providers/port.ts'
import { type Refundable, refundOnRecord, refundRefusal } from './refund.ts'

describe('a refund is refused', () => {
  const paid: Refundable = {
    invoiceStatus: 'paid',
    captured: 9900n,
    refunded: 0n,
    pending: 0n,
    disputed: false,
    inDoubt: false,
  }
  const cases: [string, Partial<Refundable>, bigint | undefined, string | null][] = [
    ['never, when all of it remains', {}, undefined, null],
    ['never, for the last unit', { refunded: 9899n }, 1n, null],
    ['for one unit more than remains', { refunded: 9000n }, 901n, 'refund_exceeds_remaining'],
    ['when pending refunds have taken the rest', { refunded: 900n, pending: 9000n }, 1n, 'nothing_to_refund'],
    ['when pending refunds leave less', { pending: 9000n }, 901n, 'refund_exceeds_remaining'],
    [
      'when all has gone back',
      { invoiceStatus: 'refunded', refunded: 9900n },
      undefined,
      'nothing_to_refund',
    ],
    ['while the invoice is open', { invoiceStatus: 'open', captured: 0n }, undefined, 'invoice_not_paid'],
    ['for a void invoice', { invoiceStatus: 'void', captured: 0n }, undefined, 'invoice_not_paid'],
    ['while an earlier one is in doubt', { inDoubt: true, pending: 100n }, 1n, 'refund_in_doubt'],
    ['while the bank decides', { disputed: true }, 1n, 'payment_disputed'],
  ]
  test.each(cases)('%s', (_, more, amount, expected) => {
    expect(refundRefusal({ ...paid, ...more }, amount)).toBe(expected)
  })
})

describe('a refund without an answer is read from the provider’s record', () => {
  const krw = (minor: bigint) => ({ minor, currency: 'KRW' as const })
  const record = (refunded: bigint, refunds: ProviderPayment['refunds']): ProviderPayment => ({
    reference: 'pay_1',
    providerId: 'p1',
    status: 'paid',
    declineCode: null,
    rawCode: null,
    nextAction: null,
    amount: krw(9900n),
    refunded: krw(refunded),
    refunds,
    dispute: null,
    card: null,
    at: new Date(0),
  })
  const refund = { reference: 'ref_1', amount: krw(500n) }
  const named = (reference: string | null, status: 'succeeded' | 'pending' | 'failed') => ({
    reference,
    amount: krw(500n),
    status,
  })
  const cases: [string, ProviderPayment, string][] = [
    ['ours is there', record(500n, [named('ref_1', 'succeeded')]), 'done'],
    ['ours is being worked on', record(0n, [named('ref_1', 'pending')]), 'pending'],
    ['ours was turned down', record(0n, [named('ref_1', 'failed')]), 'declined'],
    ['only another’s is there', record(500n, [named('ref_2', 'succeeded')]), 'none'],
    ['nothing is there', record(0n, []), 'none'],
    ['somebody else gave as much back', record(500n, [named(null, 'succeeded')]), 'none'],
  ]
  test.each(cases)('%s', (_, given, kind) => {
    expect(refundOnRecord(given, refund, 0n, { namesRefunds: true }).kind).toBe(kind)
  })

  const nameless: [string, ProviderPayment, string][] = [
    ['the total tells', record(500n, [named(null, 'succeeded')]), 'done'],
    ['a smaller total tells too', record(400n, [named(null, 'succeeded')]), 'none'],
    ['a total alone tells', record(500n, []), 'done'],
  ]
  test.each(nameless)('from a provider without names: %s', (_, given, kind) => {
    expect(refundOnRecord(given, refund, 0n, { namesRefunds: false }).kind).toBe(kind)
  })
})
