import { afterEach, expect, test } from 'vitest'
import { liftCredentialStop, stopCharging } from '../../src/billing/charging-stop.ts'
import { periodIndexAt, periodStart } from '../../src/billing/subscriptions/period.ts'
import { db } from '../../src/cli/db.ts'
import { storeSubscriptions } from '../stored-subscriptions.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'
import { runCommand } from './run-command.ts'

let world: BillingWorld
afterEach(() => world.close())

type Charge = { at: string; account_id: string; what: string }

async function pages(until: string, limit: number): Promise<Charge[][]> {
  const found: Charge[][] = []
  let cursor: string | null = null
  do {
    const place: string = cursor === null ? '' : `&cursor=${cursor}`
    const { data } = await world.get(`/upcoming?until=${encodeURIComponent(until)}&limit=${limit}${place}`)
    found.push(data.charges)
    cursor = data.next_cursor
  } while (cursor !== null)
  return found
}

async function offerDaily(): Promise<void> {
  await world.ask('PUT', '/plans/daily', { name: 'Daily', amount: 900, currency: 'KRW', interval: 'day' })
  await world.ask('PUT', '/plans/weekly', { name: 'Weekly', amount: 2900, currency: 'KRW', interval: 'week' })
}

test('who asks for the charges of eight thousand years gets the first page of them as soon as anybody else', async () => {
  world = await openBillingWorld()
  await offerDaily()
  await world.subscribe('acct_1', { plan: 'daily' })
  const { data } = await world.get('/upcoming?limit=3&until=9999-12-31T00:00:00Z')
  expect(data.charges.map(({ at }: Charge) => at.slice(0, 10))).toEqual([
    '2026-03-06',
    '2026-03-07',
    '2026-03-08',
  ])
  expect(data.next_cursor).not.toBeNull()
})

test('page after page tells each charge once and in order, however the pages are cut', async () => {
  world = await openBillingWorld()
  await offerDaily()
  const plans = ['daily', 'weekly', 'starter-monthly', 'daily', 'weekly', 'pro-yearly', 'starter-monthly']
  for (const [at, plan] of plans.entries()) {
    await world.subscribe(`acct_${at}`, { plan, timezone: at % 2 === 0 ? 'Asia/Seoul' : 'America/New_York' })
    // Two of a day begin at the very same instant.
    if (at !== 2) world.skipTo(new Date(world.app.clock().getTime() + 3_600_000))
  }
  const until = '2026-05-05T00:00:00+09:00'
  const whole = (await pages(until, 100)).flat()
  const countOf = (account: string) => whole.filter((charge) => charge.account_id === account).length
  expect(plans.map((_, at) => countOf(`acct_${at}`))).toEqual([60, 8, 1, 60, 8, 0, 1])
  expect(whole.map(({ at }) => Date.parse(at))).toEqual(
    whole.map(({ at }) => Date.parse(at)).sort((a, b) => a - b),
  )
  for (const limit of [1, 7]) expect((await pages(until, limit)).flat()).toEqual(whole)
})

test('of the periods that an outage made us miss only the newest is told, because only it would be charged', async () => {
  world = await openBillingWorld()
  await offerDaily()
  await world.subscribe('acct_1', { plan: 'daily' })
  world.skipTo('2026-03-09T12:00:00+09:00')
  const [charges] = await pages('2026-03-11T12:00:00+09:00', 100)
  expect(charges!.map(({ at }) => at.slice(0, 10))).toEqual(['2026-03-09', '2026-03-10', '2026-03-11'])
})

test('a cursor of another list is refused', async () => {
  world = await openBillingWorld()
  const cursor = Buffer.from('["tomorrow","sub_1"]').toString('base64url')
  expect((await world.get(`/upcoming?until=2026-05-05T00:00:00Z&cursor=${cursor}`)).status).toBe(400)
})

