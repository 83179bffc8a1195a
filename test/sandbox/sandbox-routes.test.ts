import { afterAll, beforeAll, expect, test } from 'vitest'
import { sandboxRoutes } from '../../src/installation/sandbox-routes.ts'
import { openAccess, type Scope, scopes } from '../../src/platform/access/access.ts'
import { openRateLimiter } from '../../src/platform/access/rate-limit.ts'
import { newToken } from '../../src/platform/access/token.ts'
import { insertToken } from '../../src/platform/access/token-rows.ts'
import { buildHttp, type Http } from '../../src/platform/http/http.ts'
import { openProviderWorld, type ProviderWorld } from './open-provider.ts'

let world: ProviderWorld
let http: Http
let admin: string
let clerk: string

beforeAll(async () => {
  world = await openProviderWorld()
  http = openHttp(world.sandbox.url)
  admin = await makeToken(scopes)
  clerk = await makeToken(['billing:write', 'billing:refund', 'batch:write'])
})
afterAll(async () => {
  await http.close()
  await world.close()
})

function openHttp(providerUrl: string): Http {
  const opened = buildHttp({
    access: openAccess(world.pool, world.clock),
    limiter: openRateLimiter(world.pool),
    openPrefixes: [],
    onAnswer: () => {},
    onFault: (error) => {
      throw error
    },
  })
  sandboxRoutes(opened, { providerUrl, key: 'sk_test_any', timeZone: 'Asia/Seoul' })
  return opened
}

async function makeToken(granted: readonly Scope[]): Promise<string> {
  const token = newToken('test')
  await insertToken(world.pool, token, {
    name: 'test',
    scopes: granted,
    workspace: '*',
    account: '*',
    createdAt: world.clock(),
    expiresAt: null,
  })
  return token
}

async function ask(method: 'GET' | 'POST', url: string, body?: object, token = admin, on = http) {
  const answer = await on.inject({
    method,
    url,
    headers: { authorization: `Bearer ${token}` },
    ...(body && { payload: body }),
  })
  return { status: answer.statusCode, body: answer.json() }
}

test("an admin reads the provider's own book, newest first, page by page", async () => {
  for (const reference of ['pay_1', 'pay_2', 'pay_3']) {
    await world.provider.charge({
      key: reference,
      accountId: 'acct_1',
      amount: { minor: 9900n, currency: 'KRW' },
      billingKey: 'bk_test_ok',
      description: 'Pro',
    })
  }
  const first = await ask('GET', '/api/sandbox/provider/payments?limit=2')
  expect(first.body).toEqual({
    success: true,
    data: {
      payments: ['pay_3', 'pay_2'].map((reference) => ({
        reference,
        account_id: 'acct_1',
        amount: 9900,
        currency: 'KRW',
        status: 'paid',
        amount_refunded: 0,
        dispute: null,
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+\+09:00$/),
      })),
      next_cursor: expect.any(String),
    },
  })
  const rest = await ask(
    'GET',
    `/api/sandbox/provider/payments?limit=2&cursor=${first.body.data.next_cursor}`,
  )
  expect(rest.body.data).toMatchObject({ payments: [{ reference: 'pay_1' }], next_cursor: null })
})

test('an admin has a payment disputed, and the bank decide', async () => {
  const dispute = (body: object) => ask('POST', '/api/sandbox/provider/disputes', body)
  expect(await dispute({ reference: 'pay_1', status: 'won' })).toMatchObject({
    status: 409,
    body: { error: { code: 'dispute_not_possible' } },
  })
  expect((await dispute({ reference: 'pay_1', status: 'open', amount: 500 })).body.data).toMatchObject({
    reference: 'pay_1',
    dispute: { status: 'open', amount: 500 },
  })
  expect((await dispute({ reference: 'pay_1', status: 'lost' })).body.data).toMatchObject({
    dispute: { status: 'lost', amount: 500 },
  })
  expect(await dispute({ reference: 'pay_nobody', status: 'open' })).toMatchObject({
    status: 404,
    body: { error: { code: 'payment_not_found' } },
  })
})

test('faults are set whole, told back, and healed by an empty object', async () => {
  const faults = { down: 'reset', garbage_rate: 0.5, seed: 3 }
  expect((await ask('POST', '/api/sandbox/provider/faults', faults)).body.data).toEqual({ faults })
  expect(await world.provider.describe('bk_test_ok')).toEqual({ kind: 'unknown' })
  expect((await ask('POST', '/api/sandbox/provider/faults', {})).body.data).toEqual({ faults: {} })
  expect(await world.provider.describe('bk_test_ok')).toMatchObject({ kind: 'valid' })
})

test.each([
  ['POST', '/api/sandbox/provider/faults', { meteor: true }],
  ['POST', '/api/sandbox/provider/faults', { garbage_rate: '1' }],
  ['POST', '/api/sandbox/provider/disputes', { reference: 'pay_1', status: 'settled' }],
  ['GET', '/api/sandbox/provider/payments?limit=0', undefined],
  ['GET', '/api/sandbox/provider/payments?cursor=bm9uZQ', undefined],
] as const)('%s %s %o is refused as malformed', async (method, url, body) => {
  expect((await ask(method, url, body)).status).toBe(400)
})

test('only an admin may look or meddle', async () => {
  expect((await ask('GET', '/api/sandbox/provider/payments', undefined, clerk)).status).toBe(403)
  expect((await ask('POST', '/api/sandbox/provider/faults', {}, clerk)).status).toBe(403)
})

test('a provider that is gone is said to be unavailable', async () => {
  const gone = await world.openAnother()
  await gone.close()
  const lonely = openHttp(gone.url)
  const answer = await ask('GET', '/api/sandbox/provider/payments', undefined, admin, lonely)
  expect(answer).toMatchObject({ status: 503, body: { error: { code: 'provider_unavailable' } } })
  await lonely.close()
})
