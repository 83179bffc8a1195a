import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { liftChargingStop, liftCredentialStop } from '../../src/billing/charging-stop.ts'
import { findChargingStop } from '../../src/billing/charging-stop-rows.ts'
import { settleFromProvider } from '../../src/billing/collection/settle-from-provider.ts'
import type { ChargeRequest } from '../../src/billing/providers/port.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'
import type { ChargePlay } from './scripted-provider.ts'

let world: BillingWorld
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

const won = (minor: bigint) => ({ minor, currency: 'KRW' as const })
const alarms = async () => (await listAlarms(world.app.db, 10)).map(({ kind, subject }) => [kind, subject])
const payment = async () =>
  (
    await world.rows<{ id: string; status: string; code: string | null; reference: string }>(
      'select id, status, code, provider_reference as reference from billing.payment order by id desc limit 1',
    )
  )[0]!
/** Looks at what is in doubt, as the sweep does when its wait is over. */
async function lookAgain(): Promise<void> {
  await world.forgetLeases()
  await world.runDue()
}

describe('"no" to a re-send settles nothing by itself', () => {
  const refused: ChargePlay = { kind: 'refuse', code: 'currency_not_supported' }
  const declined: ChargePlay = { kind: 'decline_unrecorded', code: 'do_not_honor' }

  /** The first send is on its way, and nobody has heard of it. */
  async function inDoubt(): Promise<void> {
    world = await openBillingWorld()
    world.script.nextCharges({ kind: 'lost_request' })
    expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(202)
  }

  test.each([refused, declined])(
    '%o while the first send is running: the money is found, not kept',
    async (no) => {
      await inDoubt()
      // The sweep meets the attempt and its card, so that it looks twice.
      world.script.nextCharges(no, no)
      await lookAgain()
      expect(await payment()).toMatchObject({ status: 'unknown', code: null })
      // The first send arrives after all.
      await lookAgain()
      expect(await payment()).toMatchObject({ status: 'succeeded' })
      expect(await world.subscribe('acct_1', { key: 'k' })).toMatchObject({ status: 201 })
      expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })
    },
  )

  test.each([refused, declined])(
    '%o to a renewal that was sent again: however late the first send arrives, nobody has charged it a second time',
    async (no) => {
      world = await openBillingWorld()
      const { subscription_id } = (await world.subscribe('acct_1')).data
      const arriveLate = holdUpNextCharge()
      world.script.nextCharges(no, no)
      await world.advanceTo('2026-04-05T09:00:00+09:00')
      await lookAgain()
      expect(await payment()).toMatchObject({ status: 'unknown', code: null })
      // Past the first day of dunning nobody has said yet what became of it.
      world.script.state.silent = true
      await world.advanceTo('2026-04-07T09:00:00+09:00')
      expect(await world.subscription(subscription_id)).toMatchObject({ status: 'active' })
      arriveLate()
      world.script.state.silent = false
      await lookAgain()
      expect(await world.invoices('acct_1')).toMatchObject([
        { status: 'paid', attempt_count: 1, payments: [{ status: 'succeeded' }] },
        { status: 'paid' },
      ])
      expect(await world.books()).toEqual({ provider: 2 * 9900, revenue: -2 * 9900 })
      expect(world.script.balance('KRW')).toBe(2n * 9900n)
      // Nor is it charged on any other day of dunning.
      await world.advanceTo('2026-04-20T09:00:00+09:00')
      expect(world.script.book.size).toBe(2)
    },
  )

  /** The next charge is on its way, and nobody hears of it. Returns what has it arrive and take its money. */
  function holdUpNextCharge(): () => void {
    const { script } = world
    let held: ChargeRequest | undefined
    script.nextCharges({ kind: 'lost_request' })
    script.hooks.beforeCharge = async (request) => {
      held ??= request
    }
    return () => {
      const { key: reference, accountId, amount } = held!
      const paid = { status: 'paid', code: null, at: world.app.clock(), dispute: null } as const
      script.book.set(reference, { reference, accountId, amount, ...paid, refunds: [] })
    }
  }

  test('a "no" that the provider marks as its first answer is the answer', async () => {
    await inDoubt()
    world.script.nextCharges({ ...declined, replayed: true } as ChargePlay)
    await lookAgain()
    expect(await payment()).toMatchObject({ status: 'failed', code: 'do_not_honor' })
    expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(402)
  })

  test('the same "no" is believed after three lookups over an hour that found nothing, and not before', async () => {
    await inDoubt()
    world.script.nextCharges(...Array.from({ length: 20 }, () => refused))
    const { calls } = world.script
    for (let round = 0; round < 5; round++) await lookAgain()
    expect(await payment()).toMatchObject({ status: 'unknown' })
    await world.advanceTo('2026-03-05T09:59:59+09:00')
    expect(await payment()).toMatchObject({ status: 'unknown' })
    const before = calls.charge
    await world.advanceTo('2026-03-05T10:00:00+09:00')
    expect(await payment()).toMatchObject({ status: 'failed', code: 'currency_not_supported' })
    expect(calls.charge).toBe(before + 1)
    expect(await world.invoices('acct_1')).toMatchObject([{ status: 'void' }])
  })

  test('another "no" in between starts the hour anew', async () => {
    await inDoubt()
    world.script.nextCharges(refused, refused, declined, ...Array.from({ length: 20 }, () => refused))
    await lookAgain()
    await world.advanceTo('2026-03-05T10:00:00+09:00')
    expect(await payment()).toMatchObject({ status: 'unknown' })
    await world.advanceTo('2026-03-05T12:00:00+09:00')
    expect(await payment()).toMatchObject({ status: 'failed', code: 'currency_not_supported' })
  })

  test('a refund that is declined when it is sent again stays in doubt, and what the first send gave back is booked once', async () => {
    world = await openBillingWorld()
    await world.subscribe('acct_1')
    const { invoice_id } = (await world.invoices('acct_1'))[0]
    world.script.nextRefunds({ kind: 'lost_request' }, { kind: 'declined' })
    expect((await world.post('/refund', { invoice_id, amount: 400 }, { key: 'r' })).status).toBe(202)
    await lookAgain()
    expect(await world.rows('select status, step from billing.refund')).toEqual([
      { status: 'pending', step: 'unknown' },
    ])
    await lookAgain()
    expect((await world.post('/refund', { invoice_id, amount: 400 }, { key: 'r' })).status).toBe(200)
    world.script.nextRefunds({ kind: 'lost_request' }, { kind: 'declined_replay' })
    expect((await world.post('/refund', { invoice_id, amount: 500 }, { key: 's' })).status).toBe(202)
    await lookAgain()
    expect((await world.post('/refund', { invoice_id, amount: 500 }, { key: 's' })).status).toBe(402)
    expect(await world.books()).toEqual({ provider: 9500, revenue: -9900, refunds: 400 })
  })
})

