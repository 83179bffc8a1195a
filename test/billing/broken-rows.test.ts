import { sql } from 'kysely'
import { afterEach, expect, test } from 'vitest'
import { sendRefund } from '../../src/billing/refunds/send-refund.ts'
import { listSweepFailures } from '../../src/billing/sweeps/sweep-failure-rows.ts'
import { forgetOverFailures } from '../../src/billing/sweeps/sweep-failures.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { storeSubscriptions } from '../stored-subscriptions.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

const renewal = '2026-04-05T09:00:00+09:00'

async function subscribeMany(count: number): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n++) ids.push((await world.subscribe(`acct_${n}`)).data.subscription_id)
  return ids
}

const paid = async () =>
  (
    await world.rows<{ n: number }>(`select count(*)::int as n from billing.invoice where status = 'paid'`)
  )[0]!.n
const failures = () => listSweepFailures(world.app.db, 100)
const alarms = async () =>
  (await listAlarms(world.app.db, 100)).map(({ kind, subject }) => `${kind} ${subject}`)
const endWaits = () =>
  sql`update billing.sweep_failure set next_try_at = clock_timestamp()`.execute(world.app.db)

const spoilings: Record<string, (subscriptionId: string) => Promise<unknown>> = {
  'a zone that no clock knows': (id) =>
    sql`update billing.subscription set time_zone = 'Mars/Olympus' where id = ${id}`.execute(world.app.db),
  'a period that is there already': (id) => openPeriodByHand(id),
}

test.each(Object.keys(spoilings))(
  'of fifty due subscriptions one with %s stops none of the others',
  async (how) => {
    world = await openBillingWorld()
    const [, , bad] = await subscribeMany(50)
    await spoilings[how]!(bad!)
    await world.advanceTo(renewal)
    expect(await paid()).toBe(99)
    expect(await failures()).toMatchObject([{ sweep: 'renewals', subject: bad, failures: 1 }])
    expect(await alarms()).toEqual([`sweep_failed ${bad}`])

    // It is left alone for a while, then tried again, ever more rarely, and time passes for everybody else.
    await world.runDue()
    expect(await failures()).toMatchObject([{ failures: 1 }])
    await endWaits()
    await world.runDue()
    const [again] = await failures()
    expect(again).toMatchObject({ failures: 2 })
    expect(again!.nextTryAt.getTime() - Date.now()).toBeGreaterThan(15_000)
    await world.advanceTo('2026-05-05T09:00:00+09:00')
    expect(await paid()).toBe(148)
    // Others were due meanwhile, and its wait was not over.
    expect(await failures()).toMatchObject([{ failures: 2 }])
  },
)

/** As a hand in the database might leave it: the next period is there, and the subscription does not know. */
async function openPeriodByHand(subscriptionId: string): Promise<void> {
  await world.app.pool.query(
    `with made as (
       insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency,
         period_start, period_end, issued_at, status)
       select 'inv_by_hand', account_id, id, 1000, 'x', 1, 'KRW', period_end, period_end + interval '1 month', period_end, 'void'
       from billing.subscription where id = $1
       returning id, subscription_id, period_start, period_end)
     insert into billing.period (subscription_id, k, start_at, end_at, invoice_id)
     select subscription_id, 1, period_start, period_end, id from made`,
    [subscriptionId],
  )
}

test('a row that was put right is renewed by itself, and its alarm goes', async () => {
  world = await openBillingWorld()
  const [bad] = await subscribeMany(3)
  await sql`update billing.subscription set time_zone = 'Mars/Olympus' where id = ${bad}`.execute(
    world.app.db,
  )
  await world.advanceTo(renewal)
  expect(await paid()).toBe(5)
  await sql`update billing.subscription set time_zone = 'Asia/Seoul' where id = ${bad}`.execute(world.app.db)
  await endWaits()
  await world.runDue()
  expect(await paid()).toBe(6)
  expect(await failures()).toEqual([])
  expect(await alarms()).toEqual([])
  expect(world.script.book.size).toBe(6)
})

