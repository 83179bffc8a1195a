import { describe, expect, test } from 'vitest'
import type { FailureCode } from '../payments/payment.ts'
import {
  afterFailure,
  allowedActions,
  cancelVerdict,
  hasAccess,
  type SubscriptionStatus,
  statusAfterPaid,
  subscriptionStatuses,
} from './subscription.ts'

const at = (text: string) => new Date(`2026-${text}:00.000Z`)

describe('a wish to cancel', () => {
  const cases: [string, SubscriptionStatus, string, string][] = [
    ['ends an active one just before its next billing date', 'active', '03-20T00:00', 'later 04-05T08:59'],
    ['ends a trial just before it would be charged', 'trialing', '03-20T00:00', 'later 04-05T08:59'],
    ['acts at once when less than the lead is left', 'active', '04-05T08:59', 'at_once'],
    ['acts at once when the renewal is late', 'active', '04-06T00:00', 'at_once'],
    ['ends at once what is not paid for', 'past_due', '03-20T00:00', 'at_once'],
    ['ends at once what has not begun', 'incomplete', '03-20T00:00', 'at_once'],
    ['changes nothing when repeated', 'canceling', '03-20T00:00', 'unchanged'],
    ['is refused after the end', 'canceled', '03-20T00:00', 'refused'],
  ]
  test.each(cases)('%s', (_, status, now, expected) => {
    const nextBillingAt = status === 'canceled' ? null : at('04-05T09:00')
    const verdict = cancelVerdict({ status, nextBillingAt }, at(now), 60)
    const text =
      verdict.kind === 'later' ? `later ${verdict.cancelAt.toISOString().slice(5, 16)}` : verdict.kind
    expect(text).toBe(expected)
  })
})

describe('a failed attempt', () => {
  const failure = {
    begins: false,
    timeZone: 'UTC',
    ownMethod: true,
    firstFailedAt: at('03-05T09:00'),
    dunning: 'retry' as 'retry' | 'give_up' | null,
    dueBefore: null as Date | null,
  }
  const cases: [string, SubscriptionStatus, FailureCode, Partial<typeof failure>, string, string][] = [
    [
      'ends what had not begun',
      'incomplete',
      'insufficient_funds',
      { begins: true },
      '03-05T09:00',
      'payment_declined void',
    ],
    [
      'that never arrived ends it as the provider’s fault',
      'incomplete',
      'never_arrived',
      { begins: true },
      '03-06T10:00',
      'provider_error void',
    ],
    [
      'ends what was canceled before it began',
      'canceling',
      'insufficient_funds',
      { begins: true },
      '03-05T09:00',
      'payment_declined void',
    ],
    ['starts dunning', 'active', 'insufficient_funds', { dunning: null }, '03-05T09:00', 'retry 06'],
    [
      'at the end of a trial starts dunning too',
      'trialing',
      'do_not_honor',
      { dunning: null },
      '03-05T09:00',
      'retry 06',
    ],
    [
      'with a stolen card stops the retries',
      'active',
      'lost_or_stolen',
      { dunning: null },
      '03-05T09:00',
      'give_up 12',
    ],
    [
      'with a revoked key stops the retries',
      'past_due',
      'billing_key_invalid',
      {},
      '03-06T09:00',
      'give_up 12',
    ],
    [
      'with an offered card changes no schedule',
      'past_due',
      'lost_or_stolen',
      { ownMethod: false },
      '03-05T12:00',
      'retry 06',
    ],
    [
      'with an offered card revives no retries',
      'past_due',
      'do_not_honor',
      { ownMethod: false, dunning: 'give_up' },
      '03-05T12:00',
      'give_up 12',
    ],
    [
      'with an offered card leaves the retry due that fell due meanwhile, whatever the day',
      'past_due',
      'do_not_honor',
      { ownMethod: false, dueBefore: at('03-12T09:00') },
      '03-25T12:00',
      'retry 12',
    ],
    [
      'of its own card takes no day back',
      'past_due',
      'do_not_honor',
      { dueBefore: at('03-06T09:00') },
      '03-06T09:00',
      'retry 08',
    ],
    [
      'on the last dunning day ends it',
      'past_due',
      'insufficient_funds',
      {},
      '03-12T09:00',
      'payment_failed uncollectible',
    ],
    [
      'of a period that was the last anyway ends it',
      'canceling',
      'insufficient_funds',
      {},
      '03-05T09:00',
      'payment_failed uncollectible',
    ],
  ]
  test.each(cases)('%s', (_, status, code, more, now, expected) => {
    const verdict = afterFailure({ ...failure, ...more, status, code }, at(now), [1, 3, 5, 7])
    const text =
      verdict.kind === 'ends'
        ? `${verdict.cancelCode} ${verdict.invoice}`
        : `${verdict.step.how} ${verdict.step.at.toISOString().slice(8, 10)}`
    expect(text).toBe(expected)
  })
})

test('a paid invoice brings a past due subscription back, unless it owes more', () => {
  expect(statusAfterPaid('past_due', false)).toBe('active')
  expect(statusAfterPaid('past_due', true)).toBe('past_due')
  expect(statusAfterPaid('incomplete', false)).toBe('active')
  expect(statusAfterPaid('canceling', false)).toBe('canceling')
  expect(statusAfterPaid('canceled', false)).toBe('canceled')
})

test('every status says what may be asked and who has access', () => {
  const table = subscriptionStatuses.map((status) => [
    status,
    hasAccess(status),
    allowedActions(status).join(' '),
  ])
  expect(table).toEqual([
    ['incomplete', false, 'cancel'],
    ['trialing', true, 'cancel change_payment_method'],
    ['active', true, 'cancel change_payment_method'],
    ['past_due', true, 'cancel change_payment_method'],
    ['canceling', true, 'resume change_payment_method'],
    ['canceled', false, ''],
  ])
})
