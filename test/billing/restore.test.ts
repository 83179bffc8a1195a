import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type HistoryLine, listHistory } from '../../src/billing/audit/export-history.ts'
import { installationId } from '../../src/billing/audit/history-rows.ts'
import { stopCharging } from '../../src/billing/charging-stop.ts'
import { chargeHeldInvoice } from '../../src/billing/collection/charge-held-invoice.ts'
import { listHeld } from '../../src/billing/collection/held-invoice-rows.ts'
import { resumePaymentMethods } from '../../src/billing/collection/try-payment-method.ts'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { resumeCharging } from '../../src/billing/lifecycle/resume-charging.ts'
import { findMethod, insertMethod } from '../../src/billing/payments/payment-method-rows.ts'
import { adoptPayments, ChargingNotStopped } from '../../src/billing/reconciliation/adopt-payments.ts'
import { applyHistory } from '../../src/billing/reconciliation/apply-history.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { rollUpDays } from '../../src/billing/summary/roll-up-days.ts'
import { newToken, tokenIdOf } from '../../src/platform/access/token.ts'
import { revokeToken, rotateToken } from '../../src/platform/access/token-rows.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { appendChain, ChainBroken, readChain } from '../../src/platform/chained-file.ts'
import { copyDatabase, dropDatabase } from '../world.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
let backup: string | undefined
beforeEach(async () => {
  world = await openBillingWorld({ now: '2026-03-05T09:00:00+09:00' })
})
afterEach(async () => {
  expect(await checkLedger(world.app.db)).toMatchObject({ faults: [] })
  expect(BigInt((await world.books())['provider'] ?? 0)).toBe(world.script.balance('KRW'))
  expect(world.faults).toEqual([])
  await world.close()
  if (backup) await dropDatabase(backup)
  backup = undefined
})

/** A backup is taken, and life goes on. */
async function dump() {
  const { url, script } = world
  const now = world.app.clock()
  await world.leave()
  backup = await copyDatabase(url)
  world = await openBillingWorld({ on: { url, script }, now })
}

/** The database is lost; what is there is the backup, and the time is what it is. */
async function restore(at = world.app.clock()): Promise<HistoryLine[]> {
  const lines = await listLines()
  const { script } = world
  await world.close()
  world = await openBillingWorld({ on: { url: backup!, script }, now: at })
  backup = undefined
  await stopCharging(world.app.db, 'restored', at, { stopsCalendar: true })
  return lines
}

async function listLines(): Promise<HistoryLine[]> {
  const lines: HistoryLine[] = []
  for await (const line of listHistory(world.app.db, () => false)) lines.push(line)
  return lines
}

const [from, to] = [new Date('2026-01-01'), new Date('2027-01-01')]
const adopt = () => adoptPayments(world.app, from, to)
const reconcile = () => reconcilePayments(world.app, from, to)
async function goOn() {
  expect(await resumeCharging(world.app)).toBe(true)
  await world.runDue()
}
const idOf = async (account: string) =>
  (await world.get(`/subscriptions?account_id=${account}`)).data.subscriptions[0].subscription_id
const statusOf = async (account: string) => (await world.subscription(await idOf(account))).status
const numbers = async (account: string) =>
  (await world.invoices(account)).map(
    // biome-ignore lint/suspicious/noExplicitAny: the assertions pin the fields down
    ({ number, period_start, status, amount_refunded, payments }: any) => ({
      number,
      period_start,
      status,
      amount_refunded,
      // biome-ignore lint/suspicious/noExplicitAny: see above
      payments: payments.map(({ reference, status: outcome }: any) => [reference, outcome]),
    }),
  )
/** How often the provider took money for an account. */
const taken = (account: string) =>
  [...world.script.book.values()].filter((one) => one.accountId === account && one.status === 'paid').length

