import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import Type from 'typebox'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Db, openDb, openPool } from '../../src/platform/database/db.ts'
import { answerOnce } from '../../src/platform/http/answer-once.ts'
import { success } from '../../src/platform/http/answers.ts'
import { buildHttp, type Http } from '../../src/platform/http/http.ts'
import type { Finished } from '../../src/platform/idempotency.ts'
import { type IdempotencyTables, readKey } from '../../src/platform/idempotency.ts'
import { Refusal } from '../../src/platform/refusal.ts'
import { openVault } from '../../src/platform/vault/vault.ts'
import { openProxy } from '../chaos/proxy.ts'
import { urlThrough } from '../postgres.ts'
import { openWorld, type World } from '../world.ts'

type Tables = IdempotencyTables & { 'public.deed': { id: string; times: number } }

let world: World
/** By which way the route reaches the database; a test sets another. */
let db: Db<Tables>
let http: Http
/** What finishing a deed does, by name; a test sets it. */
type Made = { id: string; made: number }
const outcomes = new Map<string, (times: number) => Promise<Finished<Made>>>()
let now = new Date('2026-03-01T00:00:00Z')
const vault = openVault([{ version: 1, key: Buffer.alloc(32, 2) }])

beforeAll(async () => {
  world = await openWorld()
  await world.query('create table public.deed (id text primary key, times integer not null default 0)')
  db = openDb<Tables>(world.app.pool)
  http = buildHttp({
    access: world.app.access,
    limiter: world.app.limiter,
    openPrefixes: [],
    onAnswer() {},
    onFault() {},
  })
  http.post(
    '/deeds',
    {
      config: { access: 'billing:write' },
      schema: {
        body: Type.Object(
          { name: Type.String(), more: Type.Optional(Type.Unknown()) },
          { additionalProperties: false },
        ),
        response: { '2xx': success(Type.Object({ id: Type.String(), made: Type.Integer() })) },
      },
    },
    async (request, reply) => {
      const { name } = request.body
      return answerOnce(
        { db, now, leaseMs: 60_000, vault, fingerprintKey: Buffer.alloc(32, 1) },
        request,
        reply,
        {
          async begin(tx) {
            const id = `deed_${name}_${randomBytes(4).toString('hex')}`
            if (name === 'refused') throw new Refusal('conflict', 'not_now', 'Not now.')
            await sql`insert into public.deed (id) values (${id})`.execute(tx)
            if (name === 'cut at its commit') {
              const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tx)
              await world.query('select pg_terminate_backend($1, 5000)', [rows[0]!.pid])
            }
            return { kind: 'deed', id, subject: id }
          },
          async finish({ id }) {
            const made = await sql<{
              times: number
            }>`update public.deed set times = times + 1 where id = ${id} returning times`.execute(db)
            const times = made.rows[0]!.times
            return (await outcomes.get(name)?.(times)) ?? { state: 'done', result: { id, made: times } }
          },
        },
        { done: 201, pending: 202, view: (made) => made },
      )
    },
  )
  await http.ready()
})
afterAll(async () => {
  await http.close()
  await world.close()
})

async function deed(
  name: string,
  key: string | undefined,
  { more, token = world.token }: { more?: unknown; token?: string } = {},
) {
  const answer = await http.inject({
    method: 'POST',
    url: '/deeds',
    headers: { authorization: `Bearer ${token}`, ...(key === undefined ? {} : { 'idempotency-key': key }) },
    payload: { name, ...(more === undefined ? {} : { more }) },
  })
  return {
    status: answer.statusCode,
    text: answer.body,
    replayed: answer.headers['idempotent-replayed'],
    headers: answer.headers,
    json: answer.json(),
  }
}

/** As if whoever holds them had said nothing for as long as a lease runs. */
const endLeases = () => world.query('update platform.idempotency_key set leased_until = clock_timestamp()')

test('a repeat gets the first answer to the byte, and the deed is done once', async () => {
  const first = await deed('plain', 'k1', { more: { a: 1, b: [1, { c: 2, d: 3 }] } })
  const again = await deed('plain', '"k1"', { more: { b: [1, { d: 3, c: 2 }], a: 1 } })
  expect(first.status).toBe(201)
  expect(first.replayed).toBeUndefined()
  expect(again).toMatchObject({ status: 201, text: first.text, replayed: 'true' })
  expect(first.json.data.made).toBe(1)
})

