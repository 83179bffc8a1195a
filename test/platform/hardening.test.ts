import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

/** Sends a request as it stands, without a client that would tidy it up. */
function send(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(Number(new URL(world.url).port), '127.0.0.1', () => socket.write(text))
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.on('end', () => resolve(answer))
    socket.on('error', reject)
  })
}

test.each([
  '/docs/static/../x',
  '/docs/static/..%2f..%2fpackage.json',
  '/docs/static/%2e%2e/%2e%2e/x',
  '/docs/static/nothing.js',
])('%s leaves no folder and is no fault of ours', async (path) => {
  const answer = await send(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
  expect(answer).toMatch(/^HTTP\/1\.1 404 /)
  expect(answer).toContain('route_not_found')
})

test('no answer is sniffed, kept or framed', async () => {
  for (const path of ['/api/billing/plans', '/api/nothing', '/healthz', '/docs/', '/openapi.json']) {
    const { headers } = await world.get(path)
    expect(headers.get('x-content-type-options'), path).toBe('nosniff')
    expect(headers.get('content-security-policy'), path).toMatch(/default-src '(?:none|self)'/)
    expect(headers.get('content-security-policy'), path).toContain("frame-ancestors 'none'")
    if (path.startsWith('/api')) expect(headers.get('cache-control')).toBe('no-store')
  }
  const docs = (await world.get('/docs/')).headers.get('content-security-policy')!
  expect(docs).not.toContain('https:')
  expect(docs).toMatch(/script-src 'self'/)
  expect(docs).not.toMatch(/script-src[^;]*unsafe/)
})

test('a compressed body is refused, whatever it holds', async () => {
  const raw = gzipSync(JSON.stringify({ workspace_id: 'w', keywords: ['a'] }))
  const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' }
  const answer = await world.ask('POST', '/api/batch/keywords', { raw, headers })
  expect([answer.status, answer.body.error.code]).toEqual([415, 'unsupported_media_type'])
  expect(answer.headers.get('ratelimit')).toMatch(/r=99;/)
  const webhook = await world.ask('POST', '/api/billing/webhook', { raw, headers, token: null })
  expect(webhook.status).toBe(415)
  const plain = await world.ask('POST', '/api/batch/keywords', {
    raw: JSON.stringify({ workspace_id: 'w', keywords: ['a'] }),
    headers: { ...headers, 'content-encoding': 'identity' },
  })
  expect(plain.status).toBe(200)
})

test('a field name that may be a secret is not said back', async () => {
  const secrets = [
    world.token,
    '4242424242424242',
    'person@example.com',
    `sk_live_${'a'.repeat(30)}`,
    'hunter2secret99',
  ]
  for (const secret of secrets) {
    const answer = await world.post('/api/batch/keywords', {
      workspace_id: 'w',
      keywords: ['a'],
      [secret]: 1,
    })
    expect(answer.body.error.details).toEqual([
      { path: '<field>', code: 'unknown_field', message: expect.any(String) },
    ])
    expect(answer.text).not.toContain(secret)
    const nested = await world.post('/api/billing/subscribe', {
      account_id: 'a',
      plan_id: 'p',
      payment_method: { [secret]: 1 },
    })
    expect(nested.text).not.toContain(secret)
  }
  const typo = await world.post('/api/batch/keywords', { workspace_id: 'w', keywords: ['a'], keyword: 1 })
  expect(typo.body.error.details[0].path).toBe('keyword')
})

test('what concerns the installation needs a token for all of it', async () => {
  const scopes = ['billing:write', 'batch:write', 'admin'] as const
  await expect(world.makeToken({ scopes, workspace: 'ws_1' })).rejects.toThrow()
  await expect(world.makeToken({ scopes, account: 'acct_1' })).rejects.toThrow()
  await expect(world.makeToken({ scopes, account: null })).rejects.toThrow()
  const all = await world.makeToken({ scopes: ['admin'] })
  expect((await world.get('/api/sandbox/clock', { token: all })).status).toBe(200)
})