describe('after a restore', () => {
  test('nobody is charged twice, and everything stands where it stood, number for number', async () => {
    for (const account of ['plain', 'retried', 'failing', 'refunded', 'disputed'])
      await world.subscribe(account, { card: `bk_test_${account}` })
    await world.advanceTo('2026-04-05T10:00:00+09:00')
    await dump()
    world.script.declineCard('bk_test_retried', 'insufficient_funds')
    world.script.declineCard('bk_test_failing', 'insufficient_funds')
    await world.advanceTo('2026-05-05T12:00:00+09:00')
    world.script.declineCard('bk_test_retried', null)
    await world.advanceTo('2026-05-07T00:00:00+09:00')
    const [newest] = await world.invoices('refunded')
    for (const amount of [100, 200])
      expect((await world.post('/refund', { invoice_id: newest.invoice_id, amount })).status).toBe(200)
    const [disputed] = await world.invoices('disputed')
    world.script.dispute(disputed.payments[0].reference, 'lost', world.app.clock())
    await reconcile()
    const accounts = ['plain', 'retried', 'failing', 'refunded', 'disputed']
    const before = Object.fromEntries(
      await Promise.all(accounts.map(async (one) => [one, [await statusOf(one), await numbers(one)]])),
    )
    const books = await world.books()
    const charges = world.script.book.size
    world.skipTo('2026-05-20T00:00:00+09:00')

    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    expect(await adopt()).toEqual({ adopted: charges - 10, subscriptions: 5, failed: [] })
    expect(await adopt()).toEqual({ adopted: 0, subscriptions: 0, failed: [] })
    expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
    const after = Object.fromEntries(
      await Promise.all(accounts.map(async (one) => [one, [await statusOf(one), await numbers(one)]])),
    )
    expect(after).toEqual(before)
    expect(await world.books()).toEqual(books)
    expect(world.script.book.size).toBe(charges)

    await goOn()
    await world.advanceTo('2026-06-06T00:00:00+09:00')
    for (const account of ['plain', 'retried', 'refunded', 'disputed']) expect(taken(account)).toBe(4)
    // The next refund has a number of its own, so it is none that was done before.
    const { status, data } = await world.post('/refund', {
      invoice_id: after['refunded'][1][0].invoice_id ?? (await world.invoices('refunded'))[1].invoice_id,
      amount: 100,
    })
    expect([status, data.amount]).toEqual([200, 100])
    expect((await world.invoices('refunded'))[1].amount_refunded).toBe(400)
  })

  test('what the lost database may have sent for an invoice that is withdrawn now is looked up until it cannot arrive', async () => {
    await world.subscribe('acct_1')
    world.script.declineCard('bk_test_ok', 'insufficient_funds')
    await world.advanceTo('2026-04-05T09:00:00+09:00')
    world.script.nextCharges(...Array.from({ length: 9 }, () => ({ kind: 'not_sent' as const })))
    world.skipTo('2026-04-06T09:00:00+09:00')
    await world.runDue()
    const unsent = 'select provider_reference as reference from billing.payment where sent_at is null'
    const [{ reference }] = (await world.rows<{ reference: string }>(unsent)) as [{ reference: string }]
    await dump()

    await restore()
    await adopt()
    expect(await reconcile()).toMatchObject({ differences: [{ kind: 'undecided' }] })
    await world.post('/cancel', { subscription_id: await idOf('acct_1') })
    await world.forgetLeases()
    await world.runDue()
    const [paid] = world.script.book.values()
    world.script.book.set(reference, { ...paid!, reference, refunds: [] })
    await goOn()
    await world.advanceTo('2026-04-06T12:00:00+09:00')
    await world.runDue()
    expect(taken('acct_1')).toBe(2)
    expect(world.script.balance('KRW')).toBe(9_900n)
  })

  test('what is adopted counts on the day on which it was paid, though that day was added up before', async () => {
    await world.subscribe('acct')
    await world.advanceTo('2026-04-04T10:00:00+09:00')
    await dump()
    await world.advanceTo('2026-04-07T10:00:00+09:00')
    await restore()
    const days = async () =>
      (await world.get('/summary?from=2026-04-01T00:00:00%2B09:00&to=2026-04-08T00:00:00%2B09:00')).data.days
    for (let n = 0; n < 2; n++) await rollUpDays(world.app)
    expect(await days()).toEqual([])
    expect(await adopt()).toEqual({ adopted: 1, subscriptions: 1, failed: [] })
    const paid = [{ day: '2026-04-05', currency: 'KRW', paid: 9_900, refunded: 0 }]
    expect(await days()).toEqual(paid)
    await rollUpDays(world.app)
    expect(await days()).toEqual(paid)
    await goOn()
  })

  test('a cancellation of today is not taken for one that a restore of long ago had forgotten', async () => {
    for (const account of ['left', 'stays']) await world.subscribe(account)
    await dump()
    await world.post('/cancel', { subscription_id: await idOf('left') })
    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    await goOn()
    // A renewal is on its way when charging is stopped, and its customer leaves.
    await world.advanceTo('2026-04-05T08:58:00+09:00')
    world.script.nextCharges({ kind: 'not_sent' })
    await world.advanceTo('2026-04-05T09:00:00+09:00')
    expect(await world.invoices('stays')).toMatchObject([{ status: 'open' }, { status: 'paid' }])
    await stopCharging(world.app.db, 'operator', world.app.clock(), { stopsCalendar: true })
    await world.post('/cancel', { subscription_id: await idOf('stays') })
    await world.advanceTo('2026-05-06T09:00:00+09:00')
    await goOn()
    expect(await statusOf('stays')).toBe('canceled')
    expect(await world.invoices('stays')).toMatchObject([{ status: 'paid' }, { status: 'paid' }])
  })

  test('a refund that is turned down before charging resumes waits until that proves something', async () => {
    await world.subscribe('acct_1')
    await dump()
    await restore()
    world.script.nextRefunds({ kind: 'declined' })
    const [invoice] = await world.invoices('acct_1')
    expect((await world.post('/refund', { invoice_id: invoice.invoice_id })).status).toBe(202)
  })

  test('several months come back in their order, each under the number it had', async () => {
    for (const account of ['a', 'b']) await world.subscribe(account)
    await dump()
    await world.advanceTo('2026-06-06T00:00:00+09:00')
    const before = [await numbers('a'), await numbers('b')]
    expect(before[0]).toHaveLength(4)
    await restore()
    expect(await adopt()).toEqual({ adopted: 6, subscriptions: 2, failed: [] })
    expect([await numbers('a'), await numbers('b')]).toEqual(before)
    await goOn()
    expect(['a', 'b'].map(taken)).toEqual([4, 4])
  })

  test('what the provider took of another amount is listed, and for a person to look at', async () => {
    await world.subscribe('acct')
    await dump()
    await world.advanceTo('2026-04-05T12:00:00+09:00')
    const [{ payments }] = await world.invoices('acct')
    const odd = world.script.book.get(payments[0].reference)!
    Object.assign(odd, { amount: { ...odd.amount, minor: 99_000n } })
    await restore()
    expect(await adopt()).toEqual({ adopted: 0, subscriptions: 0, failed: [] })
    expect(await world.invoices('acct')).toHaveLength(1)
    expect((await reconcile()).differences).toMatchObject([{ kind: 'unknown_here' }])
    world.script.book.delete(payments[0].reference)
  })

  test.each([
    ['goes back', false],
    ['has gone back, and the payment of the retry stays', true],
  ])('a first try that arrived after its retry had paid %s', async (_, wentBack) => {
    await world.subscribe('acct')
    await dump()
    world.script.declineCard('bk_test_ok', 'insufficient_funds')
    await world.advanceTo('2026-04-05T12:00:00+09:00')
    world.script.declineCard('bk_test_ok', null)
    await world.advanceTo('2026-04-10T00:00:00+09:00')
    const [{ payments }] = await world.invoices('acct')
    // biome-ignore lint/suspicious/noExplicitAny: the assertions pin the fields down
    const [late, retry] = payments.map(({ reference }: any) => reference)
    Object.assign(world.script.book.get(late)!, { status: 'paid', code: null })
    if (wentBack) {
      expect((await reconcile()).repaired).toHaveLength(1)
      await world.runDue()
    }
    const refunded = () =>
      [late, retry].map((one) => world.script.book.get(one)!.refunds.map(({ amount }) => amount.minor))

    await restore()
    expect(await adopt()).toEqual({ adopted: 2, subscriptions: 1, failed: [] })
    expect(await adopt()).toEqual({ adopted: 0, subscriptions: 0, failed: [] })
    await world.runDue()
    expect(refunded()).toEqual([[9900n], []])
    expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
    expect((await world.invoices('acct'))[0]).toMatchObject({ status: 'paid', amount_refunded: 0 })
    await goOn()
    expect(refunded()).toEqual([[9900n], []])
  })

  test('what fell due just before charging resumes is looked up first, however little late it is', async () => {
    await world.subscribe('acct')
    await dump()
    await world.advanceTo('2026-04-05T09:00:30+09:00')
    await restore()
    const asked: string[] = []
    world.script.hooks.beforeCharge = async ({ key }) => void asked.push(key)
    await goOn()
    expect(asked).toEqual([])
    expect((await world.invoices('acct'))[0].status).toBe('paid')
  })

  test('what the lost database charged after charging had been stopped here, before its own end, is not charged again', async () => {
    await world.subscribe('acct')
    await dump()
    await world.advanceTo('2026-04-05T09:00:30+09:00')
    await restore(new Date('2026-04-05T08:59:30+09:00'))
    world.skipTo('2026-04-05T09:00:40+09:00')
    const asked: string[] = []
    world.script.hooks.beforeCharge = async ({ key }) => void asked.push(key)
    await goOn()
    expect(asked).toEqual([])
    expect((await world.invoices('acct'))[0].status).toBe('paid')
  })

  test('a charge that comes late is looked up first, so that even without adopting nobody pays twice', async () => {
    for (const account of ['a', 'b', 'c']) await world.subscribe(account)
    await dump()
    await world.advanceTo('2026-04-06T00:00:00+09:00')
    expect(world.script.book.size).toBe(6)
    await restore()
    await goOn()
    expect(world.script.book.size).toBe(6)
    for (const account of ['a', 'b', 'c']) expect((await world.invoices(account))[0].status).toBe('paid')
    expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
  })

  test('whoever had cancelled is not charged, and whoever had resumed is', async () => {
    for (const account of ['cancels', 'resumes', 'later', 'owes'])
      await world.subscribe(account, { card: `bk_test_${account}` })
    await world.post('/cancel', { subscription_id: await idOf('resumes') })
    world.script.declineCard('bk_test_owes', 'insufficient_funds')
    await world.advanceTo('2026-04-02T00:00:00+09:00')
    await dump()
    await world.post('/cancel', { subscription_id: await idOf('cancels') })
    await world.post('/resume', { subscription_id: await idOf('resumes') })
    await world.advanceTo('2026-04-07T00:00:00+09:00')
    expect(await statusOf('owes')).toBe('past_due')
    await world.post('/cancel', { subscription_id: await idOf('owes') })
    // Pays for April and leaves in May.
    await world.post('/cancel', { subscription_id: await idOf('later') })
    world.skipTo('2026-05-30T00:00:00+09:00')

    const lines = await restore()
    expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({
      cancellations: 3,
      resumptions: 1,
    })
    expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({
      cancellations: 0,
      resumptions: 0,
    })
    await world.runDue()
    expect(await statusOf('cancels')).toBe('canceling')
    await adopt()
    await goOn()
    await world.advanceTo('2026-06-20T00:00:00+09:00')
    expect([await statusOf('cancels'), await statusOf('later'), await statusOf('owes')]).toEqual(
      Array(3).fill('canceled'),
    )
    expect(await statusOf('resumes')).toBe('active')
    expect(['cancels', 'later', 'owes'].map(taken)).toEqual([1, 2, 1])
    expect((await world.invoices('owes'))[0]).toMatchObject({ status: 'void' })
    // March and April were taken before; May fell due while all stood still, and June is new.
    expect(taken('resumes')).toBe(4)
  })

  test('what was in doubt at the backup and cancelled since is asked for no more', async () => {
    await world.subscribe('renews', { card: 'bk_test_renews' })
    world.script.declineCard('bk_test_renews', 'insufficient_funds')
    await world.advanceTo('2026-04-05T12:00:00+09:00')
    world.script.nextCharges({ kind: 'lost_request' }, { kind: 'lost_request' })
    await world.post('/payment-method', {
      subscription_id: await idOf('renews'),
      payment_method: { billing_key: 'bk_test_ok' },
    })
    await world.subscribe('begun')
    await dump()
    for (const account of ['begun', 'renews']) {
      const canceled = await world.post('/cancel', { subscription_id: await idOf(account) })
      expect(canceled.data.status).toBe('canceled')
    }
    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    await adopt()
    await goOn()
    await world.forgetLeases()
    await world.advanceTo('2026-05-20T00:00:00+09:00')
    for (const account of ['begun', 'renews']) {
      expect(await statusOf(account)).toBe('canceled')
      expect((await world.invoices(account))[0]).toMatchObject({ status: 'void', amount_paid: 0 })
    }
    expect(['begun', 'renews'].map(taken)).toEqual([0, 1])
  })

  test('a trial that was paid for on another plan goes on with that', async () => {
    await world.post('/trial', { account_id: 'trial', plan_id: 'starter-monthly' })
    await dump()
    await world.subscribe('trial', { plan: 'pro-monthly' })
    await world.advanceTo('2026-03-20T00:00:00+09:00')
    const before = await numbers('trial')
    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    expect(await adopt()).toEqual({ adopted: 1, subscriptions: 1, failed: [] })
    expect(await numbers('trial')).toEqual(before)
    const { plan_id, amount, status } = await world.subscription(await idOf('trial'))
    expect([plan_id, amount, status]).toEqual(['pro-monthly', 29_000, 'active'])
    await goOn()
  })

  test('a card of before the backup does not bring back a plan that the customer has left', async () => {
    await world.post('/trial', { account_id: 'trial', plan_id: 'starter-monthly' })
    const subscriptionId = await idOf('trial')
    // As a request leaves it that died while the provider described the card.
    const offer = (methodId: string, planId: string) =>
      world.app.db.transaction().execute((tx) =>
        insertMethod(tx, world.app, {
          methodId,
          accountId: 'trial',
          bound: false,
          subscriptionId,
          provider: 'scripted',
          purpose: 'trial',
          given: { billingKey: `bk_test_${methodId}` },
          planId,
          planTerms: null,
          leaseMs: 0,
          now: world.app.clock(),
        }),
      )
    await offer('early', 'pro-yearly')
    await dump()
    await world.app.db.updateTable('billing.payment_method').set({ next_lookup_at: null }).execute()
    await world.subscribe('trial', { plan: 'pro-monthly' })
    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    await adopt()
    await goOn()
    await resumePaymentMethods(world.app)
    const { plan_id, amount } = await world.subscription(subscriptionId)
    expect([plan_id, amount]).toEqual(['pro-monthly', 29_000])
    expect(await findMethod(world.app.db, 'early')).toMatchObject({
      state: 'dropped',
      failure: 'subscription_exists',
    })
  })

  test('what was erased, used up or revoked stays so', async () => {
    const contact = { email: 'kim@example.com', name: 'Kim' }
    const given = {
      plan_id: 'starter-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
      customer: contact,
    }
    await world.post('/subscribe', { account_id: 'gone', ...given })
    const [token, rotated] = [await world.makeToken(), await world.makeToken()]
    await dump()
    await world.post('/cancel', { subscription_id: await idOf('gone'), reason: 'my reasons' })
    await world.post('/trial', { account_id: 'tried', plan_id: 'starter-monthly' })
    await world.advanceTo('2026-04-06T00:00:00+09:00')
    expect((await world.ask('DELETE', '/accounts/gone')).status).toBe(200)
    await world.rows(`update platform.token set revoked_at = $1 where hash = sha256($2)`, [
      world.app.clock(),
      token,
    ])
    const at = {
      now: world.app.clock(),
      until: world.app.clock(),
      expiresAt: null,
      actor: 'operator',
    } as const
    await rotateToken(world.app.pool, tokenIdOf(rotated), newToken('test'), at)
    const lines = await restore()
    expect((await world.get('/accounts/gone')).text).toContain('kim@example.com')
    expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({
      cancellations: 1,
      erasures: 1,
      trials: 1,
      tokens: 2,
    })
    expect((await world.get('/accounts/gone')).text).not.toContain('kim@example.com')
    expect(await world.rows('select from billing.payment_method where sealed is not null')).toEqual([])
    expect(await world.post('/trial', { account_id: 'tried', plan_id: 'starter-monthly' })).toMatchObject({
      status: 409,
    })
    for (const ended of [token, rotated])
      expect((await world.get('/plans', { token: ended })).status).toBe(401)
    await goOn()
    expect(taken('gone')).toBe(1)
  })

  describe('a token that was rotated', () => {
    const hour = 3_600_000
    const rotate = (token: string, until: Date) =>
      rotateToken(world.app.pool, tokenIdOf(token), newToken('test'), {
        now: world.app.clock(),
        until,
        expiresAt: null,
        actor: 'operator',
      })
    const statusWith = async (token: string) => (await world.get('/plans', { token })).status
    const inHours = (hours: number) => new Date(world.app.clock().getTime() + hours * hour)

    test('ends when its overlap does, though the database was lost before', async () => {
      const token = await world.makeToken()
      await dump()
      await rotate(token, inHours(24))
      const lines = await restore()
      expect(lines).toMatchObject([{ kind: 'token.replaced', at: '2026-03-06T00:00:00.000Z' }])
      expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({ tokens: 1 })
      expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({ tokens: 0 })
      // A file that is begun after the restore knows it as well.
      expect(await listLines()).toEqual(lines)
      expect(await statusWith(token)).toBe(200)
      await world.advanceTo('2026-03-06T09:00:00+09:00')
      expect(await statusWith(token)).toBe(401)
    })

    test('never ends later than it did, whatever the file says', async () => {
      const [early, late] = [await world.makeToken(), await world.makeToken()]
      await rotate(early, inHours(1))
      await rotate(late, inHours(48))
      await dump()
      await rotate(late, inHours(24))
      const lines = (await restore()).map((line) =>
        line.token === tokenIdOf(early) ? { ...line, at: inHours(30).toISOString() } : line,
      )
      expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({ tokens: 1 })
      await goOn()
      await world.advanceTo('2026-03-05T10:00:00+09:00')
      expect([await statusWith(early), await statusWith(late)]).toEqual([401, 200])
      await world.advanceTo('2026-03-06T09:00:00+09:00')
      expect(await statusWith(late)).toBe(401)
    })

    test('and again, or revoked after that, is told anew each time', async () => {
      const [again, revoked] = [await world.makeToken(), await world.makeToken()]
      await dump()
      for (const token of [again, revoked]) await rotate(token, inHours(24))
      const known = new Set((await listLines()).map(({ key }) => key))
      await rotate(again, inHours(2))
      await revokeToken(world.app.pool, tokenIdOf(revoked), world.app.clock())
      const later = await listLines()
      expect(later.filter(({ key }) => !known.has(key)).map(({ kind, token }) => [kind, token])).toEqual([
        ['token.revoked', tokenIdOf(revoked)],
        ['token.replaced', tokenIdOf(again)],
      ])
      const lines = await restore()
      expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({ tokens: 3 })
      expect([await statusWith(again), await statusWith(revoked)]).toEqual([200, 401])
      await world.advanceTo('2026-03-05T11:00:00+09:00')
      expect(await statusWith(again)).toBe(401)
    })

    test('ends by a file of an earlier release too, which says that it was revoked', async () => {
      const token = await world.makeToken()
      await dump()
      await rotate(token, world.app.clock())
      const [line] = (await restore()) as [HistoryLine]
      const [id, at] = [tokenIdOf(token), line.at]
      const old = { kind: 'token.revoked', key: `token:${id}`, at, token: id } as const
      expect(await applyHistory(world.app, [old], 'operator')).toMatchObject({ tokens: 1 })
      expect(await statusWith(token)).toBe(401)
      expect(await applyHistory(world.app, [old, line], 'operator')).toMatchObject({ tokens: 1 })
      expect(await statusWith(token)).toBe(401)
    })
  })

  test('a card that was replaced is not charged, and somebody is told', async () => {
    await world.subscribe('acct', { card: 'bk_test_old' })
    await world.post('/trial', { account_id: 'trial', plan_id: 'starter-monthly' })
    await dump()
    await world.post('/payment-method', {
      subscription_id: await idOf('acct'),
      payment_method: { billing_key: 'bk_test_new' },
    })
    await world.subscribe('trial', { card: 'bk_test_trial' })
    await world.advanceTo('2026-04-06T00:00:00+09:00')
    const asked: string[] = []
    world.script.hooks.beforeCharge = async ({ billingKey }) => void asked.push(billingKey)
    const lines = await restore()
    const done = await applyHistory(world.app, lines, 'operator')
    expect([...done.lostMethods].sort()).toEqual([await idOf('acct'), await idOf('trial')].sort())
    await adopt()
    expect([await statusOf('acct'), await statusOf('trial')]).toEqual(['active', 'active'])
    expect((await listAlarms(world.app.db, 10)).map(({ kind }) => kind)).toEqual(
      Array(2).fill('payment_method_lost_in_restore'),
    )
    await goOn()
    await world.advanceTo('2026-04-20T00:00:00+09:00')
    expect([await statusOf('acct'), await statusOf('trial')]).toEqual(['active', 'past_due'])
    await world.advanceTo('2026-05-06T00:00:00+09:00')
    expect(await statusOf('acct')).toBe('past_due')
    expect(asked).toEqual([])

    // Whoever brings another card puts it right, and so does an end.
    expect(await statusOf('trial')).toBe('canceled')
    const alarmed = async () => (await listAlarms(world.app.db, 10)).map(({ subject }) => subject)
    expect(await alarmed()).toEqual([await idOf('acct')])
    const offer = { subscription_id: await idOf('acct'), payment_method: { billing_key: 'bk_test_ok' } }
    expect((await world.post('/payment-method', offer)).status).toBe(200)
    expect([await statusOf('acct'), await alarmed()]).toEqual(['active', []])
  })

  test('a card that was in doubt at the backup, and in use before the history is applied, is not the one that is lost', async () => {
    await world.subscribe('acct', { card: 'bk_test_old' })
    world.script.declineCard('bk_test_old', 'insufficient_funds')
    await world.advanceTo('2026-04-05T10:00:00+09:00')
    world.script.nextCharges({ kind: 'lost_answer' })
    world.script.hooks.afterCharge = async () => {
      world.script.state.silent = true
    }
    const offer = { subscription_id: await idOf('acct'), payment_method: { billing_key: 'bk_test_new' } }
    expect((await world.post('/payment-method', offer)).status).toBe(202)
    world.script.hooks.afterCharge = async () => {}
    await dump()
    const settle = async () => {
      world.script.state.silent = false
      await world.forgetLeases()
      await world.runDue()
    }
    const changes = `select count(*)::int as n from billing.event where type = 'payment_method.changed'`
    await settle()
    expect(await world.rows(changes)).toEqual([{ n: 1 }])
    const lines = await restore()
    await settle()
    expect(await world.rows(changes)).toEqual([{ n: 1 }])
    expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({ lostMethods: [] })
    await adopt()
    await goOn()
    await world.advanceTo('2026-05-06T00:00:00+09:00')
    expect([await statusOf('acct'), taken('acct')]).toEqual(['active', 3])
    expect(await listAlarms(world.app.db, 10)).toEqual([])
  })

  test('a charge that waited for its customer before the backup, and one that waits since, both end', async () => {
    world.script.askCustomer('bk_test_asks', false)
    const { data } = await world.subscribe('asked', { card: 'bk_test_asks' })
    world.script.askCustomer('bk_test_asks')
    await world.advanceTo(data.next_billing_at)
    await dump()
    await world.advanceTo('2026-04-06T12:00:00+09:00')
    const [, second] = (await world.invoices('asked'))[0].payments
    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    await adopt()
    await goOn()
    await world.forgetLeases()
    await world.runDue()
    const [invoice] = await world.invoices('asked')
    expect(invoice).toMatchObject({
      payments: [{ status: 'failed' }, { reference: second.reference, status: 'pending' }],
      next_action: { client_secret: expect.any(String) },
    })
    expect(world.script.confirm(second.reference)).toBe(true)
    await world.forgetLeases()
    await world.runDue()
    expect([await statusOf('asked'), taken('asked')]).toEqual(['active', 2])
  })

  test('a card that was offered before the backup and turned down after it is offered no more', async () => {
    await world.subscribe('acct', { card: 'bk_test_old' })
    world.script.declineCard('bk_test_old', 'insufficient_funds')
    await world.advanceTo('2026-04-05T10:00:00+09:00')
    world.script.askCustomer('bk_test_asks')
    const offer = { subscription_id: await idOf('acct'), payment_method: { billing_key: 'bk_test_asks' } }
    expect((await world.post('/payment-method', offer)).status).toBe(202)
    await dump()
    await world.advanceTo('2026-04-06T09:30:00+09:00')
    const offered = `select state from billing.payment_method where purpose = 'replacement'`
    expect(await world.rows(offered)).toEqual([{ state: 'dropped' }])
    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    await adopt()
    await goOn()
    expect(await world.rows(offered)).toEqual([{ state: 'dropped' }])
  })

  test('a card whose first charge was in doubt at the backup is kept, whatever came of the next one', async () => {
    world.script.nextCharges({ kind: 'lost_request' })
    expect((await world.subscribe('acct')).status).toBe(202)
    await dump()
    await world.forgetLeases()
    await world.runDue()
    world.script.declineCard('bk_test_ok', 'insufficient_funds')
    await world.advanceTo('2026-04-05T10:00:00+09:00')
    expect(await statusOf('acct')).toBe('past_due')
    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    expect(await adopt()).toEqual({ adopted: 2, subscriptions: 1, failed: [] })
    expect(await statusOf('acct')).toBe('past_due')
    expect(await world.rows('select state, failure from billing.payment_method')).toEqual([
      { state: 'kept', failure: null },
    ])
    await goOn()
    world.script.declineCard('bk_test_ok', null)
    await world.advanceTo('2026-04-06T10:00:00+09:00')
    expect([await statusOf('acct'), taken('acct')]).toEqual(['active', 2])
  })

  test('what is in doubt at the backup cannot be left out: nothing is adopted before the provider tells of it', async () => {
    world.script.nextCharges({ kind: 'lost_request' })
    await world.subscribe('acct')
    await dump()
    await world.forgetLeases()
    await world.advanceTo('2026-04-05T10:00:00+09:00')
    const [first] = world.script.book.values()
    await restore()
    world.script.book.delete(first!.reference)
    expect(await adopt()).toEqual({ adopted: 0, subscriptions: 0, failed: [] })
    world.script.book.set(first!.reference, first!)
    expect(await adopt()).toEqual({ adopted: 2, subscriptions: 1, failed: [] })
    expect((await world.invoices('acct')).map(({ status }: { status: string }) => status)).toEqual([
      'paid',
      'paid',
    ])
  })

  test('a dunning that was over by then leaves nothing open of the periods that began meanwhile', async () => {
    await world.subscribe('acct')
    await dump()
    const [paid] = world.script.book.values()
    const tried = [
      [1, 1, '2026-04-05T00:00:00Z'],
      [1, 2, '2026-05-06T00:00:00Z'],
      [2, 1, '2026-05-05T00:00:00Z'],
    ] as const
    world.skipTo('2026-05-20T00:00:00+09:00')
    await restore()
    for (const [k, n, at] of tried) {
      const [{ reference }] = (await world.rows<{ reference: string }>(
        `select billing.charge_reference('${await idOf('acct')}', ${k}, ${n}) as reference`,
      )) as [{ reference: string }]
      const record = {
        ...paid!,
        reference,
        status: 'declined',
        code: 'insufficient_funds',
        at: new Date(at),
      } as const
      world.script.book.set(reference, { ...record, refunds: [] })
    }
    expect(await adopt()).toEqual({ adopted: 3, subscriptions: 1, failed: [] })
    await goOn()
    expect(await statusOf('acct')).toBe('canceled')
    expect((await world.invoices('acct')).map(({ status }: { status: string }) => status)).toEqual([
      'uncollectible',
      'uncollectible',
      'paid',
    ])
  })

  test('a held period that an operator tried twice since the backup is still theirs alone to charge', async () => {
    await world.subscribe('acct')
    world.skipTo('2026-06-06T00:00:00+09:00')
    await world.runDue()
    const [held] = await listHeld(world.app.db, 10)
    await dump()
    world.script.declineCard('bk_test_ok', 'insufficient_funds')
    for (const _ of [1, 2]) expect(await chargeHeldInvoice(world.app, held!.invoiceId, 'op')).toBe('declined')
    const lines = await restore()
    await applyHistory(world.app, lines, 'operator')
    await adopt()
    await goOn()
    await world.advanceTo('2026-07-06T00:00:00+09:00')
    expect(await statusOf('acct')).toBe('past_due')
    await world.post('/payment-method', {
      subscription_id: await idOf('acct'),
      payment_method: { billing_key: 'bk_test_new' },
    })
    await world.runDue()
    expect(await statusOf('acct')).toBe('active')
    expect((await world.get(`/invoices/${held!.invoiceId}`)).data).toMatchObject({
      status: 'open',
      hold: 'missed',
    })
  })

  test('what fits nowhere is listed and left alone', async () => {
    await world.subscribe('known')
    await dump()
    await world.subscribe('new')
    const stranger = (await world.invoices('new'))[0].payments[0].reference
    const lines = await restore()
    expect((await applyHistory(world.app, lines, 'operator')).lost).toMatchObject([{ account: 'new' }])
    await adopt()
    const { differences } = await reconcile()
    expect(differences.map(({ kind, reference }) => [kind, reference])).toEqual([['unknown_here', stranger]])
    await goOn()
    expect(world.script.book.get(stranger)!.refunds).toEqual([])
    // Ours and theirs differ by exactly that.
    world.script.book.delete(stranger)
  })

  test('nothing is taken over, and nothing falls due, unless the calendar stands still', async () => {
    await world.subscribe('acct')
    await expect(adopt()).rejects.toThrow(ChargingNotStopped)
    await stopCharging(world.app.db, 'operator', world.app.clock(), { stopsCalendar: true })
    world.skipTo('2026-04-06T00:00:00+09:00')
    await world.runDue()
    expect(await world.invoices('acct')).toHaveLength(1)
    await goOn()
    expect(taken('acct')).toBe(2)
  })
})

