import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BillingApp } from '../../src/billing/app.ts'
import { listDueTurns } from '../../src/billing/due.ts'
import { listInvoices } from '../../src/billing/invoices/invoice-rows.ts'
import { leaseAttempts } from '../../src/billing/payments/payment-rows.ts'
import { seedPlans } from '../../src/billing/plans/seed-plans.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { takeDueRefunds } from '../../src/billing/refunds/refund-turn-rows.ts'
import { listUpcoming } from '../../src/billing/subscriptions/list-upcoming.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { lowestId } from '../../src/platform/id.ts'
import { openPatientPool } from '../patience.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { billingOn, onlyProvider } from './scripted-billing.ts'
import { scriptedProvider } from './scripted-provider.ts'

let url: string
let pool: pg.Pool
let app: BillingApp

const now = new Date('2026-11-15T09:00:00+09:00')
const stored = 12_000
const day = (n: number) => new Date(now.getTime() - (stored - n) * 3_600_000)

beforeAll(async () => {
  url = await createDatabase()
  // One connection, so that what it read is all that was read.
  pool = openPatientPool(url, 1, 'bounded reads')
  const clock: Clock = Object.assign(() => now, { sync: async () => {}, moveTo: async () => {} })
  // It can list by change, so that nothing older has to be read again.
  const listChanges = async () => ({ kind: 'page', payments: [], next: null }) as const
  app = billingOn(pool, clock, { ...scriptedProvider().provider, listChanges })
  await seedPlans(app)
  await store()
})
afterAll(async () => {
  await pool.end()
  await dropDatabase(url)
})

/** An invoice an hour, each of its own account, all paid but for a few old ones; and as many subscriptions past due. */
async function store(): Promise<void> {
  const numbers = Array.from({ length: stored }, (_, n) => n)
  const id = (prefix: 'inv_' | 'pay_' | 'sub_', n: number) =>
    `${lowestId(prefix, day(n))}${String(n).padStart(16, '0')}`
  const values = [
    numbers.map((n) => id('sub_', n)),
    numbers.map((n) => id('inv_', n)),
    numbers.map((n) => id('pay_', n)),
    numbers.map(day),
    numbers.map((n) =>
      n < 60 ? ['open', 'void', 'uncollectible', 'refunded', 'partially_refunded'][n % 5] : 'paid',
    ),
  ]
  const given =
    'unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[]) g (sub, inv, pay, at, status)'
  await pool.query(
    `insert into billing.account (id, time_zone, created_at) select sub, 'UTC', at from ${given}`,
    values,
  )
  await pool.query(
    `insert into billing.subscription (id, account_id, plan_id, description, amount, currency, interval_unit, interval_count,
       time_zone, status, anchor, last_k, next_billing_at, period_start, period_end, payment_method_id, created_at)
     select sub, sub, 'starter-monthly', 'x', 9900, 'KRW', 'month', 1, 'UTC', 'past_due', at, 0, at + interval '1 month', at,
       at + interval '1 month', 'pm', at from ${given}`,
    values,
  )
  await pool.query(
    `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start,
       period_end, issued_at, status, dunning, due_at)
     select inv, sub, sub, 1, 'x', 9900, 'KRW', at, at + interval '1 month', at, status, case when status = 'open' then 'retry' end,
       case when status = 'open' then at end from ${given}`,
    values,
  )
  await pool.query(
    `insert into billing.payment (id, provider_reference, attempt, invoice_id, subscription_id, account_id, payment_method_id, provider,
       amount, currency, status, created_at, settled_at)
     select pay, pay, 1, inv, sub, sub, 'pm', 'scripted', 9900, 'KRW', 'succeeded', at, at from ${given}`,
    values,
  )
  // And as many retries to come.
  await pool.query(
    `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start,
       period_end, issued_at, status, dunning, due_at)
     select inv || 'r', sub, sub, 2, 'x', 9900, 'KRW', at, at + interval '1 month', at, 'open', 'retry',
       at + interval '3 years' from ${given}`,
    values,
  )
  await pool.query('vacuum analyze')
}

/** How many rows of billing's tables a work reads, by whatever way. */
async function rowsRead(work: () => Promise<unknown>): Promise<number> {
  const read = async () => {
    await pool.query('select pg_stat_force_next_flush()')
    await pool.query('select pg_stat_clear_snapshot()')
    const { rows } = await pool.query<{ n: string }>(
      `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::text as n from pg_stat_user_tables
       where schemaname = 'billing' and relname in ('invoice', 'payment', 'subscription', 'refund')`,
    )
    return Number(rows[0]!.n)
  }
  const before = await read()
  await work()
  return (await read()) - before
}

