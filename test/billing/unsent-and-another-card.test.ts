import { afterEach, expect, test } from 'vitest'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'
import { scriptedProvider } from './scripted-provider.ts'

// A charge that never left us, because its provider cannot be asked, and a customer who brings a card of another.

type Script = ReturnType<typeof scriptedProvider>

const march = '2026-03-05T09:00:00+09:00'
const april = (day: number, hour = 9) =>
  `2026-04-${String(day).padStart(2, '0')}T${String(hour).padStart(2, '0')}:00:00+09:00`
const may = '2026-05-05T09:00:00+09:00'

let world: BillingWorld
let url: string
let old: Script
let young: Script
let subscriptionId: string
afterEach(async () => {
  expect(world.faults).toEqual([])
  expect(await checkLedger(world.app.db)).toMatchObject({ faults: [] })
  expect(BigInt((await world.books())['provider'] ?? 0)).toBe(old.balance('KRW') + young.balance('KRW'))
  await world.leave()
  await dropDatabase(url)
})

/** A customer of the old provider. */
async function openOldHouse(): Promise<void> {
  old = scriptedProvider({}, 'old-house')
  young = { ...scriptedProvider({}, 'new-house'), vaultKey: old.vaultKey }
  url = await createDatabase()
  world = await openBillingWorld({ on: { url, script: old }, now: march })
  subscriptionId = (await world.subscribe('loyal')).data.subscription_id
}

/** The house has moved; of the old provider's keys some are left, or none. */
async function move(now: string, others: readonly Script[] = []): Promise<void> {
  old.state.credentialsRefused = false
  await world.leave()
  world = await openBillingWorld({ on: { url, script: young }, others, stoppable: true, now })
}

/** The renewal was declined, and when its retry falls due nobody can be asked for it. */
async function openUnsentRetry(why: 'keys that are gone' | 'keys that are refused' = 'keys that are gone') {
  await openOldHouse()
  old.declineCard('bk_test_ok', 'insufficient_funds')
  await world.advanceTo(april(5))
  old.declineCard('bk_test_ok', null)
  await move(april(5), why === 'keys that are refused' ? [old] : [])
  old.state.credentialsRefused = true
  await world.advanceTo(april(6))
  expect(await newest()).toMatchObject({ status: 'open', attempt_count: 2, next_attempt_at: null })
}

const newest = async () => (await world.invoices('loyal'))[0]
const payments = async () =>
  (await newest()).payments.map(({ status, failure_code }: Record<string, string | null>) =>
    [status, failure_code].filter((word) => word != null).join(' '),
  )
const offer = (card: string, key?: string) =>
  world.post(
    '/payment-method',
    { subscription_id: subscriptionId, payment_method: { billing_key: card } },
    key === undefined ? {} : { key },
  )

async function lookAgain(): Promise<void> {
  await world.forgetLeases()
  await world.rows(`update billing.payment_method_to_delete set next_try_at = clock_timestamp()`)
  await world.runDue()
}

test.each(['keys that are gone', 'keys that are refused'] as const)(
  'a retry waits for %s: a new card pays what is owed at once',
  async (why) => {
    await openUnsentRetry(why)
    const [before, asked] = [old.calls.charge, young.calls.charge]
    expect(await offer('bk_test_new')).toMatchObject({ status: 200, data: { status: 'active' } })
    expect(await payments()).toEqual(['failed insufficient_funds', 'failed withdrawn', 'succeeded'])
    expect(young.calls.charge).toBe(asked + 1)
    expect(await world.get('/events?type=payment.failed')).toMatchObject({
      data: { events: [{ data: { code: 'withdrawn' } }, { data: { code: 'insufficient_funds' } }] },
    })

    // The old keys come back, and nothing is left to be done with them but to delete the card.
    await move(april(7), [old])
    await lookAgain()
    expect(old.calls.charge).toBe(before)
    expect(old.forgotten).toEqual(['bk_test_ok'])
    await world.advanceTo(may)
    expect(young.calls.charge).toBe(asked + 2)
    expect(await newest()).toMatchObject({ status: 'paid' })
  },
)

test('a new card that is declined leaves the retry waiting as before, also after the last dunning day', async () => {
  await openUnsentRetry()
  young.declineCard('bk_test_poor', 'do_not_honor')
  world.skipTo(april(20))
  const charged = old.calls.charge
  expect(await offer('bk_test_poor')).toMatchObject({ status: 402 })
  await lookAgain()
  expect(await world.subscription(subscriptionId)).toMatchObject({ status: 'past_due' })
  expect(await payments()).toEqual([
    'failed insufficient_funds',
    'failed withdrawn',
    'failed do_not_honor',
    'pending',
  ])

  await move(april(21), [old])
  await lookAgain()
  expect(await world.subscription(subscriptionId)).toMatchObject({ status: 'active' })
  expect([old.calls.charge - charged, await newest()]).toMatchObject([1, { status: 'paid' }])
})

