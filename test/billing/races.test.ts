import { afterEach, expect, test } from 'vitest'
import { listSweepFailures } from '../../src/billing/sweeps/sweep-failure-rows.ts'
import { countLockWaits } from '../patience.ts'
import { size } from '../size.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

const breath = () => new Promise<void>((resolve) => setTimeout(resolve, Math.random() * 6))

test('cancels racing renewals in three sweeps at once: a cancelled period is never charged, a renewed one once', async () => {
  world = await openBillingWorld()
  const accounts = Array.from({ length: 60 }, (_, n) => `acct_${n}`)
  const ids: string[] = []
  for (const account of accounts) ids.push((await world.subscribe(account)).data.subscription_id)
  world.script.hooks.beforeCharge = breath
  world.skipTo('2026-04-05T09:00:00+09:00')

  const cancels = ids.map(async (id) => {
    await breath()
    return (await world.post('/cancel', { subscription_id: id })).data
  })
  const [canceled] = await Promise.all([Promise.all(cancels), world.runDue(), world.runDue(), world.runDue()])
  await world.runDue()

  let ended = 0
  for (const [n, account] of accounts.entries()) {
    const invoices = await world.invoices(account)
    if (canceled[n].status === 'canceled') ended++
    // Ended before the renewal, or canceling after it: never both a renewal and an end.
    expect(invoices.length).toBe(canceled[n].status === 'canceled' ? 1 : 2)
    expect(invoices.every((one: { status: string }) => one.status === 'paid')).toBe(true)
  }
  const charged = [...world.script.book.values()].length
  expect(charged).toBe(60 + 60 - ended)
  expect(world.script.balance('KRW')).toBe(BigInt(charged) * 9900n)
  expect((await world.books()).provider).toBe(charged * 9900)
})

test('a cancel at many offsets around the billing date: what was canceled first is never charged', async () => {
  world = await openBillingWorld()
  const start = Date.parse('2026-03-05T09:00:00+09:00')
  const nextMonth = Date.parse('2026-04-05T09:00:00+09:00')
  const apartMs = 400_000
  const subscriptions: string[] = []
  const many = size(80, 1000)
  for (let n = 0; n < many; n++) {
    world.skipTo(new Date(start + n * apartMs))
    subscriptions.push((await world.subscribe(`acct_${n}`)).data.subscription_id)
  }
  const outcomes: Record<string, number> = {}
  for (const [n, id] of subscriptions.entries()) {
    const boundary = nextMonth + n * apartMs
    // From 90 s before to 90 s after, so that both sides of the one minute's lead are among them.
    world.skipTo(new Date(boundary + Math.round((n / many - 0.5) * 180_000)))
    // Both at once, and now and then the sweep well ahead: on some machines one of them wins every time.
    if (n % 10 === 9) await world.runDue()
    const [answer] = await Promise.all([world.post('/cancel', { subscription_id: id }), world.runDue()])
    world.skipTo(new Date(boundary + 100_000))
    await world.runDue()
    const [invoices] = await world.rows<{ count: number }>(
      'select count(*)::int as count from billing.invoice where subscription_id = $1',
      [id],
    )
    const { count } = invoices!
    const newPeriod = answer.data.status === 'canceling' && Date.parse(answer.data.next_billing_at) > boundary
    expect([n, count]).toEqual([n, newPeriod ? 2 : 1])
    outcomes[`${answer.data.status} ${count}`] = (outcomes[`${answer.data.status} ${count}`] ?? 0) + 1
  }
  // Ended at its date, ended at once, and too late for this date: all three were met.
  expect(Object.keys(outcomes).sort()).toEqual(['canceled 1', 'canceling 1', 'canceling 2'])
  const charges = await world.rows('select 1 from billing.invoice')
  expect(world.script.book.size).toBe(charges.length)
})

test('many sweeps at once renew each subscription once and number its invoices without a gap', async () => {
  world = await openBillingWorld()
  for (let n = 0; n < 50; n++) await world.subscribe(`acct_${n}`)
  world.script.hooks.beforeCharge = breath
  for (const month of ['04', '05', '06']) {
    world.skipTo(`2026-${month}-05T09:00:00+09:00`)
    await Promise.all(Array.from({ length: 6 }, () => world.runDue()))
  }
  expect(world.script.book.size).toBe(200)
  const numbers = await world.rows<{ account_id: string; numbers: number[] }>(
    'select account_id, array_agg(number order by number) as numbers from billing.invoice group by account_id',
  )
  expect(numbers).toHaveLength(50)
  for (const row of numbers) expect(row.numbers).toEqual([1, 2, 3, 4])
})