test('a failure that another release noted under a name of its own does not stay for ever', async () => {
  world = await openBillingWorld()
  await sql`
    insert into billing.sweep_failure (sweep, subject, reason, failures, first_at, last_at, next_try_at)
    values ('cards', 'pm_1', 'Error', 1, now(), now(), now())`.execute(world.app.db)
  await sql`
    insert into platform.alarm (kind, subject, note, raised_at, last_at)
    values ('sweep_failed', 'pm_1', 'x', now(), now())`.execute(world.app.db)
  await world.runDue()
  expect(await failures()).toEqual([])
  expect(await alarms()).toEqual([])
})

test('an end, a retry and an end of dunning that fail keep no others waiting', async () => {
  world = await openBillingWorld()
  const ids = await subscribeMany(9)
  // What the database refuses of one row stands for whatever may be wrong with it.
  for (const at of [0, 3, 6])
    await sql
      .raw(`create or replace function billing.refuse_one_${at}() returns trigger language plpgsql as $$
            begin raise exception 'broken row' using errcode = 'P0001'; end $$;
            create trigger refuse_one_${at} before update on billing.subscription
            for each row when (old.id = '${ids[at]}' and new.status = 'canceled') execute function billing.refuse_one_${at}()`)
      .execute(world.app.db)
  for (const at of [0, 1, 2]) await world.post('/cancel', { subscription_id: ids[at] })
  world.script.declineCard('bk_test_ok', 'lost_or_stolen')
  await world.advanceTo(renewal)
  expect(await failures()).toMatchObject([{ sweep: 'cancellations', subject: ids[0] }])
  await world.advanceTo('2026-04-12T09:00:00+09:00')
  const ended = await world.rows<{ id: string }>(
    `select id from billing.subscription where status = 'canceled'`,
  )
  expect(ended.map(({ id }) => id).sort()).toEqual([1, 2, 4, 5, 7, 8].map((at) => ids[at]).sort())
  expect((await failures()).map(({ sweep, subject }) => [sweep, subject]).sort()).toEqual(
    [
      ['cancellations', ids[0]],
      ['given_up', ids[3]],
      ['given_up', ids[6]],
    ].sort(),
  )
})

test('of outcomes recorded together one that cannot be recorded takes none of the others with it', async () => {
  world = await openBillingWorld()
  const ids = await subscribeMany(20)
  await sql
    .raw(`create function billing.refuse_one() returns trigger language plpgsql as $$
          begin raise exception 'broken row' using errcode = 'P0001'; end $$;
          create trigger refuse_one before update on billing.invoice
          for each row when (old.subscription_id = '${ids[7]}' and new.status = 'paid') execute function billing.refuse_one()`)
    .execute(world.app.db)
  await world.advanceTo(renewal)
  expect(await paid()).toBe(39)
  const [payment] = await world.rows<{ id: string }>(
    `select id from billing.payment where subscription_id = $1 and status <> 'succeeded'`,
    [ids[7]],
  )
  expect(await failures()).toMatchObject([{ sweep: 'payments', subject: payment!.id }])

  // The money is there and nobody asks for it again; once the row can be written it is recorded.
  await world.forgetLeases()
  await world.runDue()
  expect(await failures()).toMatchObject([{ sweep: 'payments', failures: 2 }])
  await sql`drop trigger refuse_one on billing.invoice`.execute(world.app.db)
  await world.forgetLeases()
  await world.runDue()
  await world.runDue()
  expect(await paid()).toBe(40)
  expect(await failures()).toEqual([])
  expect(await alarms()).toEqual([])
  expect(world.script.book.size).toBe(40)
})

test('a refund that cannot be recorded keeps no other refund waiting', async () => {
  world = await openBillingWorld()
  await subscribeMany(3)
  world.script.state.silent = true
  for (const n of [0, 1, 2]) {
    const [invoice] = await world.invoices(`acct_${n}`)
    expect((await world.post('/refund', { invoice_id: invoice.invoice_id })).status).toBe(202)
  }
  world.script.state.silent = false
  await sql
    .raw(`create function billing.refuse_one() returns trigger language plpgsql as $$
          begin raise exception 'broken row' using errcode = 'P0001'; end $$;
          create trigger refuse_one before update on billing.refund
          for each row when (old.account_id = 'acct_0' and new.status = 'succeeded') execute function billing.refuse_one()`)
    .execute(world.app.db)
  await world.forgetLeases()
  await world.runDue()
  const status = async () =>
    (await world.rows<{ status: string }>('select status from billing.refund order by id')).map(
      (row) => row.status,
    )
  expect(await status()).toEqual(['pending', 'succeeded', 'succeeded'])
  expect(await failures()).toMatchObject([{ sweep: 'refunds', failures: 1 }])
})