describe('a file of history', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rankledger-history-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  test('grows line by line, and a cut, a change or a missing end is noticed', async () => {
    await world.subscribe('acct')
    const path = join(folder, 'history.jsonl')
    const append = async () => {
      const known = new Set<unknown>()
      const before = await readChain(path, (line) => void known.add(line['key']))
      return appendChain(
        path,
        before,
        listHistory(world.app.db, (key) => known.has(key)),
        { at: 'now' },
      )
    }
    const first = await append()
    await world.post('/cancel', { subscription_id: await idOf('acct') })
    const second = await append()
    expect([first.lines, second.lines]).toEqual([2, 4])
    expect(await readChain(path)).toEqual(second)

    const whole = readFileSync(path, 'utf8')
    const lines = whole.trimEnd().split('\n')
    writeFileSync(path, `${lines.slice(0, 3).join('\n')}\n`)
    expect(await readChain(path)).toMatchObject({ closed: false })
    // A crash leaves half a line, or what the file system had room for and never wrote.
    for (const rest of [lines[3]!.slice(0, -40), '{', '\0'.repeat(500)]) {
      writeFileSync(path, `${lines.slice(0, 3).join('\n')}\n${rest}`)
      expect(await readChain(path)).toMatchObject({ lines: 3, closed: false })
      writeFileSync(path, `${lines.slice(0, 2).join('\n')}\n${rest}\n${lines[3]}\n`)
      await expect(readChain(path)).rejects.toThrow(/line 3/)
    }
    writeFileSync(path, whole.replace(/"hash":"(.)(?=[^"]*"}\n$)/, '"hash":"z'))
    await expect(readChain(path)).rejects.toThrow(/changed at line 4/)
    writeFileSync(path, whole.replace('"acct"', '"other"'))
    await expect(readChain(path)).rejects.toThrow(/line 1/)
    writeFileSync(path, [lines[0], ...lines.slice(2)].join('\n'))
    await expect(readChain(path)).rejects.toThrow(ChainBroken)
    expect(whole).not.toMatch(/bk_test|@/)

    // Cut by one byte it still ends where an export ended, and the next one begins on a line of its own.
    writeFileSync(path, whole.slice(0, -1))
    const third = await append()
    expect(third.lines).toBe(5)
    expect(await readChain(path)).toEqual(third)
    expect(await installationId(world.app.db)).toMatch(/^[0-9a-f]{32}$/)
  })

  test('is as it was after an export that failed', async () => {
    const path = join(folder, 'history.jsonl')
    const before = await appendChain(path, await readChain(path), [{ key: 'one' }], { at: 'now' })
    const whole = readFileSync(path, 'utf8')
    function* failing() {
      for (let n = 0; n < 2_000; n++) yield { key: `${n}`.padEnd(100) }
      throw new Error('the database went away')
    }
    await expect(appendChain(path, before, failing(), { at: 'later' })).rejects.toThrow(/went away/)
    expect(readFileSync(path, 'utf8')).toBe(whole)
  })
})

