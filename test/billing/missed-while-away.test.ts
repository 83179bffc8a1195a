import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { liftChargingStop, stopCharging } from '../../src/billing/charging-stop.ts'
import { chargeHeldInvoice } from '../../src/billing/collection/charge-held-invoice.ts'
import { listHeld } from '../../src/billing/collection/held-invoice-rows.ts'
import { sendUnsentPayments } from '../../src/billing/collection/resolve-open-payments.ts'
import { voidHeldInvoice } from '../../src/billing/collection/void-held-invoice.ts'
import { resumeCharging } from '../../src/billing/lifecycle/resume-charging.ts'
import { openWorld } from '../world.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

// Renewals whose charge never left us while the provider could not be asked for money, one period after the other.

const daily = {
  name: 'Daily',
  amount: 500,
  currency: 'KRW',
  interval: 'day',
  interval_count: 1,
  trial_days: 1,
  active: true,
}

let world: BillingWorld
beforeEach(async () => {
  world = await openBillingWorld({ stoppable: true })
  expect((await world.ask('PUT', '/plans/daily', daily)).status).toBe(200)
})
afterEach(async () => {
  expect(BigInt((await world.books())['provider'] ?? 0)).toBe(world.script.balance('KRW'))
  expect(world.faults).toEqual([])
  await world.close()
})

/** An hour of a day in March; subscriptions begin at 09:00 on the 5th. */
const march = (day: number, hour = 9) =>
  `2026-03-${String(day).padStart(2, '0')}T${String(hour).padStart(2, '0')}:00:00+09:00`

async function subscribe(): Promise<string> {
  const { status, data } = await world.subscribe('acct_1', { plan: 'daily' })
  expect(status).toBe(201)
  return data.subscription_id
}

/** No connection comes about from here on. */
function goAway(): void {
  world.script.state.silent = true
  world.script.nextCharges(...Array.from({ length: 200 }, () => ({ kind: 'not_sent' as const })))
}

function comeBack(): void {
  world.script.state.silent = false
  world.script.forgetPlays()
}

async function lookAgain(): Promise<void> {
  await world.forgetLeases()
  await world.runDue()
}

/** What became of each period, the first one first. */
const fates = async () =>
  (await world.invoices('acct_1'))
    .map(({ hold, status }: { hold: string | null; status: string }) => hold ?? status)
    .reverse()

const eventsOf = async (type: string) =>
  (
    await world.rows<{ k: number }>(
      `select (data ->> 'period')::int as k from billing.event where type = $1 order by 1`,
      [type],
    )
  ).map(({ k }) => k)

const invoiceIds = async (): Promise<string[]> =>
  (await world.invoices('acct_1')).map((one: { invoice_id: string }) => one.invoice_id).reverse()

test('credentials refused for three days: the newest period is charged, those before it are held', async () => {
  const id = await subscribe()
  world.script.state.credentialsRefused = true
  await world.advanceTo(march(8, 12))
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'open', 'open', 'open'])
  expect((await world.subscription(id)).status).toBe('active')

  world.script.state.credentialsRefused = false
  expect(await liftChargingStop(world.app)).toBe(true)
  await sleep(1_100)
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'missed', 'missed', 'paid'])
  expect(world.script.book.size).toBe(2)
  expect(await eventsOf('invoice.held')).toEqual([1, 2])
  expect(await eventsOf('subscription.past_due')).toEqual([])
  const [, held] = (await world.invoices('acct_1')) as [unknown, object]
  expect(held).toMatchObject({ status: 'open', attempt_count: 0, payments: [], next_attempt_at: null })

  // As if nobody had been there on those days.
  await world.advanceTo(march(9, 12))
  expect(await fates()).toEqual(['paid', 'missed', 'missed', 'paid', 'paid'])
  const [first, second] = (await listHeld(world.app.db, 9)).map(({ invoiceId }) => invoiceId)
  expect(await chargeHeldInvoice(world.app, first!, 'operator')).toBe('paid')
  expect(await chargeHeldInvoice(world.app, first!, 'operator')).toBe('not_held')
  expect(await voidHeldInvoice(world.app, second!, 'operator')).toBe('void')
  expect(await fates()).toEqual(['paid', 'paid', 'void', 'paid', 'paid'])
  expect(world.script.book.size).toBe(4)
  expect((await world.subscription(id)).status).toBe('active')
})

test('the same while no connection comes about', async () => {
  await subscribe()
  goAway()
  await world.advanceTo(march(8, 12))
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'open', 'open', 'open'])
  comeBack()
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'missed', 'missed', 'paid'])
  expect(world.script.book.size).toBe(2)
})