test('without a key every request is a deed of its own', async () => {
  const [one, two] = [await deed('keyless', undefined), await deed('keyless', undefined)]
  expect(one!.json.data.id).not.toBe(two!.json.data.id)
})

test('another body under the same key is refused, and does nothing', async () => {
  await deed('plain', 'k2')
  const other = await deed('plain', 'k2', { more: 1 })
  expect(other).toMatchObject({ status: 422 })
  expect(other.json.error.code).toBe('idempotency_key_reused')
})

test('the key belongs to the token’s binding: another tenant may use the same one', async () => {
  const mine = await deed('tenant', 'k3')
  const stranger = await world.makeToken({ account: 'acct_2', workspace: null, scopes: ['billing:write'] })
  const twin = await world.makeToken({ scopes: ['billing:write'] })
  const theirs = await deed('tenant', 'k3', { token: stranger })
  expect(theirs.json.data.id).not.toBe(mine.json.data.id)
  expect((await deed('tenant', 'k3', { token: twin })).text).toBe(mine.text)
})

test('of 50 parallel twins one does the deed; the others get its answer or are told to wait', async () => {
  outcomes.set('crowd', async () => {
    await sleep(100)
    return { state: 'done', result: { id: 'x', made: 1 } }
  })
  const answers = await Promise.all(Array.from({ length: 50 }, () => deed('crowd', 'k4')))
  const done = answers.filter(({ status }) => status === 201)
  const waiting = answers.filter(({ status }) => status === 409)
  expect(done.length + waiting.length).toBe(50)
  expect(new Set(done.map(({ text }) => text)).size).toBe(1)
  for (const { json, headers } of waiting) {
    expect(json.error.code).toBe('request_in_progress')
    expect(headers['retry-after']).toBe('1')
  }
  expect((await world.query("select * from public.deed where id like 'deed_crowd%'")).length).toBe(1)
  expect((await deed('crowd', 'k4')).text).toBe(done[0]!.text)
})

test('a refusal before the deed frees the key; a decline is kept with its request id', async () => {
  expect((await deed('refused', 'k5')).status).toBe(409)
  expect((await deed('other', 'k5')).status).toBe(201)
  outcomes.set('declined', async () => {
    throw new Refusal('declined', 'payment_declined', 'No.')
  })
  const first = await deed('declined', 'k6')
  outcomes.delete('declined')
  const again = await deed('declined', 'k6')
  expect(first.status).toBe(402)
  expect(again).toMatchObject({ status: 402, text: first.text, replayed: 'true' })
})

test('a refusal that settles nothing frees the key', async () => {
  outcomes.set('down', async () => {
    throw new Refusal('unavailable', 'provider_unavailable', 'Later.')
  })
  expect((await deed('down', 'k7')).status).toBe(503)
  outcomes.delete('down')
  expect(await deed('down', 'k7')).toMatchObject({ status: 201, replayed: undefined })
})

test('a 202 is asked again until the work settles, and the final answer is kept', async () => {
  outcomes.set('slow', async (times) => ({
    state: times < 3 ? 'pending' : 'done',
    result: { id: 'x', made: times },
  }))
  expect((await deed('slow', 'k8')).status).toBe(202)
  expect((await deed('slow', 'k8')).status).toBe(202)
  const final = await deed('slow', 'k8')
  expect(final.status).toBe(201)
  expect((await deed('slow', 'k8')).text).toBe(final.text)
})

test('after a 202 a refusal is final too, and kept to the byte', async () => {
  outcomes.set('promised', async (times) => {
    if (times === 1) return { state: 'pending', result: { id: 'x', made: times } }
    throw new Refusal('provider_refused', 'provider_error', 'No.')
  })
  expect((await deed('promised', 'k12')).status).toBe(202)
  const final = await deed('promised', 'k12')
  expect(final.status).toBe(502)
  outcomes.delete('promised')
  expect(await deed('promised', 'k12')).toMatchObject({ status: 502, text: final.text, replayed: 'true' })
})

