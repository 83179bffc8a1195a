import { afterEach, expect, test } from 'vitest'
import { listDueTurns, runTurn } from '../../src/billing/due.ts'
import { wakeUnsettled } from '../../src/billing/unsettled-rows.ts'
import { openWorld, type World } from '../world.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'
import { scriptedProvider } from './scripted-provider.ts'

let world: BillingWorld | undefined
afterEach(async () => {
  expect(world?.faults ?? []).toEqual([])
  await world?.close()
  world = undefined
})

/** How long each charge and refund in doubt still waits, in seconds. */
const waits = async (open: BillingWorld) =>
  (
    await open.rows<{ wait: number }>(
      `select extract(epoch from next_lookup_at - clock_timestamp())::float8 as wait from (
         select id, next_lookup_at from billing.payment where status in ('sending', 'unknown')
         union all select id, next_lookup_at from billing.refund where status = 'pending') as waiting order by id`,
    )
  ).map(({ wait }) => Math.round(wait))

/** As if this much real time had passed without a look. */
async function passSeconds(open: BillingWorld, seconds: number): Promise<void> {
  for (const table of ['payment', 'refund'])
    await open.rows(
      `update billing.${table} set next_lookup_at = next_lookup_at - $1 * interval '1 second' where next_lookup_at is not null`,
      [seconds],
    )
  await open.rows(`update billing.provider_probe set next_at = next_at - $1 * interval '1 second'`, [seconds])
}

test('waits for a silent provider grow to an hour, and all that waits is due at once when it answers again', async () => {
  world = await openBillingWorld()
  await world.subscribe('paid')
  const { invoice_id } = (await world.invoices('paid'))[0]
  world.script.state.silent = true
  expect((await world.subscribe('acct_1')).status).toBe(202)
  expect((await world.subscribe('acct_2')).status).toBe(202)
  expect((await world.post('/refund', { invoice_id, amount: 100 })).status).toBe(202)
  for (let round = 0; round < 16; round++) {
    await passSeconds(world, 3_700)
    await world.runDue()
  }
  expect((await waits(world)).map((wait) => wait > 3_500)).toEqual([true, true, true])

  await world.runDue()
  const { charge, findPayment } = { ...world.script.calls }
  await world.runDue()
  expect(world.script.calls).toMatchObject({ charge, findPayment })
  // A single lookup finds out, on behalf of all.
  await passSeconds(world, 20)
  await world.runDue()
  expect(world.script.calls).toMatchObject({ charge, findPayment: findPayment + 1 })
  world.script.state.silent = false
  await passSeconds(world, 20)
  for (let sweep = 0; sweep < 2; sweep++) await world.runDue()
  expect(await waits(world)).toEqual([])
  expect(await world.books()).toEqual({ provider: 29_600, revenue: -29_700, refunds: 100 })
})

test('a provider that hangs while it is probed holds up no lookup of another, and no probe of it', async () => {
  const second = scriptedProvider({}, 'second')
  world = await openBillingWorld({ others: [second] })
  const { app, script } = world
  script.state.silent = true
  const accounts = ['at_first', 'due_at_second', 'waits_at_second']
  for (const account of accounts) expect((await world.subscribe(account)).status).toBe(202)
  for (const table of ['payment', 'payment_method'])
    await world.rows(`update billing.${table} set provider = 'second' where account_id like '%_at_second'`)
  await world.rows(`update billing.payment set sending_until = null, unanswered = account_id <> 'due_at_second',
    next_lookup_at = clock_timestamp() + case account_id when 'due_at_second' then interval '0' else interval '1 hour' end`)
  const statusOf = async (account: string) =>
    (
      await world!.rows<{ status: string }>('select status from billing.payment where account_id = $1', [
        account,
      ])
    )[0]!.status

  // The second one is silent too, at first.
  second.state.silent = true
  let answer = () => {}
  const hanging = new Promise<void>((resolve) => {
    answer = resolve
  })
  script.provider.findPayment = async () => {
    await hanging
    return { kind: 'unknown' }
  }
  expect(await listDueTurns(app)).toEqual(expect.arrayContaining(['probes', 'lookups']))
  const probing = runTurn(() => app, 'probes')
  await expect.poll(() => second.calls.findPayment).toBe(1)

  second.state.silent = false
  const lookingUp = runTurn(() => app, 'lookups')
  await expect.poll(() => statusOf('due_at_second')).toBe('succeeded')
  await passSeconds(world, 20)
  await lookingUp
  await expect
    .poll(async () => {
      await runTurn(() => app, 'lookups')
      return statusOf('waits_at_second')
    })
    .toBe('succeeded')
  expect(await statusOf('at_first')).toBe('unknown')
  answer()
  await probing
})