describe('one row that cannot be worked on keeps nobody else from coming back', () => {
  test('what the provider took is adopted for the others, and the broken one is told until it is put right', async () => {
    for (const account of ['first', 'broken', 'last']) await world.subscribe(account)
    await dump()
    await world.advanceTo('2026-05-06T00:00:00+09:00')
    await restore()
    const broken = await idOf('broken')
    await world.rows(`update billing.subscription set time_zone = 'Mars/Olympus' where id = $1`, [broken])
    const told = [{ subject: broken, account: 'broken', reason: 'RangeError' }]
    expect(await adopt()).toEqual({ adopted: 4, subscriptions: 2, failed: told })
    expect(await adopt()).toEqual({ adopted: 0, subscriptions: 0, failed: told })
    for (const account of ['first', 'last']) expect(await world.invoices(account)).toHaveLength(3)

    await world.rows(`update billing.subscription set time_zone = 'Asia/Seoul' where id = $1`, [broken])
    expect(await adopt()).toEqual({ adopted: 2, subscriptions: 1, failed: [] })
    expect(await reconcile()).toMatchObject({ repaired: [], differences: [] })
    await goOn()
    for (const account of ['first', 'broken', 'last']) expect(taken(account)).toBe(3)
  })

  test('facts of the history are applied for the others, and the rest is told until it is put right', async () => {
    for (const account of ['first', 'broken', 'last']) await world.subscribe(account)
    await dump()
    const broken = await idOf('broken')
    for (const account of ['first', 'broken', 'last'])
      await world.post('/cancel', { subscription_id: await idOf(account) })
    const lines = await restore()
    await world.rows(
      `create function billing.refuse_one() returns trigger language plpgsql as $$
       begin raise exception 'broken row' using errcode = 'P0001'; end $$`,
    )
    await world.rows(
      `create trigger refuse_one before update on billing.subscription
       for each row when (old.account_id = 'broken') execute function billing.refuse_one()`,
    )
    const told = [{ subject: broken, account: 'broken', reason: expect.stringMatching(/P0001$/) }]
    expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({ cancellations: 2, failed: told })
    expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({ cancellations: 0, failed: told })
    await world.rows('drop trigger refuse_one on billing.subscription')
    expect(await applyHistory(world.app, lines, 'operator')).toMatchObject({ cancellations: 1, failed: [] })
    for (const account of ['first', 'broken', 'last']) expect(await statusOf(account)).toBe('canceling')
  })
})