test('over HTTP: a provider that refuses our key for three days', async () => {
  const service = await openWorld({ now: '2026-11-14T00:00:00Z', worker: true })
  try {
    expect((await service.ask('PUT', '/api/billing/plans/daily', { body: daily })).status).toBe(200)
    const body = {
      account_id: 'acct_1',
      plan_id: 'daily',
      payment_method: { billing_key: 'bk_test_ok' },
    }
    expect((await service.post('/api/billing/subscribe', body)).status).toBe(201)
    await service.post('/api/sandbox/provider/faults', { refuse_credentials: true })
    for (let n = 0; n < 3; n++) expect((await service.advanceBy('P1D')).status).toBe(200)
    await service.post('/api/sandbox/provider/faults', {})
    expect(await liftChargingStop(service.app.billing)).toBe(true)
    const told = async () =>
      (await service.get('/api/billing/invoices?account_id=acct_1')).body.data.invoices.map(
        ({ hold, status }: { hold: string | null; status: string }) => hold ?? status,
      )
    await expect.poll(told, { timeout: 30_000 }).toEqual(['paid', 'missed', 'missed', 'paid'])
    const { payments } = (await service.get('/api/sandbox/provider/payments?limit=100')).body.data
    expect(payments).toHaveLength(2)
  } finally {
    await service.close()
  }
})

test('what was sent and never answered is looked up and settled, not held', async () => {
  await subscribe()
  world.script.nextCharges({ kind: 'lost_answer' })
  world.script.hooks.afterCharge = async () => goAway()
  await world.advanceTo(march(8, 12))
  world.script.hooks.afterCharge = async () => {}
  comeBack()
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'paid', 'missed', 'paid'])
  expect(world.script.book.size).toBe(3)
})

test('nothing is held before the provider has said that it knows nothing of it, and what it knows is settled', async () => {
  await subscribe()
  goAway()
  await world.advanceTo(march(8, 12))
  const unsent =
    'select provider_reference as reference from billing.payment where sent_at is null order by id'
  const [{ reference }] = (await world.rows<{ reference: string }>(unsent)) as [{ reference: string }]
  // Lookups go unanswered a while longer than charges.
  world.script.forgetPlays()
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'open', 'open', 'open'])
  // A database since lost had sent the oldest.
  const [paid] = world.script.book.values()
  world.script.book.set(reference, { ...paid!, reference, refunds: [] })
  comeBack()
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'paid', 'missed', 'paid'])
  expect(world.script.book.size).toBe(3)
})

test('whoever cancels meanwhile is charged for the last period, and no newer one is waited for', async () => {
  const id = await subscribe()
  goAway()
  await world.advanceTo(march(7, 12))
  expect((await world.post('/cancel', { subscription_id: id })).data.status).toBe('canceling')
  await world.advanceTo(march(10))
  expect((await world.subscription(id)).status).toBe('canceled')
  comeBack()
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'missed', 'paid'])
})

test('a trial that converts meanwhile is charged for its newest period alone', async () => {
  await world.post('/trial', { account_id: 'acct_1', plan_id: 'daily' })
  expect((await world.subscribe('acct_1', { plan: 'daily' })).status).toBe(201)
  goAway()
  await world.advanceTo(march(8, 12))
  comeBack()
  await lookAgain()
  expect(await fates()).toEqual(['missed', 'missed', 'paid'])
  expect((await world.subscription((await world.invoices('acct_1'))[0].subscription_id)).status).toBe(
    'active',
  )
})

test('a first charge is no renewal: it is never held', async () => {
  await world.close()
  world = await openBillingWorld({ stoppable: true, terms: { catchUpPeriods: 0 } })
  world.script.nextCharges({ kind: 'lost_request' })
  world.script.state.silent = true
  expect((await world.subscribe('acct_1')).status).toBe(202)
  await world.rows(`update billing.payment set status = 'sending', sent_at = null`)
  world.skipTo(march(6))
  comeBack()
  await lookAgain()
  expect(await fates()).toEqual(['paid'])
})

test('a period is held too when nobody was there to open the newer ones', async () => {
  await subscribe()
  goAway()
  await world.advanceTo(march(6, 12))
  comeBack()
  world.skipTo(march(9, 12))
  await world.forgetLeases()
  await sendUnsentPayments(world.app)
  expect(await fates()).toEqual(['paid', 'missed'])
  await world.runDue()
  expect(await fates()).toEqual(['paid', 'missed', 'missed', 'missed', 'paid'])
  expect(world.script.book.size).toBe(2)
})

