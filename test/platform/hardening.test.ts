import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { buildHttp } from '../../src/platform/http/http.ts'
import { type Answer, openWorld, type World } from '../world.ts'

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

test('a request names one host: whoever names two may mean another than a proxy before us reads', async () => {
  for (const hosts of ['Host: a\r\nHost: b', 'Host: a\r\nX: y\r\nhOST: a']) {
    for (const path of ['/healthz', '/api/billing/plans', '/api/nothing', '/%zz']) {
      const answer = await send(
        `GET ${path} HTTP/1.1\r\n${hosts}\r\nAuthorization: Bearer ${world.token}\r\nConnection: close\r\n\r\n`,
      )
      expect([path, answer]).toEqual([path, expect.stringMatching(/^HTTP\/1\.1 400 /)])
      expect(answer).toContain('"code":"invalid_http"')
    }
  }
  expect(await send('GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /)
  expect(await send('GET /healthz HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /)
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

test('a path that cannot be decoded is answered, logged and counted like every other', async () => {
  const logged = vi.spyOn(world.app.log, 'info')
  const counted = async () => {
    const text = (await world.get('/metrics', { token: null })).text
    const at = (name: string) =>
      Number(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm').exec(text)?.[1] ?? 0)
    return [
      at('rankledger_http_answers_total{route="unmatched",status="404"}'),
      at('rankledger_http_answer_seconds_count{route="unmatched"}'),
    ]
  }
  const before = await counted()
  const paths = ['/%zz', '/api/billing/plans/%ed%a0%80', '/docs/%', '/console/%ff']
  for (const path of paths)
    for (const method of ['GET', 'HEAD', 'POST']) {
      const id = `undecodable-${logged.mock.calls.length}`
      const answer = await world.ask(method, path, { headers: { 'x-request-id': id } })
      const unknown = await world.ask(method, '/api/nothing')
      expect([path, method, answer.status, answer.body?.error.code]).toEqual([
        path,
        method,
        404,
        method === 'HEAD' ? undefined : 'route_not_found',
      ])
      const namesOf = ({ headers }: Answer) => [...headers.keys()].sort()
      expect(namesOf(answer)).toEqual(namesOf(unknown))
      for (const name of ['content-security-policy', 'x-content-type-options', 'cache-control'])
        expect(answer.headers.get(name), name).toBe(unknown.headers.get(name))
      await expect
        .poll(() => logged.mock.calls.map(([, fields]) => fields))
        .toContainEqual({
          request_id: id,
          method,
          route: 'unmatched',
          status: 404,
          ms: expect.any(Number),
          caller: undefined,
        })
    }
  const asked = 2 * 3 * paths.length
  await expect.poll(counted).toEqual(before.map((count) => count + asked))
  logged.mockRestore()
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
      {
        path: '<field>',
        code: 'unknown_field',
        message: 'This route takes no such field; it takes workspace_id, keywords.',
      },
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

test('a request id that may be a card or a number of a person is answered as it came and not logged so', async () => {
  const lines: unknown[] = []
  const http = buildHttp({
    access: world.app.access,
    limiter: world.app.limiter,
    openPrefixes: [],
    onAnswer: ({ request_id }) => lines.push(request_id),
    onFault() {},
  })
  http.get('/open', { config: { access: 'open' } }, async () => ({}))
  const ids = [
    '4242424242424242',
    '42424242-4242-4242-0000-000000000000',
    'deadbeef-4242-4242-4242-424242424242',
    '4242x4242x4242x4242',
    'a010b1234c5678',
  ]
  for (const id of ids) {
    const answer = await http.inject({ url: '/open', headers: { 'x-request-id': id } })
    expect(answer.headers['x-request-id']).toBe(id)
  }
  await http.inject({ url: '/open', headers: { 'x-request-id': '4242x4242x4242x4242' } })
  await expect.poll(() => lines.length).toBe(6)
  for (const line of lines) expect(line).toMatch(/^caller-[a-p]{20}$/)
  expect(lines[5]).toBe(lines[3])
  for (const id of ['req-2026-11', 'f3b1c2d4-9a8e-4c7d-b6a5-0e1f2a3b4c5d']) {
    await http.inject({ url: '/open', headers: { 'x-request-id': id } })
    await expect.poll(() => lines.at(-1)).toBe(id)
  }
  await http.close()
})

test('names hold nothing that cannot be seen', async () => {
  for (const hidden of ['\u0000', '\u0007', '\u202e', '\u2066', '\u200f', '\u2028', '\u0085', '\n']) {
    const name = `Kim${hidden}Lee`
    const account = await world.ask('PUT', '/api/billing/accounts/acct_1', { body: { customer: { name } } })
    expect([account.status, account.body.error.code]).toEqual([400, 'validation_failed'])
    expect(account.body.error.details[0]).toMatchObject({ path: 'customer.name', code: 'wrong_form' })
    const plan = {
      name,
      amount: 1,
      currency: 'KRW',
      interval: 'month',
      interval_count: 1,
      trial_days: 0,
      active: true,
    }
    expect((await world.ask('PUT', '/api/billing/plans/hidden', { body: plan })).status).toBe(400)
  }
  const fine = { customer: { name: "김민수 O'Brien-Łukasz 👩‍💻 (Team)", email: 'kim@example.com' } }
  expect((await world.ask('PUT', '/api/billing/accounts/acct_1', { body: fine })).status).toBe(200)
})

test('a billing key that is a step in a path is a key that nobody has', async () => {
  const trial = await world.post('/api/billing/trial', {
    account_id: 'acct_dots',
    plan_id: 'starter-monthly',
  })
  const { subscription_id } = trial.body.data
  for (const billing_key of ['.', '..', '../../admin/faults', '%2e%2e']) {
    const change = { subscription_id, payment_method: { billing_key } }
    const answer = await world.post('/api/billing/payment-method', change)
    expect([answer.status, answer.body.error.code], billing_key).toEqual([422, 'billing_key_invalid'])
  }
})

test('unknown keywords make no partitions, and the scattered days of a known one make tens, not hundreds', async () => {
  const months = () => world.query(`select from pg_class where relname like 'rank_2%' and relkind = 'r'`)
  const before = (await months()).length
  const observations = Array.from({ length: 300 }, (_, at) => ({
    keyword: 'nobody registered this',
    day: `${2001 + Math.floor(at / 12)}-${String(1 + (at % 12)).padStart(2, '0')}-01`,
    status: 'not_in_depth',
  }))
  const answer = await world.post('/api/batch/ranks', { workspace_id: 'ws_parts', observations })
  expect(answer.body.data).toMatchObject({ inserted: 0, rejected: 300 })
  expect((await months()).length).toBe(before)
  await world.post('/api/batch/keywords', { workspace_id: 'ws_parts', keywords: ['known'] })
  const known = { keyword: 'known', day: '2026-11-01', status: 'not_in_depth' }
  const mixed = await world.post('/api/batch/ranks', {
    workspace_id: 'ws_parts',
    observations: [known, ...observations],
  })
  expect(mixed.body.data).toMatchObject({ inserted: 1, rejected: 300 })
  expect((await months()).length).toBeLessThanOrEqual(before + 1)

  const scattered = observations.map((observation) => ({ ...observation, keyword: 'known' }))
  const stored = await world.post('/api/batch/ranks', { workspace_id: 'ws_parts', observations: scattered })
  expect(stored.body.data).toMatchObject({ inserted: 300, rejected: 0 })
  // The years 2001 to 2024, the twelve months of 2025, and the month before.
  expect((await months()).length).toBeLessThanOrEqual(before + 1 + 24 + 12)
  const history = await world.get('/api/batch/ranks/known?workspace_id=ws_parts&from=2001-01-01')
  expect(history.body.data.ranks).toHaveLength(301)
})

test('the sandbox provider opens to its own key and to no other', async () => {
  const ask = (key: string | undefined) =>
    fetch(`${world.app.sandboxUrl}/admin/payments`, {
      headers: key ? { authorization: `Bearer ${key}` } : {},
    })
  expect((await ask(world.app.sandboxKey)).status).toBe(200)
  for (const key of [undefined, 'sandbox', 'x', `${world.app.sandboxKey}x`, world.token])
    expect((await ask(key)).status).toBe(401)
})

test('what concerns the installation needs a token for all of it', async () => {
  const scopes = ['billing:write', 'batch:write', 'admin'] as const
  await expect(world.makeToken({ scopes, workspace: 'ws_1' })).rejects.toThrow()
  await expect(world.makeToken({ scopes, account: 'acct_1' })).rejects.toThrow()
  await expect(world.makeToken({ scopes, account: null })).rejects.toThrow()
  const all = await world.makeToken({ scopes: ['admin'] })
  expect((await world.get('/api/sandbox/clock', { token: all })).status).toBe(200)
})