test('every page of many subscriptions tells what working all of them out tells', async () => {
  world = await openBillingWorld()
  await offerDaily()
  await world.subscribe('acct_1')
  const { pool } = world.app
  await storeSubscriptions(pool, 'acct_1', 150)
  // Intervals, zones and days of the month in every mixture; some share an instant, some are overdue by several periods.
  await pool.query(
    `update billing.subscription s set
       interval_unit = (array['day', 'week', 'month', 'month', 'year'])[1 + n % 5],
       interval_count = 1 + (n % 7 = 0)::int,
       time_zone = (array['Asia/Seoul', 'America/New_York', 'Europe/Berlin', 'UTC'])[1 + n % 4],
       anchor = date_trunc('hour', $1::timestamptz) - interval '40 days' + (n % 97) * interval '11 hours'
     from (select id, row_number() over (order by id)::int as n from billing.subscription) numbered
     where numbered.id = s.id`,
    [world.app.clock()],
  )
  const { rows } = await pool.query(
    'select id, anchor, time_zone, interval_unit, interval_count from billing.subscription',
  )
  const intervalOf = (row: (typeof rows)[0]) => ({ unit: row.interval_unit, count: row.interval_count })
  for (const [at, row] of rows.entries()) {
    // The next charge is the first after now, but for some of which up to three are overdue.
    const passed = periodIndexAt(row.anchor, row.time_zone, intervalOf(row), world.app.clock())
    row.last_k = Math.max(-1, passed - (at % 9 === 0 ? at % 4 : 0))
    const next = periodStart(row.anchor, row.time_zone, intervalOf(row), row.last_k + 1)
    await pool.query('update billing.subscription set last_k = $2, next_billing_at = $3 where id = $1', [
      row.id,
      row.last_k,
      next,
    ])
  }
  const until = new Date(world.app.clock().getTime() + 75 * 86_400_000)
  const expected = rows
    .flatMap((row) => {
      const now = world.app.clock()
      const start = (k: number) => periodStart(row.anchor, row.time_zone, intervalOf(row), k)
      const newestMissed = periodIndexAt(row.anchor, row.time_zone, intervalOf(row), now)
      const told: string[] = []
      for (let k = Math.max(row.last_k + 1, newestMissed); start(k) <= until; k++)
        told.push(`${start(k).toISOString()} ${row.id}`)
      return told
    })
    .sort()
  expect(expected.length).toBeGreaterThan(2_000)
  const told = (await pages(until.toISOString(), 50)).flat() as (Charge & { subscription_id: string })[]
  expect(told.map((one) => `${new Date(one.at).toISOString()} ${one.subscription_id}`)).toEqual(expected)
})

test('a charge that waits to be sent is told until it is sent, by what holds it up, in its place among the others', async () => {
  world = await openBillingWorld({ stoppable: true })
  const ids: string[] = []
  for (const account of ['acct_0', 'acct_1', 'acct_2']) {
    ids.push((await world.subscribe(account)).data.subscription_id)
    world.skipTo(new Date(world.app.clock().getTime() + 3_600_000))
  }
  world.script.state.credentialsRefused = true
  await world.advanceTo('2026-04-05T10:30:00+09:00')
  const until = '2026-04-06T00:00:00+09:00'
  const told = (await pages(until, 100)).flat() as (Charge & { invoice_id: string | null })[]
  expect(told.map(({ at, account_id, what }) => `${at.slice(0, 16)} ${account_id} ${what}`)).toEqual([
    '2026-04-05T09:00 acct_0 renewal',
    '2026-04-05T10:00 acct_1 renewal',
    '2026-04-05T11:00 acct_2 renewal',
  ])
  const [invoice] = await world.invoices('acct_0')
  expect([told[0]!.invoice_id, told[2]!.invoice_id]).toEqual([invoice.invoice_id, null])
  expect((await pages(until, 1)).flat()).toEqual(told)
  const ofOne = await world.get(`/upcoming?account_id=acct_1&until=${encodeURIComponent(until)}`)
  expect(ofOne.data.charges).toEqual([told[1]])

  const nextOf = async (id: string) => (await world.get(`/subscriptions/${id}/timeline`)).data.next
  expect(await nextOf(ids[0]!)).toMatchObject([
    { what: 'payment.send', blocked_by: 'charging_stopped' },
    { what: 'renewal.charge' },
  ])
  expect(JSON.stringify(await nextOf(ids[2]!))).not.toContain('blocked_by')
  const environment = {
    DATABASE_URL: world.url,
    VAULT_KEYS: `1:${world.script.vaultKey.toString('base64')}`,
    WEBHOOK_SECRETS: 'whsec_of_nobody_at_all_in_here',
  }
  const { unknown, unsent } = JSON.parse((await runCommand(db, ['unknown', '--json'], environment)).output)
  expect([unknown, unsent]).toMatchObject([
    [],
    [
      { account_id: 'acct_0', kind: 'payment', provider: 'scripted', blocked_by: 'charging_stopped' },
      { account_id: 'acct_1', cause: 'credentials_refused' },
    ],
  ])
  expect((await runCommand(db, ['unknown'], environment)).output).toMatch(
    /acct_1 .*scripted .*charging is stopped \(credentials_refused\)/,
  )
  expect((await runCommand(db, ['status'], environment)).output).toMatch(
    /WAITING {7}2 charges could not be sent(.|\n)*CHARGING THROUGH scripted IS STOPPED/,
  )

  world.script.state.credentialsRefused = false
  await liftCredentialStop(world.app, 'scripted')
  await new Promise((resolve) => setTimeout(resolve, 1_100))
  await world.runDue()
  expect((await pages(until, 100)).flat()).toEqual([told[2]])
})