describe('an answer about other money than ours is never booked', () => {
  test('a charge whose answer and lookup name another amount stays in doubt with an alarm until they agree', async () => {
    world = await openBillingWorld()
    world.script.hooks.afterCharge = async ({ key }) => {
      world.script.book.get(key)!.amount = won(99_000n)
    }
    const { status, data } = await world.subscribe('acct_1', { key: 'k' })
    expect([status, data.status]).toEqual([202, 'incomplete'])
    const { id, reference } = await payment()
    expect(await alarms()).toEqual([['amount_differs', id]])
    // However long it takes: nothing is booked, nothing is given up.
    await world.advanceTo('2026-03-08T09:00:00+09:00')
    await lookAgain()
    expect(await payment()).toMatchObject({ status: 'unknown' })
    expect(await world.books()).toEqual({})

    world.script.book.get(reference)!.amount = won(9_900n)
    await lookAgain()
    expect(await payment()).toMatchObject({ status: 'succeeded' })
    expect(await alarms()).toEqual([])
    expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })
  })

  test('what a notification finds while the charge is on its way, its sender is to tell', async () => {
    world = await openBillingWorld()
    world.script.hooks.afterCharge = async ({ key }) => {
      const charge = world.script.book.get(key)!
      charge.amount = won(99_000n)
      expect(await settleFromProvider(world.app, key)).toBe('not_known')
      charge.amount = won(9_900n)
    }
    expect((await world.subscribe('acct_1')).status).toBe(201)
    expect(await alarms()).toEqual([])
  })

  test('an alarm that came too late goes when both books agree', async () => {
    world = await openBillingWorld()
    await world.subscribe('acct_1')
    const { id, reference } = await payment()
    world.script.book.get(reference)!.amount = won(99_000n)
    expect(await settleFromProvider(world.app, reference)).toBe('not_known')
    expect(await alarms()).toEqual([['amount_differs', id]])
    world.script.book.get(reference)!.amount = won(9_900n)
    const [from, to] = [new Date('2026-01-01'), new Date('2027-01-01')]
    expect(await reconcilePayments(world.app, from, to)).toMatchObject({ repaired: [], differences: [] })
    expect(await alarms()).toEqual([])
  })

  test('another currency is as wrong as another amount, and another card is no alarm', async () => {
    world = await openBillingWorld()
    world.script.hooks.afterCharge = async ({ key }) => {
      world.script.book.get(key)!.amount = { minor: 9_900n, currency: 'USD' }
    }
    expect((await world.subscribe('acct_1')).status).toBe(202)
    expect(await alarms()).toMatchObject([['amount_differs', expect.any(String)]])
    world.script.hooks.afterCharge = async () => {}
    const lookup = world.script.provider.findPayment
    world.script.provider.findPayment = async (reference) => {
      const found = await lookup(reference)
      if (found.kind !== 'found') return found
      const card = { brand: 'test', last4: '0001', expires: '01/2031' }
      return { kind: 'found', payment: { ...found.payment, amount: won(9_900n), refunded: won(0n), card } }
    }
    await lookAgain()
    expect(await payment()).toMatchObject({ status: 'succeeded' })
    expect(await alarms()).toEqual([])
  })

  test.each(['mismatch', 'key_used_otherwise'] as const)(
    '%s: a lookup decides what the answer could not',
    async (kind) => {
      world = await openBillingWorld()
      const { findPayment } = world.script.provider
      world.script.provider.findPayment = async () => ({ kind: 'unknown' })
      world.script.nextCharges({ kind })
      expect((await world.subscribe('acct_1')).status).toBe(202)
      const { id } = await payment()
      expect(await alarms()).toEqual([[kind === 'mismatch' ? 'amount_differs' : kind, id]])
      world.script.provider.findPayment = findPayment
      await lookAgain()
      expect(await payment()).toMatchObject({ status: 'succeeded' })
      expect(await alarms()).toEqual([])
      expect(world.script.calls.charge).toBe(1)
    },
  )

  test('a notification and reconcile read the amount too, also of what is settled', async () => {
    world = await openBillingWorld()
    await world.subscribe('acct_1')
    const { id, reference } = await payment()
    const record = world.script.book.get(reference)!
    record.amount = won(99_000n)
    record.refunds.push({ reference: null, amount: won(50_000n), status: 'succeeded' })
    expect(await settleFromProvider(world.app, reference)).toBe('not_known')
    const [from, to] = [new Date('2026-01-01'), new Date('2027-01-01')]
    expect((await reconcilePayments(world.app, from, to)).differences).toMatchObject([{ kind: 'amount' }])
    expect(await alarms()).toEqual([['amount_differs', id]])
    expect(await world.books()).toEqual({ provider: 9900, revenue: -9900 })
    record.amount = won(9_900n)
    record.refunds = []
    expect(await settleFromProvider(world.app, reference)).toBe('settled')
    expect(await alarms()).toEqual([])
  })

  test('a refund whose answer or record names another amount is in doubt, with an alarm', async () => {
    world = await openBillingWorld()
    await world.subscribe('acct_1')
    const { invoice_id } = (await world.invoices('acct_1'))[0]
    const [record] = [...world.script.book.values()]
    world.script.nextRefunds({ kind: 'mismatch' })
    const asked = await world.post('/refund', { invoice_id, amount: 400 })
    expect(asked.status).toBe(202)
    expect(await alarms()).toEqual([['amount_differs', asked.data.refund_id]])
    record!.refunds[0]!.amount = won(4_000n)
    await lookAgain()
    expect(await world.rows('select status from billing.refund')).toEqual([{ status: 'pending' }])
    record!.refunds[0]!.amount = won(400n)
    await lookAgain()
    expect(await alarms()).toEqual([])
    expect(await world.books()).toEqual({ provider: 9500, revenue: -9900, refunds: 400 })
  })
})

