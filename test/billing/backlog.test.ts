import { afterEach, beforeEach, expect, test } from 'vitest'
import { chargeHeldInvoice } from '../../src/billing/collection/charge-held-invoice.ts'
import { listHeld } from '../../src/billing/collection/held-invoice-rows.ts'
import { voidHeldInvoice } from '../../src/billing/collection/void-held-invoice.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
let held: string[]

beforeEach(async () => {
  world = await openBillingWorld()
  await world.subscribe('acct_1')
  world.skipTo('2026-06-13T09:00:00+09:00')
  await world.runDue()
  held = (await listHeld(world.app.db, 100)).map(({ invoiceId }) => invoiceId)
})
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

test('missed periods are charged only at an operator’s word, each once', async () => {
  expect(held).toHaveLength(2)
  await world.advanceTo('2026-06-30T00:00:00+09:00')
  expect(world.script.book.size).toBe(2)
  expect(await chargeHeldInvoice(world.app, held[0]!, 'operator')).toBe('paid')
  expect(await chargeHeldInvoice(world.app, held[0]!, 'operator')).toBe('not_held')
  expect((await world.get(`/invoices/${held[0]}`)).data).toMatchObject({ status: 'paid', hold: null })
  expect(await world.books()).toEqual({ provider: 3 * 9900, revenue: -3 * 9900 })
})

test('one that cannot be charged stays held and starts no dunning', async () => {
  world.script.declineCard('bk_test_ok', 'insufficient_funds')
  expect(await chargeHeldInvoice(world.app, held[0]!, 'operator')).toBe('declined')
  const { data } = await world.get(`/invoices/${held[0]}`)
  expect(data).toMatchObject({ status: 'open', hold: 'missed', next_attempt_at: null, attempt_count: 1 })
  expect((await world.subscription(data.subscription_id)).status).toBe('active')
})

test('one that is let go is void', async () => {
  expect(await voidHeldInvoice(world.app, held[1]!, 'operator')).toBe('void')
  expect((await world.get(`/invoices/${held[1]}`)).data).toMatchObject({ status: 'void', hold: null })
  expect(await listHeld(world.app.db, 100)).toHaveLength(1)
})