test('a chaotic provider and dying senders in the end leave both books equal and every invoice paid once', async () => {
  world = await openBillingWorld()
  const random = seeded(7)
  world.script.hooks.beforeCharge = async () => {
    const dice = random()
    if (dice < 0.15) world.script.nextCharges({ kind: 'lost_answer' })
    else if (dice < 0.3) world.script.nextCharges({ kind: 'lost_request' })
    else if (dice < 0.4) world.script.nextCharges({ kind: 'not_sent' })
  }
  world.script.hooks.afterCharge = async () => {
    if (random() < 0.1) throw new Error('the process is gone')
  }
  for (let n = 0; n < 40; n++) await world.subscribe(`acct_${n}`)
  world.faults.splice(0)
  for (const month of ['04', '05', '06']) {
    world.skipTo(`2026-${month}-05T09:00:00+09:00`)
    for (let round = 0; round < 3; round++) {
      await Promise.allSettled([world.runDue(), world.runDue()])
      await world.forgetLeases()
    }
  }
  world.script.hooks.beforeCharge = async () => {}
  world.script.hooks.afterCharge = async () => {}
  // Some were given up on inside an outage: their key is forgotten, so they take an hour of lookups to end.
  for (const hour of ['10', '11', '12', '13']) {
    await world.forgetLeases()
    await world.advanceTo(`2026-06-05T${hour}:00:00+09:00`)
  }
  const open = await world.rows(`select id from billing.payment where status in ('sending', 'unknown')`)
  expect(open).toEqual([])
  const taken = [...world.script.book.values()].filter(({ status }) => status === 'paid').length
  const paid = await world.rows(`select id from billing.invoice where status = 'paid'`)
  expect(paid.length).toBe(taken)
  expect(world.script.balance('KRW')).toBe(BigInt(taken) * 9900n)
  expect((await world.books()).provider).toBe(taken * 9900)
})

test('the database itself refuses a second live subscription, a second period, and a changed invoice or ledger', async () => {
  world = await openBillingWorld()
  const id = (await world.subscribe('acct_1')).data.subscription_id
  const { pool } = world.app
  // A generated column cannot be given a value.
  const copy = async (table: string, change: string) => {
    const { rows } = await pool.query<{ names: string }>(
      `select string_agg(quote_ident(attname), ', ' order by attnum) as names from pg_attribute
       where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
      [`billing.${table}`],
    )
    const { names } = rows[0]!
    await pool.query(
      `insert into billing.${table} (${names})
       select ${names} from (select (jsonb_populate_record(t, '${change}')).* from billing.${table} t) as c`,
    )
  }
  await expect(copy('subscription', '{"id": "sub_2"}')).rejects.toThrow('subscription_one_live')
  await expect(copy('period', '{}')).rejects.toThrow('period_pkey')
  await expect(copy('payment', '{"id": "pay_2"}')).rejects.toThrow('payment_provider_reference_key')
  await expect(copy('payment', '{"id": "pay_2", "provider_reference": "rl_2"}')).rejects.toThrow(
    'payment_invoice_id_attempt_key',
  )
  await expect(
    copy('payment', '{"id": "pay_2", "provider_reference": "rl_2", "attempt": 2}'),
  ).rejects.toThrow('payment_one_succeeded')
  await expect(pool.query(`update billing.installation set id = 'another'`)).rejects.toThrow('keeps its id')
  await expect(pool.query('update billing.invoice set amount_due = 1')).rejects.toThrow('status and totals')
  await expect(pool.query('delete from billing.invoice')).rejects.toThrow('never changed or removed')
  await expect(pool.query('update billing.ledger_entry set amount = amount * 2')).rejects.toThrow(
    'never changed',
  )
  await expect(pool.query('update billing.payment set refunded = captured + 1')).rejects.toThrow(
    'check constraint',
  )
  const lopsided = `with t as (insert into billing.ledger_transfer (cause, account_id, currency, occurred_at)
                     values ('x', 'acct_1', 'KRW', now()) returning id)
                    insert into billing.ledger_entry select id, 'provider', 5 from t`
  await expect(pool.query(lopsided)).rejects.toThrow('does not sum to zero')
  expect((await world.subscription(id)).status).toBe('active')
})

/** A small linear congruential generator: the same dice on every run. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
    return state / 4_294_967_296
  }
}

test('one card that cannot be opened holds up nobody else', async () => {
  world = await openBillingWorld()
  for (const account of ['acct_1', 'acct_2', 'acct_3']) await world.subscribe(account)
  await world.app.pool.query(`update billing.payment_method set sealed = '\\x00' where account_id = 'acct_2'`)
  await world.post('/cancel', { subscription_id: (await world.invoices('acct_3'))[0].subscription_id })
  world.skipTo('2026-04-05T09:00:00+09:00')
  await world.runDue()
  expect((await world.invoices('acct_1'))[0]).toMatchObject({
    status: 'paid',
    period_end: '2026-05-05T09:00:00.000+09:00',
  })
  expect(await world.invoices('acct_3')).toHaveLength(1)
  await world.forgetLeases()
  world.skipTo('2026-05-05T09:00:00+09:00')
  await world.runDue()
  expect(await world.invoices('acct_1')).toHaveLength(3)
  // It is not passed over in silence.
  expect(await listSweepFailures(world.app.db, 10)).toMatchObject([
    { sweep: 'payments', reason: 'Error', failures: 1 },
    { sweep: 'payments', reason: 'Error', failures: 1 },
  ])
})

test('an answer waits until it is kept', async () => {
  world = await openBillingWorld()
  const holder = await world.app.pool.connect()
  world.script.hooks.afterCharge = async () => {
    await holder.query('begin')
    await holder.query('select 1 from platform.idempotency_key for update')
  }
  let isAnswered = false
  const asking = world
    .post(
      '/subscribe',
      { account_id: 'a', plan_id: 'starter-monthly', payment_method: { billing_key: 'bk_test_ok' } },
      { key: 'k' },
    )
    .finally(() => {
      isAnswered = true
    })
  try {
    await expect.poll(() => countLockWaits(world.app.pool)).toBe(1)
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(isAnswered).toBe(false)
  } finally {
    await holder.query('commit')
    holder.release()
  }
  expect((await asking).status).toBe(201)
})
