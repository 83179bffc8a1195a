import { setTimeout as sleep } from 'node:timers/promises'
import { simulateRanks } from '../../src/demo/demo-batch.ts'
import { addDays } from '../../src/platform/time.ts'
import type { Asker } from './asker.ts'
import type { Kept, Recorded } from './former-release.ts'

export const workspace_id = 'shop'
export const names = Array.from(
  { length: 24 },
  (_, at) => `${['겨울', '여름', 'red', 'blue'][at % 4]} 운동화 ${at}`,
)

/** A business and its customers in the service's first two months, from its API alone. Gives back requests that can be repeated. */
export async function liveTwoMonths(ask: Asker, token: string): Promise<Recorded['kept']> {
  await installation(ask, token)
  await keywords(ask)
  await customersCome(ask)
  await ask.advance('P20D')
  await ask.post('/api/billing/cancel', { subscription_id: await ask.subscriptionOf('leaves') })
  await ranksAndModels(ask)
  await ask.advance('P13D')
  await customersGo(ask)
  const answered = await ask.subscribe('nearly_left', 'bk_test_ok', 'first-of-nearly-left')
  await nearlyLeaves(ask)
  // What was predicted before is held against what came.
  await postRanks(ask, 13)
  await ask.run('predict')
  await webhooksSettle(ask)
  const unanswered = await providerFallsSilent(ask)
  return { answered, unanswered }
}

async function installation(ask: Asker, token: string): Promise<void> {
  const scopes = ['batch:read', 'billing:read']
  const made = { scopes, workspace: 'shop', account: '*' }
  await ask.post('/api/tokens', { name: 'reader', ...made })
  const { data } = await ask.post('/api/tokens', { name: 'given up', ...made })
  await ask.delete(`/api/tokens/${data['token_id']}`)
  await ask.post('/api/session', { token })
  await ask.put('/api/billing/plans/team-monthly', {
    name: 'Team',
    amount: 49000,
    currency: 'KRW',
    interval: 'month',
    interval_count: 1,
    trial_days: 7,
    active: true,
  })
}

async function customersCome(ask: Asker): Promise<void> {
  for (const account of [
    'stays',
    'part_back',
    'all_back',
    'leaves',
    'gone',
    'disputes',
    'new_card',
    'in_doubt',
  ])
    await ask.subscribe(account, 'bk_test_ok')
  await ask.subscribe('pays_no_more', 'bk_test_fails_on_renewal')
  await ask.subscribe('gets_nothing_back', 'bk_test_refund_fails')
  await ask.subscribe('never_paid', 'bk_test_stolen')
}

async function customersGo(ask: Asker): Promise<void> {
  await ask.post('/api/billing/cancel', {
    subscription_id: await ask.subscriptionOf('gone'),
    reason: 'moved',
  })
  await ask.post('/api/billing/payment-method', {
    subscription_id: await ask.subscriptionOf('new_card'),
    payment_method: { billing_key: 'bk_test_slow' },
  })
  const refund = async (account: string, wish: object) =>
    ask.post('/api/billing/refund', { invoice_id: await ask.invoiceOf(account), ...wish })
  await refund('part_back', { amount: 1900, reason: 'requested_by_customer', note: 'a week too late' })
  await refund('part_back', { amount: 100 })
  await refund('all_back', {})
  await refund('gets_nothing_back', {})
  const disputed = (await ask.invoicesOf('disputes'))[0]!['payments'] as { reference: string }[]
  await ask.post('/api/sandbox/provider/disputes', { reference: disputed[0]!.reference, status: 'open' })
  await ask.post('/api/billing/trial', { account_id: 'tries', plan_id: 'starter-monthly' })
  await ask.post('/api/billing/trial', { account_id: 'tries_and_stays', plan_id: 'team-monthly' })
  await ask.subscribe('tries_and_stays', 'bk_test_ok')
  await ask.post('/api/billing/setup', { account_id: 'stays' })
  await ask.delete('/api/billing/accounts/leaves')
  await ask.post('/api/billing/reconciliations', { from: '2020-01-01T00:00:00Z', to: '2040-01-01T00:00:00Z' })
}

async function nearlyLeaves(ask: Asker): Promise<void> {
  const subscription_id = await ask.subscriptionOf('nearly_left')
  await ask.post('/api/billing/cancel', { subscription_id, reason: 'too dear' })
  await ask.post('/api/billing/resume', { subscription_id })
}

