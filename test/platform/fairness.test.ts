import { createHmac, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { openRequestRate } from '../../src/platform/http/fairness/request-rate.ts'
import { openShare } from '../../src/platform/http/fairness/share.ts'
import { openTurns } from '../../src/platform/http/fairness/turns.ts'
import { openWorld, type World } from '../world.ts'
import { openSlowDoor } from './slow-door.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ environment: { BILLING_RATE: '30' } })
})
afterAll(() => world.close())

const json = { 'content-type': 'application/json' }

/** The longest time in which this process, which is also the server, did nothing else. */
async function longestStall(work: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 5 })
  delay.enable()
  await work()
  await sleep(20)
  delay.disable()
  return delay.max / 1e6
}

const manyFields = () =>
  JSON.stringify(Object.fromEntries(Array.from({ length: 150_000 }, (_, at) => [`k${at}`, 1])))

test.each([
  ['a list of a million numbers', `{"observations":[${'1,'.repeat(999_999)}1]}`, 'too_many'],
  [
    'a list of thirty thousand observations',
    `{"observations":[${'{"keyword":"a","day":"2026-11-14","status":"ranked"},'.repeat(30_000)}{}]}`,
    'too_many',
  ],
  ['an object of 150,000 fields', manyFields(), 'unknown_field'],
  [
    'objects of 180 fields each',
    `{"observations":[${`{${Array.from({ length: 180 }, (_, at) => `"k${at}":1`).join()}},`.repeat(900)}{}]}`,
    'too_many',
  ],
])('%s is refused at once, and nobody else waits', { retry: 3 }, async (_name, raw, code) => {
  expect(raw.length).toBeLessThan(2 * 1024 * 1024)
  const stalls: number[] = []
  for (let round = 0; round < 3; round++) {
    stalls.push(
      await longestStall(async () => {
        const answer = await world.ask('POST', '/api/batch/ranks', { raw, headers: json })
        expect(answer.status).toBe(400)
        expect(answer.body.error).toMatchObject({ code: 'validation_failed' })
        expect(answer.body.error.details).toContainEqual(expect.objectContaining({ code }))
        expect(answer.body.error.details.length).toBeLessThanOrEqual(100)
      }),
    )
  }
  expect(Math.min(...stalls)).toBeLessThan(150)
})

test('a thousand bad observations are named up to a hundred, and twenty unknown fields are all named', async () => {
  const many = await world.post('/api/batch/ranks', { workspace_id: 'w', observations: Array(1000).fill({}) })
  expect(many.body.error.details).toHaveLength(100)
  const fields = Object.fromEntries(Array.from('abcdefghijklmnopqrst', (name) => [`more_${name}`, 1]))
  const unknown = await world.post('/api/batch/keywords', { workspace_id: 'w', keywords: ['a'], ...fields })
  expect(unknown.body.error.details.map(({ path }: { path: string }) => path)).toEqual(Object.keys(fields))
})

test('a body refused by its shape counts against the token, not against a workspace', async () => {
  const token = await world.makeToken({ workspace: 'ws_shape' })
  const raw = manyFields()
  const refused = await world.ask('POST', '/api/batch/ranks', { raw, headers: json, token })
  expect([refused.status, refused.headers.get('ratelimit')]).toEqual([400, '"workspace";r=99;t=60'])
  const fine = await world.post(
    '/api/batch/keywords',
    { workspace_id: 'ws_shape', keywords: ['a'] },
    { token },
  )
  expect(fine.headers.get('ratelimit')).toBe('"workspace";r=99;t=60')
})

test('the workspace header is believed of a token for all workspaces only', async () => {
  const account = await world.makeToken({ scopes: ['batch:read'], workspace: null, account: 'acct_1' })
  const all = await world.makeToken({ scopes: ['batch:read'] })
  const look = (token: string) =>
    world.get('/api/batch/models', { token, headers: { 'x-workspace-id': 'ws_victim' } })
  for (let round = 0; round < 5; round++) expect((await look(account)).status).toBe(200)
  expect((await look(all)).headers.get('ratelimit')).toMatch(/r=99;/)
  expect((await look(all)).headers.get('ratelimit')).toMatch(/r=98;/)
  expect((await look(account)).headers.get('ratelimit')).toMatch(/r=94;/)
})