test('nothing is held while the calendar stands still: it is not known yet who has left', async () => {
  const id = await subscribe()
  goAway()
  await world.advanceTo(march(6, 12))
  comeBack()
  await stopCharging(world.app.db, 'restored', world.app.clock(), { stopsCalendar: true })
  await sleep(1_100)
  world.skipTo(march(8, 12))
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'open'])
  expect(await resumeCharging(world.app)).toBe(true)
  await sleep(1_100)
  await lookAgain()
  // A database since lost may have sent the oldest one, and that may still arrive until its key is forgotten.
  expect(await fates()).toEqual(['paid', 'open', 'missed', 'paid'])
  await world.advanceTo(march(9, 14))
  expect(await fates()).toEqual(['paid', 'missed', 'missed', 'paid', 'paid'])
  expect(world.script.book.size).toBe(3)
  expect((await world.subscription(id)).status).toBe('active')
})

test('what a lost database sent is settled when it arrives after all, and is not held', async () => {
  await subscribe()
  goAway()
  await world.advanceTo(march(7, 12))
  comeBack()
  await stopCharging(world.app.db, 'restored', world.app.clock(), { stopsCalendar: true })
  expect(await resumeCharging(world.app)).toBe(true)
  await sleep(1_100)
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'open', 'paid'])
  const waiting = `select provider_reference as reference from billing.payment where status = 'unknown'`
  const [{ reference }] = (await world.rows<{ reference: string }>(waiting)) as [{ reference: string }]
  const [paid] = world.script.book.values()
  world.script.book.set(reference, { ...paid!, reference, refunds: [] })
  await world.advanceTo(march(8, 8))
  expect(await fates()).toEqual(['paid', 'paid', 'paid'])
})

test('with a newer period declined it is held without a part in the dunning', async () => {
  const id = await subscribe()
  goAway()
  await world.advanceTo(march(6, 12))
  comeBack()
  world.script.declineCard('bk_test_ok', 'insufficient_funds')
  await world.rows(
    `update billing.payment set next_lookup_at = clock_timestamp() + interval '1 hour' where sent_at is null`,
  )
  await world.advanceTo(march(7, 12))
  expect((await world.subscription(id)).status).toBe('past_due')
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'missed', 'open'])
  world.script.declineCard('bk_test_ok', null)
  await world.advanceTo(march(8, 12))
  expect(await fates()).toEqual(['paid', 'missed', 'paid', 'paid'])
  expect((await world.subscription(id)).status).toBe('active')
})

test('an operator collects it later with the payment method of then, under the key that was never used', async () => {
  const id = await subscribe()
  goAway()
  await world.advanceTo(march(7, 12))
  const [{ reference }] = (await world.rows<{ reference: string }>(
    'select provider_reference as reference from billing.payment where sent_at is null order by id limit 1',
  )) as [{ reference: string }]
  comeBack()
  const offered = { subscription_id: id, payment_method: { billing_key: 'bk_test_other' } }
  expect((await world.post('/payment-method', offered)).status).toBe(200)
  await lookAgain()
  expect(await fates()).toEqual(['paid', 'missed', 'paid'])
  const asked: { key: string; billingKey: string }[] = []
  world.script.hooks.beforeCharge = async ({ key, billingKey }) => void asked.push({ key, billingKey })
  expect(await chargeHeldInvoice(world.app, (await invoiceIds())[1]!, 'operator')).toBe('paid')
  expect(asked).toEqual([{ key: reference, billingKey: 'bk_test_other' }])
})

test('two processes at it hold it once; one that was sent meanwhile is not held', async () => {
  await subscribe()
  goAway()
  await world.advanceTo(march(7, 12))
  comeBack()
  const oldest = `(select id from billing.payment where sent_at is null order by id limit 1)`
  const only = () =>
    world.rows(
      `update billing.payment set sending_until = null, next_lookup_at = clock_timestamp() where id = ${oldest}`,
    )
  await only()
  const slow = world.script.slowNextLookup()
  const sleeper = sendUnsentPayments(world.app)
  await slow.read
  await only()
  await sendUnsentPayments(world.app)
  expect(await fates()).toEqual(['paid', 'missed', 'open'])
  slow.arrive()
  await sleeper
  expect(await eventsOf('invoice.held')).toEqual([1])

  await world.advanceTo(march(8, 8))
  goAway()
  await world.forgetLeases()
  await world.advanceTo(march(10, 12))
  comeBack()
  await only()
  const late = world.script.slowNextLookup()
  const second = sendUnsentPayments(world.app)
  await late.read
  await world.rows(`update billing.payment set sent_at = $1 where id = ${oldest}`, [world.app.clock()])
  late.arrive()
  await second
  expect((await eventsOf('invoice.held')).length).toBe(1)
})
