import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openAccess } from '../../src/platform/access/access.ts'
import { newToken, tokenIdOf } from '../../src/platform/access/token.ts'
import { revokeToken } from '../../src/platform/access/token-rows.ts'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const keywords = (workspace: string) => ({ workspace_id: workspace, keywords: ['a'] })
const register = (workspace: string, token: string | null) =>
  world.post('/api/batch/keywords', keywords(workspace), { token })

test('missing, malformed, unknown, expired and revoked tokens cannot be told apart', async () => {
  const expired = await world.makeToken({ expiresAt: new Date(world.app.clock().getTime() - 1) })
  const revoked = await world.makeToken({})
  await revokeToken(world.app.pool, tokenIdOf(revoked), world.app.clock())
  const answers = await Promise.all(
    [null, 'nonsense', newToken('test'), newToken('live'), expired, revoked].map((token) =>
      register('ws', token),
    ),
  )
  for (const answer of answers) {
    expect(answer.status).toBe(401)
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
    expect(answer.headers.get('ratelimit')).toBeNull()
    expect({ ...answer.body.error, request_id: '' }).toEqual({ ...answers[0]!.body.error, request_id: '' })
  }
})

test('a revoked token is refused everywhere within five seconds, although it was good a moment ago', {
  retry: 3,
}, async () => {
  const token = await world.makeToken({})
  expect((await register('ws', token)).status).toBe(200)
  await revokeToken(world.app.pool, tokenIdOf(token), world.app.clock())
  await sleep(4_000)
  expect((await register('ws', token)).status).toBe(401)
})

test('a token that is revoked while its body arrives does nothing any more', async () => {
  const token = await world.makeToken({})
  const body = JSON.stringify(keywords('ws_slow'))
  const slowly = async (headers: Record<string, string>) => {
    const { hostname, port } = new URL(world.url)
    const asked = request({ method: 'POST', host: hostname, port, path: '/api/batch/keywords' })
    const all = { ...headers, 'content-type': 'application/json', 'content-length': `${body.length}` }
    for (const [name, value] of Object.entries(all)) asked.setHeader(name, value)
    asked.write(body.slice(0, 10))
    await sleep(4_500)
    asked.end(body.slice(10))
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    return [answer.statusCode, answer.headers['www-authenticate'], (await json(answer)) as object]
  }
  const signedIn = await world.post('/api/session', { token }, { token: null })
  const cookie = signedIn.headers.get('set-cookie')!.split(';')[0]!
  const answers = [slowly({ authorization: `Bearer ${token}` }), slowly({ cookie, 'x-console': '1' })]
  await sleep(300)
  await revokeToken(world.app.pool, tokenIdOf(token), world.app.clock())
  for (const answer of await Promise.all(answers))
    expect(answer).toMatchObject([401, 'Bearer', { error: { code: 'unauthorized' } }])
  expect(await world.query(`select 1 from batch.keyword where workspace_id = 'ws_slow'`)).toEqual([])
  const [status] = await slowly({ authorization: `Bearer ${world.token}` })
  expect(status).toBe(200)
})

test('what the database said slowly is believed no longer than what it said at once', async () => {
  const token = await world.makeToken({})
  let says = () => {}
  const slow = new Promise<void>((resolve) => {
    says = resolve
  })
  let asked = 0
  const pool = {
    query: async (query: { name?: string }) => {
      const found = await (world.app.pool.query as (query: unknown) => Promise<object>)(query)
      if (query.name === 'token-by-hash' && ++asked === 1) await slow
      return found
    },
  } as unknown as pg.Pool
  const own = openAccess(pool, world.app.clock)
  const first = own.identify(`Bearer ${token}`)
  await sleep(3_100)
  says()
  await first
  await own.identify(`Bearer ${token}`)
  expect(asked).toBe(2)
})

test('a token bound to a workspace reaches no other', async () => {
  const token = await world.makeToken({ workspace: 'ws_1', account: null })
  expect((await register('ws_1', token)).status).toBe(200)
  const other = await register('ws_2', token)
  expect(other.status).toBe(403)
  expect(other.body.error.code).toBe('forbidden')
  expect((await world.get('/api/batch/volumes/a?workspace_id=ws_2', { token })).status).toBe(403)
})

test('write includes read, read does not include write, admin includes all', async () => {
  const read = await world.makeToken({ scopes: ['batch:read'] })
  const write = await world.makeToken({ scopes: ['batch:write'] })
  const admin = await world.makeToken({ scopes: ['admin'] })
  const billing = await world.makeToken({ scopes: ['billing:write'] })
  expect((await register('ws', read)).status).toBe(403)
  expect((await world.get('/api/batch/volumes/a', { token: read })).status).toBe(404)
  expect((await world.get('/api/batch/volumes/a', { token: write })).status).toBe(404)
  expect((await register('ws', admin)).status).toBe(200)
  expect((await world.get('/api/batch/volumes/a', { token: billing })).status).toBe(403)
})

test('parsing comes before the scope, and the scope before validation', async () => {
  const token = await world.makeToken({ scopes: ['batch:read'] })
  const headers = { 'content-type': 'application/json' }
  expect((await world.ask('POST', '/api/batch/keywords', { raw: '{', headers, token })).status).toBe(400)
  expect((await world.ask('POST', '/api/batch/keywords', { raw: '{}', headers, token })).status).toBe(403)
})

test('a flood of bad tokens slows only the bad ones', { retry: 3 }, async () => {
  for (let round = 0; round < 8; round++) {
    await Promise.all(Array.from({ length: 50 }, () => world.get('/api/batch/volumes/a', { token: null })))
  }
  // A busy machine can only add to a time, so the least of several is the one to judge.
  const leastMs = async (answer: number, times: number, ask: () => Promise<{ status: number }>) => {
    const took = []
    for (let round = 0; round < times; round++) {
      const askedAt = performance.now()
      expect((await ask()).status).toBe(answer)
      took.push(performance.now() - askedAt)
    }
    return Math.min(...took)
  }
  const slowMs = await leastMs(401, 3, () => world.get('/api/batch/volumes/a', { token: null }))
  expect(await leastMs(404, 10, () => world.get('/api/batch/volumes/a'))).toBeLessThan(slowMs)
  expect(slowMs).toBeGreaterThan(80)
  expect(slowMs).toBeLessThan(1_900)
})
