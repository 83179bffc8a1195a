import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { settleFromProvider } from '../../src/billing/collection/settle-from-provider.ts'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { retryUnmatched, settleUnmatched } from '../../src/billing/refunds/settle-unmatched.ts'
import { listUnmatched, measureUnmatched } from '../../src/billing/refunds/unmatched-rows.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'
import type { RefundPlay } from './scripted-provider.ts'

let world: BillingWorld
let paymentId: string
let reference: string
beforeEach(async () => {
  world = await openBillingWorld()
})
afterEach(async () => {
  expect(BigInt((await world.books())['provider']!)).toBe(world.script.balance('KRW'))
  expect(world.faults).toEqual([])
  await world.close()
})

/** A charge that was declined turns out to have taken money, and what is tried with its refund goes wrong. */
async function takeForNothing(...plays: RefundPlay[]) {
  world.script.nextCharges({ kind: 'decline', code: 'do_not_honor' })
  await world.subscribe('acct')
  const [payment] = await world.rows<{ id: string; provider_reference: string }>(
    'select * from billing.payment',
  )
  paymentId = payment!.id
  reference = payment!.provider_reference
  Object.assign(world.script.book.get(reference)!, { status: 'paid', code: null })
  world.script.nextRefunds(...plays)
  await settleFromProvider(world.app, reference)
  await world.forgetLeases()
  await world.runDue()
}

const reconcile = () => reconcilePayments(world.app, new Date('2026-01-01'), new Date('2027-01-01'))

test("what never counted as paid does not count as refunded either, in the account's summary as in the whole", async () => {
  await takeForNothing()
  expect(await world.rows('select status from billing.refund')).toEqual([{ status: 'succeeded' }])
  for (const query of ['', '?account_id=acct'])
    expect((await world.get(`/summary${query}`)).data.days).toEqual([])
})

/** Everywhere where somebody may look. */
async function shown() {
  const { counts, oldestSeconds } = await measureUnmatched(world.app.db, world.app.clock())
  return {
    listed: (await listUnmatched(world.app.db, 10)).map(({ paymentId: id, left, reason }) => [
      id,
      left.minor,
      reason,
    ]),
    reconcile: (await reconcile()).differences.map(({ kind, paymentId: id }) => [kind, id]),
    alarms: (await listAlarms(world.app.db, 10)).map(({ kind, subject }) => [kind, subject]),
    ledger: (await checkLedger(world.app.db)).faults.map(({ check, subject }) => [check, subject]),
    counted: Object.values(counts).reduce((sum, count) => sum + count, 0),
    oldestSeconds,
  }
}
const nowhere = { listed: [], reconcile: [], alarms: [], ledger: [], counted: 0, oldestSeconds: 0 }
const everywhere = (reason: string, left = 9900n) => ({
  listed: [[paymentId, left, reason]],
  reconcile: [['unmatched', paymentId]],
  alarms: [['unmatched_money', paymentId]],
  ledger: [['unmatched_money_went_back', paymentId]],
  counted: 1,
})