test('of several periods that failed and fall due again at once, none is lost between two pages', async () => {
  world = await openBillingWorld({ terms: { catchUpPeriods: 3 } })
  await offerDaily()
  await world.subscribe('acct_1', { plan: 'daily' })
  world.script.declineCard('bk_test_ok', 'insufficient_funds')
  world.skipTo('2026-03-08T10:00:00+09:00')
  await world.runDue()
  const until = '2026-03-10T00:00:00+09:00'
  const whole = (await pages(until, 100)).flat()
  expect(new Set(whole.filter(({ what }) => what === 'retry').map(({ at }) => at)).size).toBe(1)
  expect(whole.filter(({ what }) => what === 'retry')).toHaveLength(3)
  for (const limit of [1, 2]) expect((await pages(until, limit)).flat()).toEqual(whole)
})

test('where nothing missed is charged, what is due this very hour is told and charged, and later it is not', async () => {
  world = await openBillingWorld({ terms: { catchUpPeriods: 0 } })
  await offerDaily()
  await world.subscribe('acct_1', { plan: 'daily' })
  const until = '2026-03-20T00:00:00+09:00'
  for (const [now, next] of [
    ['2026-03-06T09:59:00+09:00', '2026-03-06'],
    ['2026-03-09T10:01:00+09:00', '2026-03-10'],
  ] as const) {
    world.skipTo(now)
    const [soonest] = (await pages(until, 100)).flat()
    expect(soonest?.at).toMatch(next)
    const before = world.script.book.size
    await world.runDue()
    expect(world.script.book.size - before).toBe(next === '2026-03-06' ? 1 : 0)
  }
})

test('the timeline of a long life tells its newest facts', async () => {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1')).data.subscription_id
  await world.rows(
    `insert into billing.event (id, type, account_id, subscription_id, occurred_at, data)
     select 'evt_0' || lpad(n::text, 8, '0'), 'payment.retried', 'acct_1', $1, $2::timestamptz - make_interval(hours => 2000 - n), '{}'
     from generate_series(1, 1200) n`,
    [id, world.app.clock()],
  )
  const { facts } = (await world.get(`/subscriptions/${id}/timeline`)).data
  expect(facts.map(({ what }: { what: string }) => what)).toContain('subscription.activated')
})

test('while an operator has stopped charging, what falls due is told to be held up', async () => {
  world = await openBillingWorld({ stoppable: true })
  const id = (await world.subscribe('acct_0')).data.subscription_id
  await stopCharging(world.app.db, 'a look at the bank', world.app.clock(), { stopsCalendar: true })
  const nextOf = async () => (await world.get(`/subscriptions/${id}/timeline`)).data.next
  expect(await nextOf()).toEqual([{ at: '2026-04-05T09:00:00.000+09:00', what: 'renewal.charge' }])
  await world.advanceTo('2026-04-06T00:00:00+09:00')
  expect(await nextOf()).toMatchObject([{ what: 'renewal.charge', blocked_by: 'charging_stopped' }])
  expect(JSON.stringify(await nextOf())).not.toContain('bank')
})