test('whoever comes late with a refusal leaves a key alone that has begun something new', async () => {
  const holds: (() => void)[] = []
  outcomes.set('late', async (times) => {
    if (times === 1) await new Promise<void>((resolve) => holds.push(resolve))
    throw new Refusal('unavailable', 'provider_unavailable', 'Later.')
  })
  const hanging = deed('late', 'k13')
  await expect.poll(() => holds).toHaveLength(1)
  await endLeases()
  expect((await deed('late', 'k13')).status).toBe(503)
  outcomes.delete('late')
  const anew = await deed('late', 'k13')
  expect(anew.status).toBe(201)
  holds[0]!()
  expect((await hanging).status).toBe(503)
  expect(await deed('late', 'k13')).toMatchObject({ status: 201, text: anew.text, replayed: 'true' })
})

test('a fault is never frozen: the repeat goes on with the recorded deed', async () => {
  outcomes.set('fault', async (times) => {
    if (times === 1) throw new TypeError('bug')
    return { state: 'done', result: { id: 'x', made: times } }
  })
  expect((await deed('fault', 'k9')).status).toBe(500)
  expect(await deed('fault', 'k9')).toMatchObject({ status: 201, json: { data: { made: 2 } } })
})

test('while the database is away a deed that had begun is never called undone', async () => {
  const gone = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
  outcomes.set('cut', async (times) => {
    if (times <= 2) throw gone
    return { state: 'done', result: { id: 'x', made: times } }
  })
  const unknown = { status: 500, json: { error: { code: 'internal_error', type: 'OutcomeUnknown' } } }
  expect(await deed('cut', 'k-cut')).toMatchObject(unknown)
  expect(await deed('cut', 'k-cut')).toMatchObject(unknown)
  expect(await deed('cut', 'k-cut')).toMatchObject({ status: 201, json: { data: { made: 3 } } })

  outcomes.set('cut without a key', async () => {
    throw gone
  })
  expect(await deed('cut without a key', undefined)).toMatchObject(unknown)
  expect(await deed('cut at its commit', 'k-commit')).toMatchObject(unknown)
})

test('a repeat whose connection breaks at the very end still gets the first answer', async () => {
  const first = await deed('plain', 'k-replay')
  const proxy = await openProxy({
    target: () => Number(new URL(world.databaseUrl).port),
    tap: () => ({ sent: (bytes) => bytes.includes('commit') && proxy.suffer('cut') }),
  })
  const pool = openPool({
    url: urlThrough(world.databaseUrl, proxy),
    max: 1,
    name: 'cut',
    onError() {},
  })
  const direct = db
  try {
    db = openDb<Tables>(pool)
    expect(await deed('plain', 'k-replay')).toMatchObject({ status: 201, text: first.text, replayed: 'true' })
  } finally {
    db = direct
    await pool.end()
    await proxy.close()
  }
})

test('when the first process died, the repeat is told to wait until its lease ends, then continues', async () => {
  let release = () => {}
  outcomes.set('dead', (times) =>
    times === 1
      ? new Promise((resolve) => {
          release = () => resolve({ state: 'done', result: { id: 'late', made: 1 } })
        })
      : Promise.resolve({ state: 'done', result: { id: 'x', made: times } }),
  )
  const hanging = deed('dead', 'k10')
  await expect
    .poll(() => world.query("select 1 from public.deed where id like 'deed_dead%' and times = 1"))
    .toHaveLength(1)
  expect((await deed('dead', 'k10')).status).toBe(409)
  await endLeases()
  const taken = await deed('dead', 'k10')
  expect(taken).toMatchObject({ status: 201, json: { data: { made: 2 } } })
  release()
  expect(await hanging).toMatchObject({ status: 201, text: taken.text, replayed: 'true' })
  expect((await deed('dead', 'k10')).text).toBe(taken.text)
})

test('keys live for 30 days of service time', async () => {
  const first = await deed('old', 'k11')
  now = new Date(now.getTime() + 29 * 86_400_000)
  expect((await deed('old', 'k11')).text).toBe(first.text)
  now = new Date(now.getTime() + 2 * 86_400_000)
  expect((await deed('old', 'k11')).json.data.id).not.toBe(first.json.data.id)
})

test.each(['', ' ', '""', 'a b', 'ü', 'a\u0001', 'x'.repeat(256), '"a"b"'])('"%s" is no key', (header) => {
  expect(() => readKey(header)).toThrow(Refusal)
})

test('quoted equals bare', () => {
  expect(readKey('"abc"')).toBe('abc')
  expect(readKey('abc')).toBe('abc')
  expect(readKey(undefined)).toBeUndefined()
  expect(readKey('x'.repeat(255))).toHaveLength(255)
})
