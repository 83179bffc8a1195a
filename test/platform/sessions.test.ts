import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newSession } from '../../src/platform/access/session.ts'
import { forgetOldSessions, insertSession, insertSignInCode } from '../../src/platform/access/session-rows.ts'
import { tokenIdOf } from '../../src/platform/access/token.ts'
import { revokeToken } from '../../src/platform/access/token-rows.ts'
import { type Answer, openWorld, type World } from '../world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const own = { 'x-console': '1' }
const signIn = (body: unknown, headers: Record<string, string> = {}) =>
  world.post('/api/session', body, { token: null, headers })
const cookieOf = (answer: Answer) => answer.headers.get('set-cookie')!.split(';')[0]!
const withCookie = (method: string, path: string, cookie: string, headers = {}, body?: unknown) =>
  world.ask(method, path, {
    token: null,
    headers: { cookie, ...headers },
    ...(body !== undefined && { body }),
  })

test('a token signs a browser in for twelve hours, by a cookie that no script and no other site can use', async () => {
  const answer = await signIn({ token: world.token })
  expect(answer.status).toBe(201)
  expect(answer.headers.get('set-cookie')).toMatch(
    /^rankledger_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
  )
  expect(answer.body.data).toMatchObject({
    token_id: tokenIdOf(world.token),
    workspace: '*',
    mode: 'sandbox',
  })
  const cookie = cookieOf(answer)
  const me = await withCookie('GET', '/api/session', cookie)
  expect(me.body.data.expires_at).toBe(answer.body.data.expires_at)
  expect((await withCookie('GET', '/api/billing/plans', cookie)).status).toBe(200)
  const stored = await world.query<{ hash: Buffer }>('select hash from platform.session')
  expect(stored.every(({ hash }) => !hash.toString('latin1').includes(cookie.split('=')[1]!))).toBe(true)
})

test('a wrong token, no token and two ways at once sign nobody in', async () => {
  for (const body of [{ token: 'nonsense' }, { code: newSession() }, { code: 'x' }]) {
    const answer = await signIn(body)
    expect([answer.status, answer.body.error.code]).toEqual([401, 'unauthorized'])
    expect(answer.headers.get('set-cookie')).toBeNull()
  }
  expect((await signIn({})).status).toBe(400)
  expect((await signIn({ token: world.token, code: 'x' })).status).toBe(400)
  expect((await signIn({ token: world.token }, { origin: 'https://evil.example' })).status).toBe(403)
})

test('with a session anything but GET needs X-Console from the same origin', async () => {
  const cookie = cookieOf(await signIn({ token: world.token }))
  const body = { workspace_id: 'ws', keywords: ['a'] }
  const register = (headers: Record<string, string>) =>
    withCookie('POST', '/api/batch/keywords', cookie, headers, body)
  const foreign = [
    {},
    { 'x-console': '0' },
    { ...own, origin: 'https://evil.example' },
    { ...own, origin: 'null' },
    { ...own, 'sec-fetch-site': 'cross-site' },
    { ...own, 'sec-fetch-site': 'same-site' },
  ] as Record<string, string>[]
  for (const headers of foreign) {
    const answer = await register(headers)
    expect([headers, answer.status, answer.body.error.code]).toEqual([headers, 403, 'cross_site'])
  }
  expect(await world.query('select 1 from batch.keyword')).toEqual([])
  expect((await register({ ...own, origin: world.url, 'sec-fetch-site': 'same-origin' })).status).toBe(200)
  expect((await register(own)).status).toBe(200)
  const read = await withCookie('GET', '/api/billing/plans', cookie, { 'sec-fetch-site': 'cross-site' })
  expect(read.body.error.code).toBe('cross_site')
})

test('a session may what its token may, and no more', async () => {
  const token = await world.makeToken({ scopes: ['billing:read'], workspace: null, account: 'acct_1' })
  const cookie = cookieOf(await signIn({ token }))
  const asked = async (path: string) => (await withCookie('GET', path, cookie)).status
  expect(await asked('/api/billing/plans')).toBe(200)
  expect(await asked('/api/billing/invoices?account_id=acct_2')).toBe(403)
  expect(await asked('/api/batch/runs')).toBe(403)
  expect(await asked('/api/tokens')).toBe(403)
  const forged = await withCookie('POST', '/api/billing/refund', cookie, own, { invoice_id: 'inv_1' })
  expect([forged.status, forged.body.error.code]).toEqual([403, 'forbidden'])
  const made = await withCookie('POST', '/api/tokens', cookie, own, { scopes: ['billing:read'] })
  expect(made.status).toBe(403)
})

test('signing out ends the session, and only that one', async () => {
  const [one, other] = [await signIn({ token: world.token }), await signIn({ token: world.token })].map(
    cookieOf,
  )
  expect((await withCookie('DELETE', '/api/session', one!)).status).toBe(403)
  const out = await withCookie('DELETE', '/api/session', one!, own)
  expect(out.body.data).toEqual({ signed_out: true })
  expect(out.headers.get('set-cookie')).toContain('Max-Age=0')
  expect((await withCookie('GET', '/api/session', one!)).status).toBe(401)
  expect((await withCookie('GET', '/api/session', other!)).status).toBe(200)
})

