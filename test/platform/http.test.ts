import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ApiDocument } from '../api-document.ts'
import { type Answer, openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

test('a registered keyword is answered in the envelope, with a request id', async () => {
  const answer = await world.post('/api/batch/keywords', { workspace_id: 'ws_1', keywords: ['a', 'A', 'b'] })
  expect(answer.status).toBe(200)
  expect(answer.body).toEqual({ success: true, data: { registered: 2, skipped: 1 } })
  expect(answer.headers.get('x-request-id')).toMatch(/^req_/)
})

test('a request id is taken over if it is well formed, else made', async () => {
  const given = await world.get('/healthz', { headers: { 'x-request-id': 'abc-DEF_123' } })
  expect(given.headers.get('x-request-id')).toBe('abc-DEF_123')
  const made = await world.get('/healthz', { headers: { 'x-request-id': 'too short'.slice(0, 5) } })
  expect(made.headers.get('x-request-id')).toMatch(/^req_/)
})

test('a route that takes no body takes an empty one, whatever type a client gives it', async () => {
  const headers = { 'content-type': 'application/json' }
  await world.ask('PUT', '/api/billing/accounts/acct_empty', { body: { timezone: 'Asia/Seoul' } })
  const erased = await world.ask('DELETE', '/api/billing/accounts/acct_empty', { raw: '', headers })
  expect([erased.status, erased.body.success]).toEqual([200, true])
  const broken = await world.ask('DELETE', '/api/billing/accounts/acct_empty', { raw: '{', headers })
  expect([broken.status, broken.body.error.code]).toEqual([400, 'invalid_json'])
  const missing = await world.ask('DELETE', '/api/batch/keywords', { raw: '', headers })
  expect([missing.status, missing.body.error.code]).toEqual([400, 'invalid_json'])
})

test.each([
  ['unknown field', { body: { workspace_id: 'w', keywords: ['a'], more: 1 } }, 400, 'validation_failed'],
  [
    'unparsable JSON',
    { raw: '{"workspace_id":', headers: { 'content-type': 'application/json' } },
    400,
    'invalid_json',
  ],
  ['an empty body', { raw: '', headers: { 'content-type': 'application/json' } }, 400, 'invalid_json'],
  ['no body at all', {}, 400, 'validation_failed'],
  [
    'another content type',
    { raw: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    415,
    'unsupported_media_type',
  ],
  [
    'a body over 256 KiB',
    { raw: `"${'x'.repeat(256 * 1024)}"`, headers: { 'content-type': 'application/json' } },
    413,
    'body_too_large',
  ],
  [
    'a deep nest',
    { raw: '['.repeat(10_000) + ']'.repeat(10_000), headers: { 'content-type': 'application/json' } },
    400,
    'invalid_json',
  ],
  ['a number for text', { body: { workspace_id: 7, keywords: ['a'] } }, 400, 'validation_failed'],
  ['text for a list', { body: { workspace_id: 'w', keywords: 'a' } }, 400, 'validation_failed'],
  ['null', { raw: 'null', headers: { 'content-type': 'application/json' } }, 400, 'validation_failed'],
])('%s is refused in the envelope', async (_name, ask, status, code) => {
  const answer = await world.ask('POST', '/api/batch/keywords', ask as object)
  expect(answer.status).toBe(status)
  expect(answer.body.success).toBe(false)
  expect(answer.body.error).toMatchObject({ code, request_id: answer.headers.get('x-request-id') })
  if (code === 'validation_failed') expect(answer.body.error.details.length).toBeGreaterThan(0)
})

test('a body whose bytes are no UTF-8 is no JSON, however it is sent', async () => {
  const wounded = (keyword: string) =>
    Buffer.from(`{"workspace_id":"ws_bytes","keywords":["${keyword}"]}`, 'latin1')
  const { port } = new URL(world.url)
  for (const keyword of ['caf\xe9', '\xc3', '\xed\xa0\x80', '\xf8\x88\x80\x80\x80'])
    for (const isChunked of [false, true]) {
      const asked = request({
        method: 'POST',
        host: '127.0.0.1',
        port,
        path: '/api/batch/keywords',
        headers: { authorization: `Bearer ${world.token}`, 'content-type': 'application/json' },
      })
      const body = wounded(keyword)
      if (!isChunked) asked.setHeader('content-length', body.length)
      // In two pieces: a character may be cut in half on its way.
      asked.write(body.subarray(0, 45))
      asked.end(body.subarray(45))
      const [answer] = (await once(asked, 'response')) as [IncomingMessage]
      expect([keyword, isChunked, answer.statusCode, (await json(answer)) as object]).toMatchObject([
        keyword,
        isChunked,
        400,
        { error: { code: 'invalid_json' } },
      ])
    }
  expect(await world.query(`select 1 from batch.keyword where workspace_id = 'ws_bytes'`)).toEqual([])
  const whole = await world.post('/api/batch/keywords', {
    workspace_id: 'ws_bytes',
    keywords: ['café', '운동화'],
  })
  expect(whole.status).toBe(200)
})

test('validation names each bad place in the way callers write it', async () => {
  const answer = await world.post('/api/batch/keywords', {
    workspace_id: 'no spaces',
    keywords: Array(101).fill('a'),
  })
  expect(answer.body.error.details).toEqual([
    { path: 'workspace_id', code: 'wrong_form', message: expect.any(String) },
    { path: 'keywords', code: 'too_many_keywords', message: expect.any(String) },
  ])
})

test.each([
  '1e1',
  '0x10',
  '0b11',
  '%205',
  '5%20',
  '+5',
  '%2B5',
  '5.0',
  '5.',
  '.5e1',
  '',
  'true',
  '５',
  '1_0',
])('a number in a query string is plain digits: limit=%s is none', async (written) => {
  for (const [path, name] of [
    ['/api/billing/plans', 'limit'],
    ['/api/batch/keywords', 'limit'],
    ['/api/batch/keywords', 'days'],
    ['/api/batch/ranks/shoes', 'limit'],
  ]) {
    const answer = await world.get(`${path}?${name}=${encodeURI(written).replaceAll('%25', '%')}`)
    expect([path, answer.status, answer.body.error?.code]).toEqual([path, 400, 'validation_failed'])
    expect(answer.body.error.details).toMatchObject([{ path: name, code: 'wrong_type' }])
  }
})

test('digits are a number, also with zeros before them or a sign that makes it too small', async () => {
  expect((await world.get('/api/billing/plans?limit=1')).body.data.plans).toHaveLength(1)
  expect((await world.get('/api/billing/plans?limit=001')).body.data.plans).toHaveLength(1)
  const codeOf = async (written: string) =>
    (await world.get(`/api/billing/plans?limit=${written}`)).body.error.details[0].code
  expect(await codeOf('-5')).toBe('too_small')
  expect(await codeOf('0')).toBe('too_small')
  expect(await codeOf('99999999999999999999')).toBe('too_large')
})

test('an unknown route is 404, also with a broken escape, and a wrong method is 405 with Allow', async () => {
  expect((await world.get('/api/nothing')).body.error.code).toBe('route_not_found')
  expect((await world.get('/%zz')).body.error.code).toBe('route_not_found')
  const wrong = await world.ask('PATCH', '/api/batch/volumes/abc')
  expect(wrong.status).toBe(405)
  expect(wrong.headers.get('allow')).toBe('GET, HEAD')
  expect(wrong.body.error.code).toBe('method_not_allowed')
})

test.each(['TRACE', 'PROPFIND', 'QUERY', 'M-SEARCH', 'LOCK', 'PURGE'])(
  '%s is a wrong method like any other where the path exists, and unknown where it does not',
  async (method) => {
    const asked = async (path: string) => {
      const { hostname, port } = new URL(world.url)
      const sent = request({ method, host: hostname, port, path }).end()
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      return [answer.statusCode, answer.headers.allow, ((await json(answer)) as Answer['body']).error.code]
    }
    expect(await asked('/api/billing/%70lans/pro%2Fmonthly?a=b')).toEqual([
      405,
      'GET, HEAD, PUT',
      'method_not_allowed',
    ])
    expect(await asked('/api/billing/subscribe')).toEqual([405, 'POST', 'method_not_allowed'])
    for (const path of ['/api/nothing', '/api/billing/plans/a/b', '/%zz', '/docs/'])
      expect([path, ...(await asked(path))]).toEqual([path, 404, undefined, 'route_not_found'])
  },
)

test('an id of the wrong shape in a path is one that nothing has', async () => {
  const document = world.http.swagger() as unknown as ApiDocument
  const asked = Object.entries(document.paths).flatMap(([path, operations]) =>
    /\{\w+_id\}/.test(path) ? Object.keys(operations).map((method) => [method.toUpperCase(), path]) : [],
  )
  expect(asked.length).toBeGreaterThan(15)
  const wrong = ['no%20spaces', 'x'.repeat(600), '%F0%9F%92%A9', 'a%00b', '%EF%BC%91', "'%3B--"]
  for (const [method, path] of asked as [string, string][])
    for (const id of wrong) {
      const named = path.replace(/\{\w+_id\}/, id)
      // What else is wrong with the request comes behind it. Each asks for a workspace of its own, which has its own rate.
      const headers = { 'x-workspace-id': `ws_${asked.findIndex((one) => one[1] === path)}` }
      const { status, body } = await world.ask(
        method,
        named,
        method === 'GET' ? { headers } : { headers, body: {} },
      )
      // PUT looks for nothing: there the caller chooses an id, and is told what is wrong with it.
      const expected =
        method === 'PUT'
          ? [400, 'validation_failed']
          : [404, expect.stringMatching(/^(?!route_)\w+_not_found$/)]
      expect([method, path, id, status, body.error.code]).toEqual([method, path, id, ...expected])
      expect(body.error.details?.map((detail: { path: string }) => detail.path)).toEqual(
        method === 'PUT' ? [/\{(\w+)\}/.exec(path)![1]] : undefined,
      )
    }
})

test('bytes that are no HTTP get the envelope too, and the connection closes', async () => {
  const { port } = new URL(world.url)
  const answer = await new Promise<string>((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), '127.0.0.1', () => socket.write('nonsense\r\n\r\n'))
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('end', () => resolve(text))
    socket.on('error', reject)
  })
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect(JSON.parse(answer.split('\r\n\r\n')[1]!).error.code).toBe('invalid_http')
})

