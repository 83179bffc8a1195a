import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { forgetOldKeys } from '../../src/platform/idempotency.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'

let world: BillingWorld
beforeEach(async () => {
  world = await openBillingWorld()
})
afterEach(async () => {
  expect(world.faults).toEqual([])
  await world.close()
})

const lost = (count: number) => Array.from({ length: count }, () => ({ kind: 'lost_request' as const }))

async function firstInvoice(account: string): Promise<string> {
  return (await world.invoices(account))[0].invoice_id
}

describe('once a key has answered 202, what comes last is kept', () => {
  test('a subscribe that never arrived ends with 502 for good, and its key charges nobody anew', async () => {
    world.script.nextCharges(...lost(200))
    expect((await world.subscribe('acct_1', { key: 'k' })).status).toBe(202)
    await world.advanceTo('2026-03-07T12:00:00+09:00')

    const last = await world.subscribe('acct_1', { key: 'k' })
    expect([last.status, last.body.error.code]).toEqual([502, 'provider_error'])
    for (const _ of [1, 2]) {
      const again = await world.subscribe('acct_1', { key: 'k' })
      expect([again.status, again.text]).toEqual([502, last.text])
      expect(again.headers['idempotent-replayed']).toBe('true')
    }
    expect(world.script.book.size).toBe(0)
    expect(await world.rows('select id from billing.subscription')).toHaveLength(1)
    expect((await world.subscribe('acct_1', { key: 'k', card: 'bk_test_other' })).status).toBe(422)
  })

  test('a subscribe that was canceled meanwhile ends with 409 already_canceled for good', async () => {
    world.script.hooks.afterCharge = async () => {
      world.script.state.silent = true
    }
    world.script.nextCharges({ kind: 'lost_answer' })
    const { data } = await world.subscribe('acct_1', { key: 'k' })
    await world.post('/cancel', { subscription_id: data.subscription_id })
    world.script.hooks.afterCharge = async () => {}
    world.script.state.silent = false
    await world.forgetLeases()
    await world.runDue()
    await world.runDue()

    const last = await world.subscribe('acct_1', { key: 'k' })
    expect([last.status, last.body.error.code]).toEqual([409, 'already_canceled'])
    expect((await world.subscribe('acct_1', { key: 'k' })).text).toBe(last.text)
    expect(world.script.balance('KRW')).toBe(0n)
  })

  test('a refund that never arrived ends with 502 for good, and its key gives nothing back anew', async () => {
    await world.subscribe('acct_1')
    const body = { invoice_id: await firstInvoice('acct_1'), amount: 900 }
    world.script.nextRefunds(...lost(200))
    expect((await world.post('/refund', body, { key: 'k' })).status).toBe(202)
    await world.advanceTo('2026-03-07T12:00:00+09:00')

    const last = await world.post('/refund', body, { key: 'k' })
    expect([last.status, last.body.error.code]).toEqual([502, 'provider_error'])
    expect((await world.post('/refund', body, { key: 'k' })).text).toBe(last.text)
    expect(await world.rows('select id from billing.refund')).toHaveLength(1)
  })

  test('a refund that takes longer than keys are kept gives nothing back anew, and its end is kept as long again', async () => {
    await world.subscribe('acct_1')
    const [{ subscription_id, invoice_id }] = await world.invoices('acct_1')
    await world.post('/cancel', { subscription_id })
    const refund = () => world.post('/refund', { invoice_id, amount: 900 }, { key: 'k' })
    const forget = () => forgetOldKeys(world.app.db, world.app.clock())
    world.script.nextRefunds({ kind: 'lost_request' })
    world.script.state.silent = true
    expect((await refund()).status).toBe(202)

    world.skipTo('2026-04-20T09:00:00+09:00')
    expect((await refund()).status).toBe(202)
    await forget()
    expect((await refund()).status).toBe(202)
    world.script.state.silent = false
    await world.forgetLeases()
    await world.advanceTo('2026-04-21T12:00:00+09:00')
    const last = await refund()
    await forget()
    expect((await refund()).text).toBe(last.text)
    expect(await world.rows('select id from billing.refund')).toHaveLength(1)

    world.skipTo('2026-05-22T09:00:00+09:00')
    await forget()
    expect(await world.rows(`select 1 from platform.idempotency_key where promised`)).toEqual([])
  })

  test('a card for a past due subscription that is refused in the end stays refused', async () => {
    const { data } = await world.subscribe('acct_1')
    world.script.declineCard('bk_test_ok', 'insufficient_funds')
    await world.advanceTo('2026-04-05T09:00:00+09:00')
    const body = {
      subscription_id: data.subscription_id,
      payment_method: { billing_key: 'bk_test_fresh' },
    }
    world.script.nextCharges(...lost(200))
    expect((await world.post('/payment-method', body, { key: 'k' })).status).toBe(202)
    await world.advanceTo('2026-04-06T13:00:00+09:00')
    const last = await world.post('/payment-method', body, { key: 'k' })
    expect(last.status).toBe(502)
    expect((await world.post('/payment-method', body, { key: 'k' })).text).toBe(last.text)
  })
})

