import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
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