test('billing takes so many requests a minute from one token, and others are not affected', async () => {
  const busy = await world.makeToken({ scopes: ['billing:read'] })
  const other = await world.makeToken({ scopes: ['billing:read'] })
  const statuses: number[] = []
  for (let at = 0; at < 31; at++)
    statuses.push((await world.get('/api/billing/plans', { token: busy })).status)
  expect(statuses).toEqual([...Array(30).fill(200), 429])
  const limited = await world.get('/api/billing/plans', { token: busy })
  expect(limited.body.error.code).toBe('rate_limited')
  expect(Number(limited.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(Number(limited.headers.get('retry-after'))).toBeLessThanOrEqual(60)
  expect((await world.get('/api/billing/plans', { token: other })).status).toBe(200)
  expect((await world.get('/api/batch/models', { token: world.token })).status).toBe(200)
})

test('a rate lets in again what has left the last minute', () => {
  let now = 0
  const rate = openRequestRate(2, () => now)
  expect([rate.admit('t'), rate.admit('t'), rate.admit('t')]).toEqual([0, 0, 60])
  now = 59_000
  expect([rate.admit('t'), rate.admit('u')]).toEqual([1, 0])
  now = 60_000
  expect([rate.admit('t'), rate.admit('t'), rate.admit('t')]).toEqual([0, 0, 60])
})

test('so many requests of one token are worked at a time, 512 wait, and the next is turned away', {
  retry: 3,
}, async () => {
  const door = await openSlowDoor(world.app, 2)
  const token = await world.makeToken({})
  const statuses: number[] = []
  const get = async () => {
    const { status } = await fetch(`${door.url}/slow`, { headers: { authorization: `Bearer ${token}` } })
    statuses.push(status)
  }
  const all = Array.from({ length: 600 }, get)
  // Two are worked and 512 wait, whichever came first.
  await expect.poll(() => statuses.length).toBe(600 - 514)
  expect(new Set(statuses)).toEqual(new Set([429]))
  expect(door.waiting.length).toBe(2)
  const other = await world.makeToken({})
  const others = fetch(`${door.url}/slow`, { headers: { authorization: `Bearer ${other}` } })
  await expect.poll(() => door.waiting.length).toBe(3)
  const otherScope = await fetch(`${door.url}/quick`, { headers: { authorization: `Bearer ${token}` } })
  expect(otherScope.status).toBe(200)

  const pump = setInterval(() => {
    for (const answer of door.waiting.splice(0)) answer()
  }, 1)
  await Promise.all(all)
  expect((await others).status).toBe(200)
  expect(statuses.filter((status) => status === 200)).toHaveLength(514)
  clearInterval(pump)
  await door.http.close()
})

test('who leaves while waiting frees the place, and who leaves while being worked does not', {
  retry: 3,
}, async () => {
  const door = await openSlowDoor(world.app, 1)
  const token = await world.makeToken({})
  const ask = () => {
    const socket = connect(door.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`GET /slow HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`)
    return socket
  }
  const worked = ask()
  await expect.poll(() => door.waiting.length).toBe(1)
  const gone = ask()
  await sleep(50)
  gone.destroy()
  worked.destroy()
  await sleep(50)
  const last = fetch(`${door.url}/slow`, { headers: { authorization: `Bearer ${token}` } })
  await sleep(100)
  expect(door.waiting.length).toBe(1)
  door.waiting[0]!()
  await expect.poll(() => door.waiting.length).toBe(2)
  door.waiting[1]!()
  expect((await last).status).toBe(200)
  await door.http.close()
})

test('a connection that breaks gives back the turns of all its requests, those behind the first too', async () => {
  const door = await openSlowDoor(world.app, 4)
  const token = await world.makeToken({})
  const socket = connect(door.port, '127.0.0.1')
  socket.write(`GET /slow HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`.repeat(6))
  await expect.poll(() => door.waiting.length).toBe(4)
  // Two are done and wait for the first to be answered, two are worked, and two wait for their turn.
  for (const answer of door.waiting.splice(2)) answer()
  await expect.poll(() => door.waiting.length).toBe(2)
  socket.destroy()
  await expect.poll(door.connections).toBe(0)
  for (const answer of door.waiting.splice(0)) answer()

  const headers = { authorization: `Bearer ${token}` }
  const later = Array.from({ length: 4 }, async () => (await fetch(`${door.url}/slow`, { headers })).status)
  await expect.poll(() => door.waiting.length, { timeout: 10_000 }).toBe(4)
  for (const answer of door.waiting.splice(0)) answer()
  expect(await Promise.all(later)).toEqual(Array(4).fill(200))
  await door.http.close()
})

test('who leaves while the token is looked up gives the turn back', async () => {
  let look: () => void = () => {}
  const found = new Promise<void>((resolve) => {
    look = resolve
  })
  const asked: string[] = []
  const identify = async (authorization = '') => {
    asked.push(authorization)
    await found
    return world.app.access.identify(authorization)
  }
  const door = await openSlowDoor({ ...world.app, access: { identify } }, 1)
  const token = await world.makeToken({})
  const socket = connect(door.port, '127.0.0.1')
  socket.write(`GET /slow HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`)
  await expect.poll(() => asked.length).toBe(1)
  socket.destroy()
  await expect.poll(door.connections).toBe(0)
  look()
  await expect.poll(() => door.waiting.length).toBe(1)
  door.waiting[0]!()
  const later = fetch(`${door.url}/slow`, { headers: { authorization: `Bearer ${token}` } })
  await expect.poll(() => door.waiting.length, { timeout: 10_000 }).toBe(2)
  door.waiting[1]!()
  expect((await later).status).toBe(200)
  await door.http.close()
})

test('large bodies of one token are worked one at a time if there are others, small ones and those of others beside them', {
  retry: 3,
}, async () => {
  const door = await openSlowDoor(world.app, 64)
  const token = await world.makeToken({})
  const other = await world.makeToken({})
  const post = async (bearer: string, bytes: number) =>
    (
      await fetch(`${door.url}/large`, {
        method: 'POST',
        headers: { ...json, authorization: `Bearer ${bearer}` },
        body: JSON.stringify('x'.repeat(bytes)),
      })
    ).status
  const eight = () => Promise.all(Array.from({ length: 8 }, () => post(token, 1_000_000)))
  // On a busy machine a megabyte takes its time to arrive.
  door.pace.ms = 500
  expect(await eight()).toEqual(Array(8).fill(200))
  expect(Math.max(...door.sizes)).toBe(4)
  door.pace.ms = 20
  await post(other, 100)
  door.sizes.length = 0
  expect(await eight()).toEqual(Array(8).fill(200))
  expect(Math.max(...door.sizes)).toBe(1)
  door.sizes.length = 0
  await Promise.all([post(token, 1_000_000), post(other, 1_000_000), post(token, 100), post(token, 100)])
  expect(Math.max(...door.sizes)).toBeGreaterThan(1)
  await door.http.close()
})

test('long pages of one token are made one at a time if there are others, and four that nobody takes hold up only the next', {
  retry: 3,
}, async () => {
  const door = await openSlowDoor(world.app, 64)
  const token = await world.makeToken({})
  const headers = { authorization: `Bearer ${token}` }
  const list = async (limit: number, bearer = headers) =>
    (await fetch(`${door.url}/list?limit=${limit}`, { headers: bearer })).arrayBuffer()
  const other = { authorization: `Bearer ${await world.makeToken({})}` }
  await list(20, other)
  door.sizes.length = 0
  await Promise.all(Array.from({ length: 6 }, () => list(100)))
  expect(Math.max(...door.sizes)).toBe(1)
  door.sizes.length = 0
  await Promise.all(Array.from({ length: 6 }, () => list(20)))
  expect(Math.max(...door.sizes)).toBe(6)

  door.sizes.length = 0
  const untaken = Array.from({ length: 5 }, () => {
    const socket = connect(door.port, '127.0.0.1').pause()
    socket.on('error', () => {})
    socket.write(`GET /list?limit=100&huge=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`)
    return socket
  })
  await expect.poll(() => door.sizes.length).toBe(4)
  await sleep(100)
  expect(door.sizes).toHaveLength(4)
  await list(100, other)
  await list(20)
  untaken[0]!.destroy()
  await expect.poll(() => door.sizes.length).toBe(7)
  for (const socket of untaken) socket.destroy()
  await door.http.close()
})

test('the kinds of a name take turns, and who waits too long is told so', async () => {
  const turns = openTurns({ atOnce: () => 1, waiting: 10, waitMs: 200 })
  expect(turns.tryTake('t')).toBe(true)
  const came: string[] = []
  const come = async (kind: string, as: string) => {
    if (await turns.wait('t', kind, () => {})) came.push(as)
    else came.push(`${as} left`)
  }
  for (const as of ['w1', 'w2', 'w3']) void come('write', as)
  void come('read', 'r1')
  for (let round = 0; round < 3; round++) turns.give('t')
  await sleep(0)
  expect(came).toEqual(['w1', 'r1', 'w2'])
  await expect.poll(() => came).toEqual(['w1', 'r1', 'w2', 'w3 left'])
  turns.give('t')
  expect(turns.tryTake('t')).toBe(true)
  // Who has waited elsewhere already waits here for what is left of the time.
  expect(await turns.wait('t', 'write', () => {}, 0)).toBe(false)
})

test('between two of a long line there is a pause, and a short line has none', async () => {
  const turns = openTurns({ atOnce: () => 1, pauseMs: () => 50, waiting: 20, waitMs: 5_000 })
  const called = async (name: string, many: number) => {
    let came = 0
    turns.tryTake(name)
    for (let at = 0; at < many; at++) void turns.wait(name, 'read', () => {}).then(() => came++)
    turns.give(name)
    await sleep(0)
    return () => came
  }
  expect((await called('short', 3))()).toBe(1)
  const ofLong = await called('long', 12)
  expect(ofLong()).toBe(0)
  await expect.poll(ofLong).toBe(1)
})

test('a token has less at once while connections run short and others are there, and all of it when it is alone', () => {
  let now = 0
  let crowded = false
  const share = openShare(
    64,
    () => crowded,
    () => now,
  )
  const after = (ms: number) => {
    now += ms
    return share.now()
  }
  share.seen('busy')
  crowded = true
  expect(after(100)).toBe(64)
  share.seen('other')
  share.seen('busy')
  expect([after(50), after(50), after(10), after(40)]).toEqual([32, 16, 16, 8])
  expect([after(50), after(50), after(50)]).toEqual([4, 2, 1])
  expect(share.pauseMs()).toBe(0)
  // Where the least is still too much, there is a pause between one and the next, longer and longer.
  expect([after(50), share.pauseMs(), after(50), share.pauseMs()]).toEqual([1, 5, 1, 10])
  crowded = false
  expect([after(50), share.pauseMs(), after(50), after(50), after(50), after(50)]).toEqual([1, 8, 1, 1, 1, 1])
  expect([share.pauseMs(), after(50), after(100)]).toEqual([0, 2, 4])
  crowded = true
  expect(after(6_000)).toBe(64)
})

test('badly signed notifications grow slow and are told once, and signed ones are taken all the while', async () => {
  const post = (id: string, at: number, signature: string) =>
    world.ask('POST', '/api/billing/webhook', {
      raw: body,
      token: null,
      headers: {
        ...json,
        'webhook-id': id,
        'webhook-timestamp': String(at),
        'webhook-signature': signature,
      },
    })
  const body = JSON.stringify({ type: 'something.else', data: {} })
  const forged = () => post(`msg_${randomBytes(4).toString('hex')}`, 1, 'v1,x')
  const signed = (id: string) => {
    const at = Math.floor(Date.now() / 1000)
    const secret = Buffer.from(world.environment['WEBHOOK_SECRETS']!.slice('whsec_'.length), 'base64')
    const mac = createHmac('sha256', secret).update(`${id}.${at}.${body}`).digest('base64')
    return post(id, at, `v1,${mac}`)
  }
  // They are counted by the minute of the clock; all of this must lie in one.
  const leftMs = 60_000 - (Date.now() % 60_000)
  if (leftMs < 15_000) await sleep(leftMs)
  const warned = vi.spyOn(world.app.log, 'warn')
  for (let round = 0; round < 7; round++) await Promise.all(Array.from({ length: 50 }, forged))
  const slow = { startedAt: performance.now(), answer: forged() }
  const took = []
  for (let at = 0; at < 10 && Math.min(...took) >= 900; at++) {
    const startedAt = performance.now()
    const taken = await signed(`msg_signed_${at}`)
    expect([taken.status, taken.body.data]).toEqual([200, { received: true, duplicate: false }])
    took.push(performance.now() - startedAt)
  }
  // A busy machine can only add to a time, so the least of them is the one to judge.
  expect(Math.min(...took)).toBeLessThan(900)
  expect((await slow.answer).status).toBe(401)
  expect(performance.now() - slow.startedAt).toBeGreaterThan(40)
  const told = warned.mock.calls.filter(([event]) => event === 'access.flood')
  expect(told).toEqual([['access.flood', { of: 'signatures', source: expect.stringMatching(/^[\w-]{8,}$/) }]])
  warned.mockRestore()
})