describe('our own credentials are refused', () => {
  test('charging stops with an alarm, nobody becomes past due, and it goes on once an operator says so', async () => {
    world = await openBillingWorld({ stoppable: true })
    await world.subscribe('acct_1')
    await world.subscribe('acct_2')
    world.script.state.credentialsRefused = true
    await world.advanceTo('2026-04-05T09:00:00+09:00')
    expect(await alarms()).toEqual([['credentials_refused', 'scripted']])
    expect(await findChargingStop(world.app.db)).toMatchObject({ cause: 'credentials_refused' })
    const sent = world.script.calls.charge
    await world.advanceTo('2026-04-20T09:00:00+09:00')
    for (let round = 0; round < 3; round++) await lookAgain()
    expect(world.script.calls.charge).toBe(sent)
    const states = () => world.rows('select distinct status from billing.subscription')
    expect(await states()).toEqual([{ status: 'active' }])

    const refused = await world.subscribe('acct_3', { key: 'k' })
    expect([refused.status, refused.body.error.code]).toEqual([503, 'provider_unavailable'])
    world.script.state.credentialsRefused = false
    expect(await liftChargingStop(world.app)).toBe(true)
    expect(await alarms()).toEqual([])
    await sleep(1_100)
    await lookAgain()
    expect(await states()).toEqual([{ status: 'active' }, { status: 'canceled' }])
    expect((await world.invoices('acct_1'))[0]).toMatchObject({ status: 'paid', attempt_count: 1 })
    expect((await world.subscribe('acct_3', { key: 'k' })).status).toBe(201)
  })

  test('once they are taken again a "no" is a "no" at once: no database was lost', async () => {
    world = await openBillingWorld({ stoppable: true })
    await world.subscribe('acct_1')
    world.script.state.credentialsRefused = true
    expect((await world.subscribe('acct_2')).status).toBe(503)
    world.script.state.credentialsRefused = false
    expect(await liftCredentialStop(world.app, 'scripted')).toBe(true)
    world.script.nextRefunds({ kind: 'declined' })
    const [invoice] = await world.invoices('acct_1')
    expect(await world.post('/refund', { invoice_id: invoice.invoice_id })).toMatchObject({
      status: 402,
      body: { error: { code: 'refund_declined' } },
    })
  })

  test('a charge that was sent before stays in doubt, and a lookup that is refused proves nothing', async () => {
    world = await openBillingWorld({ stoppable: true })
    world.script.hooks.afterCharge = async () => {
      world.script.state.credentialsRefused = true
    }
    world.script.nextCharges({ kind: 'lost_answer' })
    expect((await world.subscribe('acct_1')).status).toBe(202)
    expect(await alarms()).toEqual([['credentials_refused', 'scripted']])
    await lookAgain()
    expect(await payment()).toMatchObject({ status: 'unknown' })
    world.script.state.credentialsRefused = false
    await lookAgain()
    // Lookups pass while charging is stopped.
    expect(await payment()).toMatchObject({ status: 'succeeded' })
    expect(world.script.calls.charge).toBe(1)
  })
})
