import { afterAll, beforeAll, expect, test } from 'vitest'
import { readDayTotals } from '../../src/billing/ledger/day-total-rows.ts'
import { rollUpDays } from '../../src/billing/summary/roll-up-days.ts'
import { daysOf, monthlyRevenue, openSummaries } from '../../src/billing/summary/summarise.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00+09:00', environment: { TZ_DEFAULT: 'Asia/Seoul' } })
  const subscribe = (account_id: string, plan_id: string, key = 'bk_test_ok') =>
    world.post('/api/billing/subscribe', { account_id, plan_id, payment_method: { billing_key: key } })
  await subscribe('acct_1', 'pro-monthly')
  await subscribe('acct_2', 'pro-yearly')
  await subscribe('acct_3', 'global-monthly')
  await subscribe('acct_4', 'starter-monthly', 'bk_test_fails_on_renewal')
  await subscribe('acct_5', 'starter-monthly', 'bk_test_stolen')
  await world.post('/api/billing/trial', { account_id: 'acct_6', plan_id: 'pro-monthly' })
  await world.advanceTo('2026-04-05T10:00:00+09:00')
  const { body } = await world.get('/api/billing/invoices?account_id=acct_1&limit=1')
  await world.post('/api/billing/refund', { invoice_id: body.data.invoices[0].invoice_id, amount: 9000 })
})
afterAll(() => world.close())

const summary = async (query = '', token?: string) =>
  (await world.get(`/api/billing/summary${query}`, token === undefined ? {} : { token })).body.data

test('the summary tells states, revenue and refunds by day, what fails and what falls due', async () => {
  const all = await summary('?from=2026-03-01T00:00:00%2B09:00&to=2026-04-30T00:00:00%2B09:00')
  expect(all.subscriptions).toEqual({
    incomplete: 0,
    trialing: 0,
    active: 3,
    past_due: 1,
    canceling: 0,
    canceled: 2,
  })
  expect(all.days).toEqual([
    { day: '2026-03-05', currency: 'KRW', paid: 29000 + 290000 + 9900, refunded: 0 },
    { day: '2026-03-05', currency: 'USD', paid: 1900, refunded: 0 },
    { day: '2026-04-05', currency: 'KRW', paid: 29000, refunded: 9000 },
    { day: '2026-04-05', currency: 'USD', paid: 1900, refunded: 0 },
  ])
  expect(all.failing).toEqual([{ code: 'insufficient_funds', currency: 'KRW', invoices: 1, amount: 9900 }])
  expect(all.monthly_revenue).toEqual([
    { currency: 'KRW', amount: 29000 + Math.floor(290000 / 12) + 9900 },
    { currency: 'USD', amount: 1900 },
  ])
  expect(all.churn).toEqual({ days: 30, ended: 0, live: 4, rate: 0 })
  expect(all.upcoming.reduce((sum: number, { charges }: { charges: number }) => sum + charges, 0)).toBe(2)
})

test('days that are added up once tell the same as the ledger', async () => {
  const { db, terms } = world.app.billing
  const read = () => readDayTotals(db, terms.timeZone, '2026-03-01', '2026-05-01')
  const before = await read()
  await rollUpDays(world.app.billing)
  await rollUpDays(world.app.billing)
  expect(await world.query('select until::text from billing.day_total_until')).toEqual([
    { until: '2026-04-05' },
  ])
  expect(await read()).toEqual(before)
})

test('a token of one account sees that account alone', async () => {
  const token = await world.makeToken({ scopes: ['billing:read'], workspace: null, account: 'acct_1' })
  const own = await summary('?from=2026-03-01T00:00:00%2B09:00', token)
  expect(own.subscriptions.active).toBe(1)
  expect(own.days).toEqual([
    { day: '2026-03-05', currency: 'KRW', paid: 29000, refunded: 0 },
    { day: '2026-04-05', currency: 'KRW', paid: 29000, refunded: 9000 },
  ])
  expect(own.webhooks).toBeNull()
  expect((await world.get('/api/billing/summary?account_id=acct_2', { token })).status).toBe(403)
})

test('a span without end or order is refused', async () => {
  for (const query of [
    '?from=2020-01-01T00:00:00Z',
    '?from=2026-05-01T00:00:00Z&to=2026-04-01T00:00:00Z',
    '?from=yesterday',
  ])
    expect((await world.get(`/api/billing/summary${query}`)).body.error.code).toBe('validation_failed')
})