test('so do two new cards, the first of which could not be sent either', async () => {
  await openUnsentRetry()
  world.skipTo(april(20))
  young.nextCharges({ kind: 'not_sent' })
  const stopping = new AbortController()
  young.hooks.beforeCharge = async () => stopping.abort()
  Object.assign(world.app, { stopping: stopping.signal })
  expect((await offer('bk_test_first', 'k')).status).toBe(202)
  Object.assign(world.app, { stopping: undefined })
  young.hooks.beforeCharge = async () => {}
  young.declineCard('bk_test_second', 'do_not_honor')
  expect((await offer('bk_test_second')).status).toBe(402)
  await lookAgain()
  expect(await world.subscription(subscriptionId)).toMatchObject({ status: 'past_due' })
  expect((await payments()).slice(-3)).toEqual(['failed withdrawn', 'failed do_not_honor', 'pending'])
})

test('what a lost database may have sent is not taken back: the new card waits for its outcome', async () => {
  await openUnsentRetry()
  await world.rows(`update billing.installation set lookup_first_before = $1`, [april(6)])
  expect((await offer('bk_test_new', 'k')).status).toBe(202)
  expect(await payments()).toEqual(['failed insufficient_funds', 'pending'])
  expect(young.calls.charge).toBe(0)

  // It had sent it.
  const [{ reference }] = (await newest()).payments.slice(-1)
  const [paid] = old.book.values()
  old.book.set(reference, { ...paid!, reference, refunds: [] })
  await move(april(7), [old])
  await lookAgain()
  await lookAgain()
  expect(await offer('bk_test_new', 'k')).toMatchObject({ status: 200, data: { status: 'active' } })
  expect(await payments()).toEqual(['failed insufficient_funds', 'succeeded'])
  expect(young.calls.charge).toBe(0)
})

test('while somebody is sending the retry the new card waits', async () => {
  await openUnsentRetry()
  await world.rows(
    `update billing.payment set sending_until = clock_timestamp() + interval '1 minute' where sent_at is null`,
  )
  expect((await offer('bk_test_new', 'k')).status).toBe(202)
  expect(young.calls.charge).toBe(0)
  await lookAgain()
  expect(await world.subscription(subscriptionId)).toMatchObject({ status: 'active' })
  expect((await offer('bk_test_new', 'k')).status).toBe(200)
  expect(young.calls.charge).toBe(1)
})

test('a card that was offered before and could not be charged gives way to the next one', async () => {
  await openOldHouse()
  old.declineCard('bk_test_ok', 'insufficient_funds')
  await world.advanceTo(april(5))
  // The process ends before its charge leaves it.
  const stopping = new AbortController()
  Object.assign(world.app, { stopping: stopping.signal })
  old.nextCharges({ kind: 'not_sent' })
  old.hooks.beforeCharge = async () => stopping.abort()
  expect((await offer('bk_test_first', 'k')).status).toBe(202)
  old.hooks.beforeCharge = async () => {}
  expect(await payments()).toEqual(['failed insufficient_funds', 'pending'])

  await move(april(5))
  expect(await offer('bk_test_second')).toMatchObject({ status: 200, data: { status: 'active' } })
  expect(await world.rows(`select state, failure from billing.payment_method order by id`)).toEqual([
    { state: 'kept', failure: null },
    { state: 'dropped', failure: 'provider_error' },
    { state: 'kept', failure: null },
  ])
  await lookAgain()
  expect(young.calls.charge).toBe(1)
})

test('a renewal that never left us is charged to the card that its customer has by then', async () => {
  await openOldHouse()
  await move(march)
  await world.advanceTo(april(5))
  expect(await payments()).toEqual(['pending'])
  expect(await offer('bk_test_new')).toMatchObject({ status: 200, data: { status: 'active' } })
  // The change makes it due at once.
  await world.runDue()
  expect([old.calls.charge, young.calls.charge]).toEqual([1, 1])
  const invoice = await newest()
  expect(invoice).toMatchObject({ status: 'paid', attempt_count: 1, payments: [{ provider: 'new-house' }] })
  expect((await world.post('/refund', { invoice_id: invoice.invoice_id })).status).toBe(200)
  expect(young.calls.refund).toBe(1)

  await move(april(7), [old])
  await lookAgain()
  expect([old.calls.charge, old.forgotten]).toEqual([1, ['bk_test_ok']])
})

test('it is held by the card of now too, once newer periods have overtaken it', async () => {
  await openOldHouse()
  await move(march)
  await world.advanceTo(april(5))
  expect((await offer('bk_test_new')).status).toBe(200)
  young.state.silent = true
  young.nextCharges({ kind: 'not_sent' })
  await lookAgain()
  await world.advanceTo(may)
  young.state.silent = false
  await lookAgain()
  expect(
    (await world.invoices('loyal')).map(
      ({ status, hold }: { status: string; hold: string | null }) => hold ?? status,
    ),
  ).toEqual(['paid', 'missed', 'paid'])
  expect(old.calls.charge).toBe(1)
})

test('what a lost database may have sent stays with the card that it was begun with', async () => {
  await openOldHouse()
  await move(march)
  await world.advanceTo(april(5))
  await world.rows(`update billing.installation set lookup_first_before = $1`, [april(6)])
  expect((await offer('bk_test_new')).status).toBe(200)
  await lookAgain()
  expect(young.calls.charge).toBe(0)
  await move(april(5, 10), [old])
  await lookAgain()
  expect([old.calls.charge, young.calls.charge]).toEqual([2, 0])
  expect(await payments()).toEqual(['succeeded'])
})