describe('erasing an account', () => {
  const planted = {
    reason: 'Mina-moves-to-Busan',
    note: 'called-from-her-mother',
    brand: 'minas-own-bank',
    email: 'mina.planted@example.com',
    name: 'Mina Planted',
    customerKey: 'customer-of-mina',
    key: 'key-of-mina@example.com',
  }

  beforeEach(async () => {
    const terms = { name: 'Weekly', amount: 2500, currency: 'KRW', interval: 'week' }
    await world.ask('PUT', '/plans/weekly', terms)
  })

  test('leaves nothing of the person anywhere in the database, and repeats tell what was done', async () => {
    world.script.card.brand = planted.brand
    const first = { email: planted.email, name: planted.name }
    const subscribe = {
      account_id: 'acct_1',
      plan_id: 'weekly',
      payment_method: { auth_key: 'ak_test_ok', customer_key: planted.customerKey },
      customer: first,
    }
    const subscribed = await world.post('/subscribe', subscribe, { key: planted.key })
    const { subscription_id } = subscribed.data
    const change = { subscription_id, payment_method: { billing_key: 'bk_test_new' } }
    await world.post('/payment-method', change, { key: 'change' })
    const refund = { invoice_id: await firstInvoice('acct_1'), amount: 1, note: planted.note }
    const refunded = await world.post('/refund', refund, { key: 'refund' })
    world.script.nextRefunds({ kind: 'declined' })
    await world.post('/refund', { ...refund, amount: 2 }, { key: 'declined' })
    await world.app.db
      .insertInto('billing.webhook')
      .values({
        provider: 'scripted',
        event_id: 'evt_1',
        body_hash: Buffer.from('x'),
        sealed: world.app.vault.seal(JSON.stringify(planted), 'webhook:scripted evt_1'),
        type: 'payment.paid',
        claim: 'paid',
        reference: (
          await world.rows<{ id: string }>('select provider_reference as id from billing.payment')
        )[0]!.id,
        status: 'done',
        last_error: null,
        received_at: world.app.clock(),
        settled_at: world.app.clock(),
        next_lookup_at: new Date(),
      })
      .execute()
    const cancel = { subscription_id, reason: planted.reason }
    expect((await world.post('/cancel', cancel, { key: 'cancel' })).status).toBe(200)
    await world.advanceTo('2026-03-12T09:00:00+09:00')
    world.script.nextRefunds(...lost(200))
    const pending = { ...refund, amount: 3 }
    expect((await world.post('/refund', pending, { key: 'pending' })).status).toBe(202)
    // A stranger's answers stay as they are.
    const other = await world.subscribe('acct_2', { key: 'other' })
    expect(seen(await dump()).sort()).toEqual(['acct_2: brand', 'brand', 'note', 'reason'])

    expect((await world.ask('DELETE', '/accounts/acct_1')).status).toBe(200)
    expect(seen(await dump())).toEqual(['acct_2: brand'])
    const sealed = await world.rows(
      `select id::text from billing.payment_method where account_id = 'acct_1' and sealed is not null
       union all select account_id from billing.account_contact
       union all select event_id from billing.webhook where sealed is not null`,
    )
    expect(sealed).toEqual([])

    const erased = (status: number, id: string) => ({
      status: 410,
      body: { error: { code: 'answer_erased', details: [{ code: String(status), id }] } },
    })
    expect(await world.post('/subscribe', subscribe, { key: planted.key })).toMatchObject(
      erased(201, subscription_id),
    )
    expect(await world.post('/payment-method', change, { key: 'change' })).toMatchObject(
      erased(200, subscription_id),
    )
    expect(await world.post('/cancel', cancel, { key: 'cancel' })).toMatchObject(erased(200, subscription_id))
    const again = await world.post('/refund', refund, { key: 'refund' })
    expect(again).toMatchObject(erased(200, refunded.data.refund_id))
    expect(again.body.error.details[0]).toMatchObject({
      path: expect.any(String),
      message: expect.stringMatching(/done/),
    })
    const declined = await world.post('/refund', { ...refund, amount: 2 }, { key: 'declined' })
    expect(declined).toMatchObject({ status: 410, body: { error: { details: [{ code: '402' }] } } })
    expect((await world.post('/refund', { ...refund, amount: 9 }, { key: 'refund' })).status).toBe(422)
    expect((await world.subscribe('acct_2', { key: 'other' })).text).toBe(other.text)

    // A key that is still at 202 settles first.
    const waiting = await world.post('/refund', pending, { key: 'pending' })
    expect([waiting.status, waiting.data.status]).toEqual([202, 'pending'])
    await world.advanceTo('2026-03-14T12:00:00+09:00')
    expect(await world.post('/refund', pending, { key: 'pending' })).toMatchObject(
      erased(502, waiting.data.refund_id),
    )
    expect(await world.post('/refund', pending, { key: 'pending' })).toMatchObject({ status: 410 })
    expect(await world.rows('select id from billing.refund')).toHaveLength(3)
    expect(seen(await dump())).toEqual(['acct_2: brand'])
  })

  test('while a request runs, its own caller is answered and nothing of the answer is kept', async () => {
    await world.subscribe('acct_1', { plan: 'weekly' })
    const subscription_id = (await world.rows<{ id: string }>('select id from billing.subscription'))[0]!.id
    await world.post('/cancel', { subscription_id })
    await world.advanceTo('2026-03-12T09:00:00+09:00')
    const refund = { invoice_id: await firstInvoice('acct_1'), amount: 1, note: planted.note }
    world.script.hooks.beforeRefund = async () => {
      expect((await world.ask('DELETE', '/accounts/acct_1')).status).toBe(200)
    }
    expect((await world.post('/refund', refund, { key: 'refund' })).status).toBe(200)
    expect(seen(await dump())).toEqual([])
    expect(await world.post('/refund', refund, { key: 'refund' })).toMatchObject({
      status: 410,
      body: { error: { details: [{ code: '200' }] } },
    })
    const kept = await world.rows('select key from platform.idempotency_key where sealed is not null')
    expect(kept).toEqual([])
  })

  /** Every value of every table, as text; bytes show as hex. */
  async function dump(): Promise<string[]> {
    const tables = await world.rows<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables
       where schemaname not in ('pg_catalog', 'information_schema')`,
    )
    expect(tables.length).toBeGreaterThan(30)
    const rows = await Promise.all(
      tables.map(({ name }) => world.rows<{ text: string }>(`select t::text as text from ${name} t`)),
    )
    return rows.flat().map(({ text }) => text)
  }

  function seen(rows: readonly string[]): string[] {
    const found = new Set<string>()
    for (const row of rows)
      for (const [what, text] of Object.entries(planted)) {
        const hidden = Buffer.from(text).toString('hex')
        if (row.includes(text) || row.includes(hidden))
          found.add(row.includes('acct_2') ? `acct_2: ${what}` : what)
      }
    return [...found]
  }
})