test('weekly and daily terms come to what a month of them comes to', () => {
  const terms = { status: 'active', currency: 'KRW', every: 1, count: 1, amount: 1200n, lost: 0 } as const
  expect(monthlyRevenue([{ ...terms, unit: 'day' }])[0]!.amount).toBe(36500n)
  expect(monthlyRevenue([{ ...terms, unit: 'week' }])[0]!.amount).toBe(5214n)
  expect(monthlyRevenue([{ ...terms, unit: 'year', every: 2 }])[0]!.amount).toBe(50n)
})

test('the books are compared on request, once at a time, and the report stays', async () => {
  const span = { from: '2026-03-01T00:00:00+09:00', to: '2026-05-01T00:00:00+09:00' }
  const begun = await world.post('/api/billing/reconciliations', span)
  expect(begun.status).toBe(202)
  const report = async () => (await world.get('/api/billing/reconciliations')).body.data.reconciliations
  await expect.poll(async () => (await report())[0].status).toBe('done')
  expect(await report()).toMatchObject([{ differences: 0, repaired: 0, compared: expect.any(Number) }])
  await world.query(`insert into billing.reconciliation (from_at, to_at, status, actor, started_at, leased_until)
                     values (now(), now(), 'running', 'x', now(), now() + interval '1 minute')`)
  expect((await world.post('/api/billing/reconciliations', span)).body.error.code).toBe(
    'reconciliation_running',
  )
  await world.query(
    `update billing.reconciliation set leased_until = now() - interval '1 minute' where status = 'running'`,
  )
  const both = await Promise.all([1, 2].map(() => world.post('/api/billing/reconciliations', span)))
  expect(both.map(({ status }) => status).sort()).toEqual([202, 409])
  await expect.poll(async () => (await report())[0].status).toBe('done')
  expect(await report()).toMatchObject([
    { status: 'done', reason: null },
    { status: 'failed', reason: expect.stringContaining('Compare again') },
    { status: 'done', reason: null },
  ])
})

test('accounts are listed by how their ids begin, each to its own tenant', async () => {
  const ids = async (query: string, token?: string) =>
    (
      await world.get(`/api/billing/accounts${query}`, token === undefined ? {} : { token })
    ).body.data.accounts.map(({ account_id }: { account_id: string }) => account_id)
  expect(await ids('?limit=2')).toEqual(['acct_1', 'acct_2'])
  expect(await ids('?q=acct_3')).toEqual(['acct_3'])
  expect(await ids('?q=acctx')).toEqual([])
  const token = await world.makeToken({ scopes: ['billing:read'], workspace: null, account: 'acct_2' })
  expect(await ids('', token)).toEqual(['acct_2'])
})

test('where a summary is slow, the last one is shown while the next is made, and none that is too old', async () => {
  const { billing } = world.app
  const days = daysOf(billing, undefined, undefined)!
  const active = (one: { terms: readonly { status: string; count: number }[] }) =>
    one.terms.filter(({ status }) => status === 'active').reduce((sum, { count }) => sum + count, 0)
  const slow = openSummaries(billing, { believedForMs: 0, slowMs: 0, oldestShownMs: 60_000 })
  const before = await slow(undefined, days)
  const impatient = openSummaries(billing, { believedForMs: 0, slowMs: 0, oldestShownMs: 0 })
  expect(active(await impatient(undefined, days))).toBe(active(before))
  await world.post('/api/billing/subscribe', {
    account_id: 'acct_later',
    plan_id: 'pro-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })
  expect((await slow(undefined, days)).asOf).toEqual(before.asOf)
  await expect.poll(async () => active(await slow(undefined, days))).toBe(active(before) + 1)
  expect(active(await impatient(undefined, days))).toBe(active(before) + 1)
})

test('what a summary counted may be a moment old and says so; whether charging is stopped is of now', async () => {
  const { billing } = world.app
  const days = daysOf(billing, undefined, undefined)!
  const summaries = openSummaries(
    { ...billing, terms: { ...billing.terms, sandbox: false } },
    { believedForMs: 60_000, slowMs: 0, oldestShownMs: 60_000 },
  )
  const before = await summaries(undefined, days)
  expect(before.installation?.chargingStopped).toBe(false)
  await world.query(
    `insert into billing.charging_stop (provider, cause, stopped_at) values ('sandbox', 'operator', $1)`,
    [billing.clock()],
  )
  const after = await summaries(undefined, days)
  await world.query('delete from billing.charging_stop')
  expect(after.asOf).toEqual(before.asOf)
  expect(after.installation?.chargingStopped).toBe(true)
})