async function keywords(ask: Asker): Promise<void> {
  await ask.post('/api/batch/keywords', { workspace_id, keywords: [...names, 'given up'] })
  await ask.deleteWith('/api/batch/keywords', { workspace_id, keywords: ['given up'] })
  await ask.put('/api/batch/trackers/daily', {
    workspace_id,
    site: 'shop.example.com',
    match: 'host',
    engine: 'google',
    device: 'desktop',
    location: 'KR',
    depth: 20,
    source: 'serpapi',
    every: 'day',
    keywords: names.slice(0, 3),
  })
}

async function ranksAndModels(ask: Asker): Promise<void> {
  await postRanks(ask, 75)
  await ask.post('/api/batch/volumes', {
    observations: names.slice(0, 5).flatMap((keyword, at) => [
      { keyword, source: 'naver', kind: 'month', day: '2026-08-01', volume: 1000 + at },
      { keyword, source: 'naver', kind: 'month', day: '2026-09-01', volume_max: 9 },
      { keyword, source: 'naver', kind: 'rolling_30d', day: '2026-10-31', volume: 900 + at },
      { keyword, source: 'naver', kind: 'day', day: '2026-10-05', volume: 30, pc: 10, mobile: 20 },
    ]),
  })
  for (const task of ['aggregate_volumes', 'train_classifier', 'predict']) await ask.run(task)
}

async function postRanks(ask: Asker, days: number): Promise<void> {
  const today = String((await ask.get('/api/sandbox/clock')).data['now']).slice(0, 10)
  const ranks = simulateRanks(names, { days, lastDay: addDays(today, -1), seed: 2 })
  for (let at = 0; at < ranks.length; at += 1000)
    await ask.post('/api/batch/ranks', { workspace_id, observations: ranks.slice(at, at + 1000) })
}

async function webhooksSettle(ask: Asker): Promise<void> {
  const isOpen = ({ settled_at }: Record<string, unknown>) => settled_at === null
  while ((await ask.list('/api/billing/webhooks', 'webhooks')).some(isOpen)) await sleep(300)
}

/** A charge and a refund whose answers never came, and which nobody can look up yet. */
async function providerFallsSilent(ask: Asker): Promise<Kept> {
  await ask.post('/api/sandbox/provider/faults', {
    timeout_after_rate: 1,
    lookup_error_rate: 1,
    webhook_drop_rate: 1,
  })
  await ask.post('/api/billing/refund', { invoice_id: await ask.invoiceOf('in_doubt'), amount: 500 })
  return ask.subscribe('unsure', 'bk_test_ok', 'first-of-unsure')
}

/** What anybody may read of it, page by page; the next release must tell the same. */
export async function readAll(ask: Asker): Promise<Recorded['answers']> {
  const subscriptions = await ask.list('/api/billing/subscriptions', 'subscriptions')
  const invoices = await ask.list('/api/billing/invoices', 'invoices')
  const refunds = invoices.flatMap((one) => one['refunds'] as { refund_id: string }[])
  const keyword = encodeURIComponent(names[0]!)
  const runs = await ask.list('/api/batch/runs', 'runs')
  const models = await ask.list('/api/batch/models', 'models')
  const accounts = await ask.list('/api/billing/accounts', 'accounts')
  const paths = [
    ...subscriptions.map((one) => `/api/billing/subscriptions/${one['subscription_id']}`),
    ...subscriptions.map((one) => `/api/billing/subscriptions/${one['subscription_id']}/timeline`),
    ...invoices.map((one) => `/api/billing/invoices/${one['invoice_id']}`),
    ...refunds.map((one) => `/api/billing/refunds/${one.refund_id}`),
    ...accounts.map((one) => `/api/billing/accounts/${one['account_id']}`),
    '/api/billing/subscriptions?limit=100',
    '/api/billing/invoices?limit=100',
    '/api/billing/accounts?limit=100',
    '/api/billing/plans?limit=100',
    '/api/billing/events?limit=100',
    '/api/billing/webhooks?limit=100',
    '/api/billing/reconciliations?limit=100',
    `/api/batch/keywords?workspace_id=${workspace_id}&limit=100`,
    `/api/batch/ranks/${keyword}?workspace_id=${workspace_id}`,
    `/api/batch/volumes/${keyword}`,
    `/api/batch/predictions/${keyword}?workspace_id=${workspace_id}`,
    `/api/batch/predictions/${keyword}/history?workspace_id=${workspace_id}`,
    `/api/batch/trackers/daily?workspace_id=${workspace_id}`,
    `/api/batch/movements?workspace_id=${workspace_id}&limit=100`,
    ...runs.slice(0, 10).map((one) => `/api/batch/runs/${one['run_id']}`),
    ...models.map((one) => `/api/batch/models/${one['model_id']}`),
  ]
  const answers: Recorded['answers'] = {}
  for (const path of new Set(paths)) answers[path] = (await ask.get(path)).data
  return answers
}
