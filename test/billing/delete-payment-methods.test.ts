import { afterEach, beforeEach, expect, test } from 'vitest'
import { listAlarms } from '../../src/platform/alarm.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

// A card that nobody uses any more is deleted where it is stored: by a sweep, after whatever made it useless is committed.

let world: BillingWorld
beforeEach(async () => {
  world = await openBillingWorld()
})
afterEach(async () => {
  await world.close()
})

async function subscribed(account: string, card: string): Promise<string> {
  const answer = await world.subscribe(account, { card })
  expect(answer.status).toBe(201)
  return answer.data.subscription_id
}

const changeTo = (subscription_id: string, payment_method: object) =>
  world.post('/payment-method', { subscription_id, payment_method })
const left = () => world.rows('select payment_method_id from billing.payment_method_to_delete')
const openable = (account: string) =>
  world.rows(`select id from billing.payment_method where account_id = $1 and sealed is not null`, [account])

test('a replaced card is deleted, and the new one is charged from then on', async () => {
  const id = await subscribed('acct_a', 'bk_test_first')
  expect((await changeTo(id, { billing_key: 'bk_test_second' })).status).toBe(200)
  await world.runDue()
  expect(world.script.forgotten).toEqual(['bk_test_first'])
  expect(await left()).toEqual([])
  expect(await openable('acct_a')).toHaveLength(1)
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect((await world.invoices('acct_a'))[0].status).toBe('paid')
})

test('a card that pays what is past due takes the place of the old one, which is deleted', async () => {
  const id = await subscribed('acct_a', 'bk_test_first')
  world.script.nextCharges({ kind: 'decline', code: 'insufficient_funds' })
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  expect((await world.subscription(id)).status).toBe('past_due')
  expect((await changeTo(id, { billing_key: 'bk_test_second' })).status).toBe(200)
  await world.runDue()
  expect(world.script.forgotten).toEqual(['bk_test_first'])
})

test('the same card offered again, or used by somebody else, is not deleted', async () => {
  const id = await subscribed('acct_a', 'bk_test_same')
  expect((await changeTo(id, { billing_key: 'bk_test_same' })).status).toBe(200)
  await subscribed('acct_b', 'bk_test_other')
  const other = await subscribed('acct_c', 'bk_test_other')
  expect((await changeTo(other, { billing_key: 'bk_test_new' })).status).toBe(200)
  await world.runDue()
  expect(world.script.forgotten).toEqual([])
  expect(await left()).toEqual([])
})

test('while a charge of the old card is in doubt the card stays', async () => {
  const id = await subscribed('acct_a', 'bk_test_first')
  world.script.state.silent = true
  await world.advanceTo('2026-04-05T09:00:00+09:00')
  world.script.state.silent = false
  await world.rows(`update billing.payment set next_lookup_at = clock_timestamp() + interval '1 hour', lookup_by = null
    where status in ('sending', 'unknown')`)
  expect((await changeTo(id, { billing_key: 'bk_test_second' })).status).toBe(200)
  await world.rows(`update billing.provider_probe set next_at = clock_timestamp() + interval '1 hour'`)
  await world.runDue()
  expect(world.script.forgotten).toEqual([])

  await world.forgetLeases()
  await world.runDue()
  await world.rows('update billing.payment_method_to_delete set next_try_at = clock_timestamp()')
  await world.runDue()
  expect(world.script.forgotten).toEqual(['bk_test_first'])
})

test('a card of a one-time key that was turned down is deleted; a billing key that the caller brought is theirs', async () => {
  const decline = { kind: 'decline', code: 'insufficient_funds' } as const
  world.script.nextCharges(decline, decline)
  const offered = { account_id: 'acct_a', plan_id: 'starter-monthly' }
  const issued = { auth_key: 'ak_test_fresh', customer_key: 'c' }
  expect((await world.post('/subscribe', { ...offered, payment_method: issued })).status).toBe(402)
  expect((await world.subscribe('acct_b', { card: 'bk_test_brought' })).status).toBe(402)
  await world.runDue()
  expect(world.script.forgotten).toEqual(['bk_test_fresh'])
})

test('the cards of an erased account are deleted, and what stays undone is told to a person', async () => {
  const id = await subscribed('acct_a', 'bk_test_first')
  expect((await world.post('/cancel', { subscription_id: id })).status).toBe(200)
  await world.advanceTo('2026-04-06T09:00:00+09:00')
  expect((await world.ask('DELETE', '/accounts/acct_a')).status).toBe(200)
  expect(await openable('acct_a')).toEqual([])
  world.script.state.silent = true
  for (let tries = 0; tries < 12; tries++) {
    await world.rows('update billing.payment_method_to_delete set next_try_at = clock_timestamp()')
    await world.runDue()
  }
  const [card] = await left()
  expect(await listAlarms(world.app.db, 5)).toMatchObject([
    {
      kind: 'payment_method_not_deleted',
      subject: (card as { payment_method_id: string }).payment_method_id,
    },
  ])
  world.script.state.silent = false
  await world.rows('update billing.payment_method_to_delete set next_try_at = clock_timestamp()')
  await world.runDue()
  expect(world.script.forgotten).toEqual(['bk_test_first'])
  expect(await left()).toEqual([])
  expect(await listAlarms(world.app.db, 5)).toEqual([])
})
