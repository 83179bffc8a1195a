import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openApp } from '../../src/app.ts'
import { retireMethods } from '../../src/billing/payments/payment-method-rows.ts'
import { findSealedBy } from '../../src/billing/reseal.ts'
import { db } from '../../src/cli/db.ts'
import { readConfig } from '../../src/config.ts'
import type { Http } from '../../src/platform/http/http.ts'
import { openReadiness } from '../../src/platform/http/readiness.ts'
import { buildServer } from '../../src/server.ts'
import { countLockWaits } from '../patience.ts'
import { startService } from '../processes/service-process.ts'
import { openWorld, type World } from '../world.ts'
import { runCommand } from './run-command.ts'

const newKey = () => randomBytes(32).toString('base64')
const [old, fresh] = [`1:${newKey()}`, `2:${newKey()}`]

let world: World
const running = new Set<Process>()
beforeEach(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00+09:00', environment: { VAULT_KEYS: old } })
})
afterEach(async () => {
  await Promise.all([...running].map(({ stop }) => stop()))
  await world.close()
})

type Told = { status: number; text: string; replayed: boolean }
type Process = {
  post(path: string, body: object, key: string): Promise<Told>
  advanceBy(duration: string): Promise<Told>
  stop(): Promise<void>
}

/** Another process of the service on the same database, with keys of its own. */
async function start(...keys: string[]): Promise<Process> {
  const environment = { ...world.environment, VAULT_KEYS: keys.join(',') }
  const app = await openApp(readConfig(environment), { name: 'test', role: 'service', poolSize: 4 })
  const http = await buildServer(app, openReadiness())
  const process: Process = {
    post: (path, body, key) => post(http, `/api/billing${path}`, body, { 'idempotency-key': key }),
    advanceBy: (duration) => post(http, '/api/sandbox/clock', { advance_by: duration }),
    async stop() {
      if (!running.delete(process)) return
      await http.close()
      await app.close()
    },
  }
  running.add(process)
  return process
}