describe('money that pays for nothing', () => {
  test('is nobody’s business once it went back by itself', async () => {
    await takeForNothing()
    expect(world.script.balance('KRW')).toBe(0n)
    expect(await shown()).toEqual(nowhere)
  })

  test('shows everywhere when its refund is declined, and grows old, until a retry gives it back', async () => {
    await takeForNothing({ kind: 'declined' })
    expect(await shown()).toMatchObject(everywhere('declined'))
    world.skipTo('2026-03-06T09:00:00+09:00')
    expect((await shown()).oldestSeconds).toBe(86_400)
    world.script.nextRefunds({ kind: 'declined' })
    expect(await retryUnmatched(world.app, paymentId, 'operator')).toBe('declined')
    expect(await shown()).toMatchObject(everywhere('declined'))
    expect(await retryUnmatched(world.app, paymentId, 'operator')).toBe('refunded')
    expect(await retryUnmatched(world.app, paymentId, 'operator')).toBe('not_unmatched')
    expect(await shown()).toEqual(nowhere)
    expect(await world.books()).toEqual({ provider: 0, unclaimed: 0 })
    expect(
      await world.rows(`select action, actor from platform.audit where target = $1`, [paymentId]),
    ).toEqual(Array.from({ length: 2 }, () => ({ action: 'unmatched.retry', actor: 'operator' })))
  })

  test('shows when its refund comes back', async () => {
    await takeForNothing()
    world.script.book.get(reference)!.refunds[0]!.status = 'failed'
    await settleFromProvider(world.app, reference)
    expect(await shown()).toMatchObject(everywhere('declined'))
  })

  test('waits for the bank while it is disputed, and goes back by itself once that is won', async () => {
    await takeForNothing({ kind: 'disputed' })
    expect(await shown()).toMatchObject({ ...everywhere('disputed'), reconcile: expect.any(Array) })
    expect(await retryUnmatched(world.app, paymentId, 'operator')).toBe('disputed')
    world.script.dispute(reference, 'won', world.app.clock())
    await settleFromProvider(world.app, reference)
    await world.runDue()
    expect(world.script.balance('KRW')).toBe(0n)
    expect(await shown()).toEqual(nowhere)
  })

  test('is not there while the bank holds it, and goes back by itself once the bank has given it back', async () => {
    await takeForNothing({ kind: 'disputed' })
    world.script.dispute(reference, 'open', world.app.clock())
    for (const status of ['open', 'won'] as const) {
      world.script.dispute(reference, status, world.app.clock())
      world.script.withdraw(reference)
      await settleFromProvider(world.app, reference)
      await world.runDue()
      expect(await shown()).toEqual(nowhere)
      expect(await world.books()).toEqual({ provider: 0, unclaimed: 0 })
    }
    world.script.dispute(reference, 'won', world.app.clock())
    await settleFromProvider(world.app, reference)
    await world.runDue()
    expect(world.script.book.get(reference)!.refunds).toHaveLength(1)
    expect(await shown()).toEqual(nowhere)
  })

  test('is no longer owed once the bank gave it back', async () => {
    await takeForNothing({ kind: 'disputed' })
    world.script.dispute(reference, 'lost', world.app.clock())
    await settleFromProvider(world.app, reference)
    expect(await shown()).toEqual(nowhere)
    expect(await world.books()).toEqual({ provider: 0, unclaimed: 0 })
  })

  test('is settled by hand once, with a note that an erasure takes away', async () => {
    await takeForNothing({ kind: 'declined' })
    const settle = () => settleUnmatched(world.app, paymentId, 'bank transfer to Kim', 'operator')
    expect((await Promise.all([settle(), settle(), settle()])).sort()).toEqual([false, false, true])
    expect(await shown()).toEqual(nowhere)
    expect(await world.books()).toEqual({ provider: 9900, unclaimed: 0, settlements: -9900 })
    expect(await world.rows(`select action from platform.audit where target = $1`, [paymentId])).toEqual([
      { action: 'unmatched.settle' },
    ])
    await world.ask('DELETE', '/accounts/acct')
    expect(await world.rows('select amount, note from billing.unmatched_settlement')).toEqual([
      { amount: 9900n, note: null },
    ])
  })

  test('shows again when it goes back a second time', async () => {
    await takeForNothing({ kind: 'declined' })
    await settleUnmatched(world.app, paymentId, 'bank transfer', 'operator')
    const refund = {
      reference: null,
      amount: { minor: 9900n, currency: 'KRW' as const },
      status: 'succeeded' as const,
    }
    world.script.book.get(reference)!.refunds.push(refund)
    await settleFromProvider(world.app, reference)
    expect(await shown()).toMatchObject(everywhere('given_back_twice', -9900n))
    expect(await settleUnmatched(world.app, paymentId, 'the customer sent it back', 'operator')).toBe(true)
    expect(await shown()).toEqual(nowhere)
    expect(await world.books()).toEqual({ provider: 0, unclaimed: 0, settlements: 0 })
  })
})