test('revoking the token ends its sessions within five seconds; twelve hours end one by themselves', {
  retry: 3,
}, async () => {
  const token = await world.makeToken({})
  const revoked = cookieOf(await signIn({ token }))
  const over = cookieOf(await signIn({ token: world.token }))
  expect((await withCookie('GET', '/api/session', revoked)).status).toBe(200)
  await revokeToken(world.app.pool, tokenIdOf(token), world.app.clock())
  await world.query(`update platform.session set expires_at = clock_timestamp() - interval '1 second'
                     where token_id = '${tokenIdOf(world.token)}'`)
  await sleep(3_500)
  expect((await withCookie('GET', '/api/session', revoked)).status).toBe(401)
  expect((await withCookie('GET', '/api/session', over)).status).toBe(401)
})

test('a token has its newest hundred sessions; whoever signs in once more ends the oldest', async () => {
  const token = await world.makeToken({})
  const other = await world.makeToken({})
  const [oldest, kept, foreign] = [newSession(), newSession(), newSession()]
  for (const session of [oldest, kept]) await insertSession(world.app.pool, session, tokenIdOf(token))
  await insertSession(world.app.pool, foreign, tokenIdOf(other))
  const asked = async (session: string) =>
    (await withCookie('GET', '/api/session', `rankledger_session=${session}`)).status
  for (let more = 0; more < 98; more++) await insertSession(world.app.pool, newSession(), tokenIdOf(token))
  const count = () =>
    world.query(`select count(*)::int from platform.session where token_id = $1`, [tokenIdOf(token)])
  expect(await count()).toEqual([{ count: 100 }])
  const answers = await Promise.all([signIn({ token }), signIn({ token: other })])
  expect(answers.map(({ status }) => status)).toEqual([201, 201])
  expect(await count()).toEqual([{ count: 100 }])
  expect(await Promise.all([oldest, kept, foreign].map(asked))).toEqual([401, 200, 200])
  // All at once, from how many browsers ever.
  await Promise.all(Array.from({ length: 40 }, () => signIn({ token })))
  expect(await count()).toEqual([{ count: 100 }])
  expect(await asked(cookieOf(answers[0]!).split('=')[1]!)).toBe(200)
})

test('sessions that are over are dropped in one go, however many there are', async () => {
  await world.query(
    `insert into platform.session (hash, token_id, expires_at)
     select int4send(n), $1, clock_timestamp() - interval '1 minute' from generate_series(1, 25000) n`,
    [tokenIdOf(world.token)],
  )
  await forgetOldSessions(world.app.pool)
  const left = await world.query('select 1 from platform.session where expires_at < clock_timestamp()')
  expect(left).toHaveLength(0)
})

test('a sign-in link works once, and not after five minutes', async () => {
  const code = newSession()
  await insertSignInCode(world.app.pool, code, tokenIdOf(world.token))
  const answers = await Promise.all([signIn({ code }), signIn({ code }), signIn({ code })])
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 401, 401])
  const late = newSession()
  await insertSignInCode(world.app.pool, late, tokenIdOf(world.token))
  await world.query(`update platform.sign_in_code set expires_at = expires_at - interval '5 minutes'`)
  expect((await signIn({ code: late })).status).toBe(401)
})

test('a sign-in link of a token that ended meanwhile signs nobody in', async () => {
  for (const end of ['revoked_at = now()', `expires_at = now() - interval '1 minute'`]) {
    const token = await world.makeToken({ scopes: ['batch:read'], workspace: 'ws', account: null })
    const code = newSession()
    await insertSignInCode(world.app.pool, code, tokenIdOf(token))
    await world.query(`update platform.token set ${end} where id = '${tokenIdOf(token)}'`)
    const answer = await signIn({ code })
    expect([end, answer.status, answer.body.error?.code]).toEqual([end, 401, 'unauthorized'])
    expect(answer.headers.get('set-cookie')).toBeNull()
    expect(
      await world.query(`select 1 from platform.session where token_id = '${tokenIdOf(token)}'`),
    ).toEqual([])
  }
})

test('a browser that came through a proxy of this machine gets such a cookie too', async () => {
  const secureFor = async (host: string) => {
    const { pathname, hostname, port } = new URL('/api/session', world.url)
    const headers = { host, 'content-type': 'application/json' }
    const asked = request({ method: 'POST', path: pathname, host: hostname, port, headers })
    asked.end(JSON.stringify({ token: world.token }))
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    answer.resume()
    return [answer.statusCode, /; Secure$/.test(answer.headers['set-cookie']?.[0] ?? '')]
  }
  expect(await secureFor('billing.example.com')).toEqual([201, true])
  expect(await secureFor('10.0.0.7:8443')).toEqual([201, true])
  for (const near of ['localhost:8080', '127.0.0.1', '[::1]:8080'])
    expect([near, ...(await secureFor(near))]).toEqual([near, 201, false])
})

test('beyond loopback the cookie is for encrypted connections alone', async () => {
  const far = await openWorld({ environment: { HOST: '0.0.0.0' } })
  try {
    const answer = await far.post('/api/session', { token: far.token }, { token: null })
    expect(answer.headers.get('set-cookie')).toMatch(/; Secure$/)
  } finally {
    await far.close()
  }
})