test.each(['open', 'paid', 'void', 'uncollectible', 'refunded', 'partially_refunded'] as const)(
  'a page of invoices that are %s reads about a page, the first and the next',
  async (status) => {
    const first = await listInvoices(app.db, { status }, { limit: 5 })
    expect(first.items.map((invoice) => invoice.status)).toEqual(Array(5).fill(status))
    const page = { limit: 5, cursor: first.nextCursor! }
    expect(await rowsRead(() => listInvoices(app.db, { status }, { limit: 5 }))).toBeLessThan(200)
    expect(await rowsRead(() => listInvoices(app.db, { status }, page))).toBeLessThan(200)
    const next = await listInvoices(app.db, { status }, page)
    expect(next.items[0]!.invoiceId < first.items.at(-1)!.invoiceId).toBe(true)
  },
)

test('a page of paid invoices reads about a page while a wave of open ones lies on top of them', async () => {
  // Each is about to be charged, as when a provider is slow or away on the first of a month.
  const at = new Date(now.getTime() - 60_000)
  await pool.query(
    `with wave as (
       insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start,
         period_end, issued_at, status)
       select $1 || lpad(n::text, 16, '0'), account_id, subscription_id, 4, 'x', 9900, 'KRW', $2, $3, $2, 'open'
       from (select *, row_number() over (order by id) as n from billing.invoice where number = 1 limit 6000) i
       returning id, subscription_id, account_id)
     insert into billing.payment (id, provider_reference, attempt, invoice_id, subscription_id, account_id, payment_method_id, provider,
       amount, currency, status, created_at, next_lookup_at)
     select replace(id, 'inv_', 'pay_'), id, 1, id, subscription_id, account_id, 'pm', 'scripted', 9900, 'KRW', 'sending', $2,
       now() + interval '1 day'
     from wave`,
    [lowestId('inv_', at), at, new Date(at.getTime() + 86_400_000)],
  )
  await pool.query('vacuum analyze')
  const paid = { status: 'paid' } as const
  const to = new Date(now.getTime() + 1)
  for (const filter of [paid, { ...paid, to }, { ...paid, from: day(100) }]) {
    const first = await listInvoices(app.db, filter, { limit: 5 })
    expect(first.items.map(({ status }) => status)).toEqual(Array(5).fill('paid'))
    const page = { limit: 5, cursor: first.nextCursor! }
    expect(await rowsRead(() => listInvoices(app.db, filter, { limit: 5 }))).toBeLessThan(200)
    expect(await rowsRead(() => listInvoices(app.db, filter, page))).toBeLessThan(200)
  }
  expect((await listInvoices(app.db, { status: 'open' }, { limit: 5 })).items).toHaveLength(5)
})

test('invoices since a day are read from that day on', async () => {
  const from = day(stored - 10)
  expect((await listInvoices(app.db, { status: 'paid', from }, { limit: 20 })).items).toHaveLength(10)
  expect(await rowsRead(() => listInvoices(app.db, { from }, { limit: 100 }))).toBeLessThan(400)
})

test('invoices until a day are read from that day back, and one that was written late is among them', async () => {
  const to = day(stored / 2)
  // Its period began before that day, and it was written when the service was up again, yesterday.
  const late = `${lowestId('inv_', new Date(now.getTime() - 86_400_000))}${'z'.repeat(16)}`
  await pool.query(
    `insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency, period_start,
       period_end, issued_at, issued_late, status)
     select $1, account_id, subscription_id, 3, 'x', 9900, 'KRW', issued_at, period_end, issued_at, true, 'paid'
     from billing.invoice where number = 1 and issued_at < $2 order by id desc limit 1`,
    [late, to],
  )
  const first = await listInvoices(app.db, { to }, { limit: 5 })
  expect(first.items[0]!.invoiceId).toBe(late)
  expect(first.items.every(({ issuedAt }) => issuedAt < to)).toBe(true)
  const page = { limit: 5, cursor: first.nextCursor! }
  const next = await listInvoices(app.db, { to }, page)
  expect(next.items[0]!.invoiceId < first.items.at(-1)!.invoiceId).toBe(true)
  expect(await rowsRead(() => listInvoices(app.db, { to }, { limit: 5 }))).toBeLessThan(300)
  expect(await rowsRead(() => listInvoices(app.db, { to }, page))).toBeLessThan(300)
  expect(await rowsRead(() => listInvoices(app.db, { to, status: 'paid' }, { limit: 5 }))).toBeLessThan(300)
  const paid = await listInvoices(app.db, { to, status: 'paid' }, { limit: 5 })
  expect(paid.items.map(({ invoiceId }) => invoiceId === late)).toEqual([true, false, false, false, false])
  // Newer ones of the same status do not crowd out those of that time.
  const open = await listInvoices(app.db, { to, status: 'open' }, { limit: 5 })
  expect(open.items).toHaveLength(5)
  expect(open.items.every(({ issuedAt }) => issuedAt < to)).toBe(true)
})

test('a day of the book is compared by reading that day, wherever it lies', async () => {
  for (const n of [50, stored / 2, stored - 60]) {
    const [from, to] = [day(n), day(n + 24)]
    let compared = 0
    const read = await rowsRead(async () => {
      compared = (await reconcilePayments(app, from, to)).compared
    })
    expect(compared).toBe(24)
    expect(read).toBeLessThan(500)
  }
})