async function post(
  http: Http,
  url: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<Told> {
  const answer = await http.inject({
    method: 'POST',
    url,
    headers: { authorization: `Bearer ${world.token}`, ...headers },
    payload: body,
  })
  return {
    status: answer.statusCode,
    text: answer.body,
    replayed: answer.headers['idempotent-replayed'] === 'true',
  }
}

async function rotate(...keys: string[]): Promise<{ checked: number; resealed: number }> {
  const { code, output } = await runCommand(db, ['rotate-keys', '--json'], {
    ...world.environment,
    VAULT_KEYS: keys.join(','),
  })
  expect(code).toBe(0)
  return JSON.parse(output)
}

test('a vault key is changed step by step under processes of different age: no repeat is refused, nothing is done twice', async () => {
  const asked: { path: string; body: object; key: string; told: Told }[] = []
  const ask = async (process: Process, path: string, body: object) => {
    const key = `key-${asked.length}`
    const told = await process.post(path, body, key)
    expect([200, 201]).toContain(told.status)
    asked.push({ path, body, key, told })
    return JSON.parse(told.text).data
  }
  const repeatAll = async (process: Process) => {
    for (const { path, body, key, told } of asked)
      expect(await process.post(path, body, key)).toEqual({ ...told, replayed: true })
  }
  const subscribe = (process: Process, account_id: string) =>
    ask(process, '/subscribe', {
      account_id,
      plan_id: 'pro-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
      customer: { email: `${account_id}@example.com` },
    })
  const refund = async (process: Process, account: string) => {
    const { invoices } = (await world.get(`/api/billing/invoices?account_id=${account}`)).body.data
    await ask(process, '/refund', { invoice_id: invoices[0].invoice_id, amount: 1000 })
  }

  const one = await start(old)
  await subscribe(one, 'acct_1')
  await refund(one, 'acct_1')

  // The new key is listed second, in one process after another.
  const two = await start(old, fresh)
  await subscribe(two, 'acct_2')
  await repeatAll(two)
  await repeatAll(one)
  const three = await start(old, fresh)
  await one.stop()

  // Every process knows it; now it goes to the front, in one after another.
  const four = await start(fresh, old)
  await subscribe(four, 'acct_3')
  await refund(four, 'acct_2')
  await refund(three, 'acct_3')
  await repeatAll(three)
  await repeatAll(four)
  await expect(start(fresh)).rejects.toThrow(/VAULT_KEYS lacks key 1.*rotate-keys/)

  // While one process still seals with the old key, everything is sealed anew; its late values are found by a second round.
  const { resealed } = await rotate(fresh, old)
  // Two cards, two contacts, four answers and the key of the fingerprints.
  expect(resealed).toBe(9)
  await refund(three, 'acct_1')
  await expect(start(fresh)).rejects.toThrow(/VAULT_KEYS lacks key 1/)
  await Promise.all([two, three].map(({ stop }) => stop()))
  expect(await rotate(fresh, old)).toMatchObject({ resealed: 1 })
  expect(await rotate(fresh, old)).toMatchObject({ resealed: 0 })

  const five = await start(fresh)
  await repeatAll(five)
  await repeatAll(four)
  const [{ body, key, path }] = asked as [(typeof asked)[number]]
  const other = await five.post(path, { ...body, account_id: 'acct_9' }, key)
  expect([other.status, JSON.parse(other.text).error.code]).toEqual([422, 'idempotency_key_reused'])
  const given = await world.query(
    'select account_id, count(*)::int as refunds from billing.refund group by 1 order by 1',
  )
  expect(given).toEqual([
    { account_id: 'acct_1', refunds: 2 },
    { account_id: 'acct_2', refunds: 1 },
    { account_id: 'acct_3', refunds: 1 },
  ])
  expect(await world.query('select sum(amount_refunded)::int as back from sandbox.payment')).toEqual([
    { back: 4000 },
  ])

  // What is due is charged with cards and told to people that only the new key opens.
  await four.stop()
  expect((await five.advanceBy('P1M')).status).toBe(200)
  const invoices = await world.query("select status from billing.invoice where period_start > '2026-04-01'")
  expect(invoices).toEqual(Array.from({ length: 3 }, () => ({ status: 'paid' })))
})

test('a payment method that is put aside just then is sealed anew where it has gone', async () => {
  const first = await start(old)
  const body = { account_id: 'acct', plan_id: 'pro-monthly', payment_method: { billing_key: 'bk_test_ok' } }
  expect((await first.post('/subscribe', body, 'key')).status).toBe(201)
  await first.stop()
  const { db: rows } = world.app.billing
  const [method] = await world.query<{ id: string }>('select id from billing.payment_method')
  let commit = () => {}
  const until = new Promise<void>((resolve) => {
    commit = resolve
  })
  let isCopied = false
  const retiring = rows.transaction().execute(async (tx) => {
    await retireMethods(tx, [method!.id], new Date())
    isCopied = true
    await until
  })
  await vi.waitUntil(() => isCopied)
  let isRotated = false
  const rotating = rotate(fresh, old).then(() => {
    isRotated = true
  })
  await vi.waitUntil(async () => isRotated || (await countLockWaits(world.app.pool)) > 0, { timeout: 60_000 })
  commit()
  await Promise.all([retiring, rotating])
  expect(await world.query('select 1 from billing.payment_method_to_delete')).toHaveLength(1)
  expect(await findSealedBy(rows, [1])).toBeUndefined()
})

test.each(['in the order of their ids', 'the other way round'])(
  'whoever holds rows %s waits for nobody who seals everything anew',
  async (order) => {
    const first = await start(old)
    for (const account_id of ['acct_1', 'acct_2', 'acct_3']) {
      const body = { account_id, plan_id: 'pro-monthly', payment_method: { billing_key: 'bk_test_ok' } }
      expect((await first.post('/subscribe', body, account_id)).status).toBe(201)
    }
    await first.stop()
    const ids = await world.query<{ id: string }>('select id from billing.payment_method order by id')
    const [one, other] = order === 'the other way round' ? [ids[2]!, ids[0]!] : [ids[0]!, ids[2]!]
    const holder = await world.app.pool.connect()
    const take = (id: string) =>
      holder.query('update billing.payment_method set next_lookup_at = null where id = $1', [id])
    try {
      await holder.query('begin')
      await take(one.id)
      const rotating = rotate(fresh, old)
      rotating.catch(() => {})
      await vi.waitUntil(async () => (await countLockWaits(world.app.pool)) > 0, { timeout: 60_000 })
      await take(other.id)
      await holder.query('commit')
      // Three cards, three answers and the key of the fingerprints.
      expect(await rotating).toMatchObject({ resealed: 7 })
    } finally {
      holder.release()
    }
    expect(await findSealedBy(world.app.billing.db, [1])).toBeUndefined()
  },
)

test('with a wrong or missing vault key nothing starts, and one sentence tells which setting and what to do', async () => {
  const wrong = `1:${newKey()}`
  await expect(start(wrong)).rejects.toThrow(/^Key 1 in VAULT_KEYS is not the one .* put the right one back/)
  await expect(start(fresh, wrong)).rejects.toThrow(/^Key 1 in VAULT_KEYS is not/)
  await expect(start(fresh)).rejects.toThrow(/^VAULT_KEYS lacks key 1, .* list it behind the first/)

  const service = startService(['serve'], { ...world.environment, VAULT_KEYS: wrong })
  const code = await new Promise((resolve) => service.child.on('close', resolve))
  expect(code).toBe(1)
  expect(service.output()).toMatch(/^Key 1 in VAULT_KEYS is not the one that this database was sealed with/m)
  expect(service.output()).not.toContain('service.started')
  expect(service.output()).not.toContain(wrong.slice(2))
  await (await start(old)).stop()
})