test('headers over 16 KiB are refused', async () => {
  const answer = await world.get('/healthz', { headers: { 'x-long': 'a'.repeat(17 * 1024) } })
  expect(answer.status).toBe(431)
})

test('a route without an access policy stops the start', async () => {
  const { buildHttp } = await import('../../src/platform/http/http.ts')
  const http = buildHttp({
    access: world.app.access,
    limiter: world.app.limiter,
    openPrefixes: [],
    onAnswer() {},
    onFault() {},
  })
  expect(() => http.get('/forgotten', async () => ({}))).toThrow(/GET \/forgotten declares no access policy/)
})

test('a fault of ours tells its type and nothing else', async () => {
  const { buildHttp } = await import('../../src/platform/http/http.ts')
  const faults: unknown[] = []
  const http = buildHttp({
    access: world.app.access,
    limiter: world.app.limiter,
    openPrefixes: [],
    onAnswer() {},
    onFault: (error, at) => faults.push({ error, at }),
  })
  http.get('/broken/:name', { config: { access: 'open' } }, async () => {
    throw new TypeError('person@example.com')
  })
  const answer = await http.inject({ url: '/broken/person' })
  expect(answer.statusCode).toBe(500)
  expect(answer.json()).toEqual({
    success: false,
    error: {
      code: 'internal_error',
      type: 'TypeError',
      message: expect.any(String),
      request_id: answer.headers['x-request-id'],
    },
  })
  expect(answer.body).not.toContain('example')
  expect(faults).toEqual([
    {
      error: expect.any(TypeError),
      at: { route: '/broken/:name', request_id: answer.headers['x-request-id'] },
    },
  ])
})
