import { expect, test } from 'vitest'
import type { Facts } from './facts.ts'
import { repeatsAgree } from './judge-answers.ts'

const trial = { subscription_id: 'sub_1', trial_ends_at: '2026-12-14', next_billing_at: '2026-12-14' }
const refused = '{"error":{"code":"subscription_exists"}}'

/** A card offered to a subscription: a promise that shows it so, and what the same key was told at last. */
function offered(shown: object): Facts {
  const request = (step: number, status: number, text: string) => ({
    step,
    at: step,
    method: 'POST',
    path: '/api/billing/subscribe',
    key: 'key-1',
    body: { account_id: 'acct_1' },
    answer: { status, text, replayed: true },
    ended: { step, at: step },
  })
  const requests = [request(1, 202, JSON.stringify({ data: shown })), request(2, 409, refused)]
  return {
    requests,
    allRequests: requests,
    subscriptions: [],
    invoices: [],
    keptAnswers: [{ scope: 'POST /api/billing/subscribe', status: 409, text: refused, erased: false }],
    now: 3,
  } as unknown as Facts
}

test('an offer to a trial may be turned down after a promise, also where the trial is being cancelled', () => {
  expect(repeatsAgree(offered({ ...trial, status: 'trialing' }))).toEqual([])
  expect(repeatsAgree(offered({ ...trial, status: 'canceling' }))).toEqual([])
})

test('whoever was promised a subscription of their own is not told that there is another', () => {
  for (const status of ['incomplete', 'active', 'canceling']) {
    const shown = { ...trial, trial_ends_at: null, status }
    expect(repeatsAgree(offered(shown))).toEqual(['/api/billing/subscribe key-1: #2 began anew after #1'])
  }
})