test('what may still have changed at a provider that cannot tell is read page by page from its oldest day on', async () => {
  const unable = {
    ...app,
    providers: onlyProvider({
      ...app.providers.forNew,
      listChanges: null,
      // The first of them is enough.
      findPayment: async (reference: string) => {
        throw Object.assign(new Error(reference), { code: '57P01' })
      },
    }),
  }
  const oldest = stored - 400 * 24
  const reference = `${lowestId('pay_', day(oldest))}${String(oldest).padStart(16, '0')}`
  const read = await rowsRead(() =>
    expect(reconcilePayments(unable, now, new Date(now.getTime() + 1))).rejects.toThrow(reference),
  )
  expect(read).toBeLessThan(700)
  const older = day(20)
  expect(await rowsRead(() => reconcilePayments(app, older, new Date(older.getTime() + 1)))).toBeLessThan(300)
})

test('a few refunds whose hour has come are taken up, however many wait before and behind them', async () => {
  // The first half waits for both clocks; the second falls due by the service's clock, though its next look is farther still.
  await pool.query(
    `insert into billing.refund (id, payment_id, n, provider_reference, invoice_id, account_id, amount, currency, origin,
       status, step, created_at, next_lookup_at, lookup_by)
     select 'ref_' || p.id, p.id, 1, 'ref_' || p.id, p.invoice_id, p.account_id, 1, 'KRW', 'request', 'pending', 'queued',
       p.created_at, now() + (n + 600) * interval '1 second',
       $1::timestamptz + case when n <= $2::int / 2 then n else -n end * interval '1 second'
     from (select *, row_number() over (order by id) as n from billing.payment where attempt = 1) p`,
    [now, stored],
  )
  await pool.query('vacuum analyze billing.refund')
  expect(await rowsRead(() => listDueTurns(app))).toBeLessThan(200)
  expect(await listDueTurns(app)).toContain('refunds')
  const claim = () => takeDueRefunds(app.db, now, 8)
  expect(await rowsRead(async () => expect(await claim()).toHaveLength(8))).toBeLessThan(100)
})

test('one attempt in doubt is found among ten thousand that were never sent, and a few of those among all of them', async () => {
  await pool.query(
    `insert into billing.payment (id, provider_reference, attempt, invoice_id, subscription_id, account_id, payment_method_id, provider,
       amount, currency, status, created_at, sent_at, next_lookup_at)
     select p.id || 'u', p.id || 'u', 2, p.invoice_id, p.subscription_id, p.account_id, 'pm', 'scripted', 9900, 'KRW', 'sending', p.created_at,
       case when n = 5000 then now() end, now() - n * interval '1 second'
     from (select *, row_number() over (order by id) as n from billing.payment where status = 'succeeded') p`,
  )
  await pool.query('vacuum analyze billing.payment')
  const claim = (sent: boolean) => leaseAttempts(app.db, { dueBy: now, limit: 8, sent }, 60_000)
  expect(await rowsRead(() => claim(true))).toBeLessThan(100)
  expect(await rowsRead(() => claim(false))).toBeLessThan(200)
  expect(await rowsRead(() => listDueTurns(app))).toBeLessThan(200)
})

test('a page of upcoming retries reads about a page, near and far', async () => {
  const until = new Date(now.getTime() + 5 * 366 * 86_400_000)
  let page: { limit: number; cursor?: string } = { limit: 5 }
  const seen: string[] = []
  for (let n = 0; n < 4; n++) {
    expect(await rowsRead(() => listUpcoming(app, { until }, page))).toBeLessThan(300)
    const found = await listUpcoming(app, { until }, page)
    seen.push(...found.items.map(({ invoiceId }) => invoiceId!))
    page = { limit: 5, cursor: found.nextCursor! }
  }
  expect(new Set(seen).size).toBe(20)
})

test('a page of upcoming charges reads about a page, however many wait to be sent', async () => {
  // Of those that an earlier test stored.
  await pool.query(
    `insert into billing.period (subscription_id, k, start_at, end_at, invoice_id)
     select subscription_id, 0, period_start, period_end, id from billing.invoice where number = 1`,
  )
  await pool.query(
    `update billing.invoice set status = 'open', due_at = null, dunning = null where number = 1 and status in ('open', 'paid')`,
  )
  await pool.query('vacuum analyze')
  let page: { limit: number; cursor?: string } = { limit: 5 }
  const seen: string[] = []
  for (let n = 0; n < 3; n++) {
    expect(await rowsRead(() => listUpcoming(app, { until: now }, page))).toBeLessThan(300)
    const found = await listUpcoming(app, { until: now }, page)
    seen.push(...found.items.map(({ invoiceId }) => invoiceId!))
    page = { limit: 5, cursor: found.nextCursor! }
  }
  expect(new Set(seen).size).toBe(15)
  const { rows } = await pool.query('select account_id from billing.payment where sent_at is null limit 1')
  const one = { until: now, accountId: rows[0].account_id }
  expect((await listUpcoming(app, one, { limit: 5 })).items).toHaveLength(1)
  expect(await rowsRead(() => listUpcoming(app, one, { limit: 5 }))).toBeLessThan(100)
})