test('while the provider is away no more is claimed than can be written down', async () => {
  world = await openBillingWorld()
  await subscribeMany(1)
  await storeSubscriptions(world.app.pool, 'acct_0', 500)
  world.script.nextCharges(...Array.from({ length: 501 }, () => ({ kind: 'not_sent' }) as const))
  let most = 0
  let calls = 0
  world.script.hooks.beforeCharge = async () => {
    if (calls++ % 10 !== 0) return
    const [{ n }] = (await world.rows<{ n: number }>(
      `select count(*)::int as n from billing.payment where status = 'sending' and sent_at is not null`,
    )) as [{ n: number }]
    most = Math.max(most, n)
  }
  world.skipTo(renewal)
  await world.runDue()
  expect(calls).toBeGreaterThanOrEqual(501)
  expect(most).toBeLessThan(200)
})

test('a process that ends gives up no refund only because it did not get to it', async () => {
  world = await openBillingWorld()
  await subscribeMany(1)
  const [invoice] = await world.invoices('acct_0')
  world.script.state.silent = true
  expect((await world.post('/refund', { invoice_id: invoice.invoice_id })).status).toBe(202)
  world.script.state.silent = false
  // What was asked has left no trace at the provider, so it is asked again, by a process that is about to end.
  await world.forgetLeases()
  await sql`update billing.refund set step = 'queued', sent_at = null`.execute(world.app.db)
  world.script.nextRefunds({ kind: 'not_sent' })
  const [{ id }] = (await world.rows<{ id: string }>('select id from billing.refund')) as [{ id: string }]
  expect(await sendRefund({ ...world.app, stopping: AbortSignal.abort() }, id)).toBe('pending')
  await world.forgetLeases()
  await world.runDue()
  const [refund] = await world.rows<{ status: string }>('select status from billing.refund')
  expect(refund!.status).toBe('succeeded')
})

test('zone rules that change after a date was stored charge no period twice and hold nobody up', async () => {
  world = await openBillingWorld()
  const ids = await subscribeMany(40)
  // The date was stored when the rules said so; by today's rules the period begins three hours later.
  const early = ids.slice(0, 36)
  await sql`update billing.subscription set next_billing_at = next_billing_at - interval '3 hours'
            where id = any (${early})`.execute(world.app.db)
  await world.advanceTo('2026-04-05T07:00:00+09:00')
  expect(await paid()).toBe(40)
  expect((await world.subscription(early[0]!)).next_billing_at).toBe('2026-04-05T09:00:00.000+09:00')
  expect(await failures()).toEqual([])
  await world.advanceTo('2026-04-05T10:00:00+09:00')
  expect(await paid()).toBe(80)
  await world.advanceTo('2026-05-05T10:00:00+09:00')
  expect(await paid()).toBe(120)
  expect(world.script.book.size).toBe(120)
})

test('a failure whose alarm cannot be taken back just now is not forgotten either', async () => {
  world = await openBillingWorld()
  const { db } = world.app
  await sql`
    insert into billing.sweep_failure (sweep, subject, reason, failures, first_at, last_at, next_try_at)
    values ('refunds', 'ref_gone', 'Error', 1, now(), now(), now())`.execute(db)
  await sql`
    insert into platform.alarm (kind, subject, note, raised_at, last_at)
    values ('sweep_failed', 'ref_gone', 'x', now(), now())`.execute(db)
  // The process dies between the two: here, the second one fails.
  await sql`create function billing.die() returns trigger language plpgsql as $$ begin raise 'gone'; end $$`.execute(
    db,
  )
  await sql`create trigger dies before delete on platform.alarm for each row execute function billing.die()`.execute(
    db,
  )
  await expect(forgetOverFailures(world.app)).rejects.toThrow('gone')
  expect(await failures()).toMatchObject([{ sweep: 'refunds', subject: 'ref_gone' }])

  await sql`drop trigger dies on platform.alarm`.execute(db)
  expect(await forgetOverFailures(world.app)).toBe(1)
  expect([await failures(), await alarms()]).toEqual([[], []])
})