test('all that waits is made due in the order of ids, so that it waits in no ring with others', async () => {
  world = await openBillingWorld()
  const { db, pool } = world.app
  world.script.state.silent = true
  for (const account of ['acct_1', 'acct_2']) expect((await world.subscribe(account)).status).toBe(202)
  await world.rows('update billing.payment set sending_until = null, unanswered = true')
  const [first, second] = await world.rows<{ id: string }>('select id from billing.payment order by id')
  // A scan now comes to the second one first.
  const postpone = `update billing.payment set next_lookup_at = clock_timestamp() + interval '1 hour' where id = $1`
  await world.rows(postpone, [second!.id])
  await world.rows(postpone, [first!.id])
  const other = await pool.connect()
  try {
    await other.query('begin')
    await other.query('select 1 from billing.payment where id = $1 for update', [first!.id])
    const waking = wakeUnsettled(db, 'unanswered')
    await expect
      .poll(async () => (await world!.rows('select from pg_locks where not granted')).length)
      .toBeGreaterThan(0)
    await other.query('select 1 from billing.payment where id = $1 for update', [second!.id])
    await other.query('commit')
    expect(await waking).toBe(2)
  } finally {
    other.release()
  }
})

test('a card whose charges nobody answers is sent ever more rarely, though the provider answers everybody else', async () => {
  world = await openBillingWorld()
  const lost = Array.from({ length: 60 }, () => ({ kind: 'lost_request' as const }))
  world.script.nextCharges(...lost)
  expect((await world.subscribe('acct_1')).status).toBe(202)
  let sends = 0
  for (let hour = 0; hour < 24; hour++) {
    await passSeconds(world, 3_601)
    await world.runDue()
    // A sweep later nothing is due, and nobody answered anything that was silent.
    await world.runDue()
    sends++
  }
  expect(world.script.calls.charge).toBe(1 + sends)
  expect(await waits(world)).toEqual([3_600])
})

test('one that is answered after a long silence of charges wakes the others', async () => {
  world = await openBillingWorld()
  const lost = Array.from({ length: 20 }, () => ({ kind: 'lost_request' as const }))
  world.script.nextCharges(...lost)
  await world.subscribe('acct_1')
  await world.subscribe('acct_2')
  for (let round = 0; round < 9; round++) {
    await passSeconds(world, 3_601)
    await world.runDue()
  }
  expect(world.script.calls.charge).toBe(20)
  await world.rows(
    `update billing.payment set next_lookup_at = clock_timestamp() where id = (select min(id) from billing.payment)`,
  )
  await world.runDue()
  await world.runDue()
  expect(await waits(world)).toEqual([])
  expect(world.script.balance('KRW')).toBe(19_800n)
})

test('over HTTP: what a provider that was down left in doubt is settled within a minute of its return', async () => {
  const service: World = await openWorld({ now: '2026-11-14T00:00:00Z', worker: true })
  try {
    await service.post('/api/sandbox/provider/faults', { down: true })
    const body = {
      account_id: 'acct_1',
      plan_id: 'starter-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
    }
    expect((await service.post('/api/billing/subscribe', body)).status).toBe(202)
    // As if the silence had lasted for hours.
    await service.query(
      `update billing.payment set lookup_count = 14, next_lookup_at = clock_timestamp() + interval '1 hour', unanswered = true`,
    )
    await service.post('/api/sandbox/provider/faults', {})
    const back = Date.now()
    const status = async () =>
      (await service.get('/api/billing/invoices?account_id=acct_1')).body.data.invoices[0].status
    await expect.poll(status, { interval: 250 }).toBe('paid')
    expect(Date.now() - back).toBeLessThan(60_000)
  } finally {
    await service.close()
  }
})
