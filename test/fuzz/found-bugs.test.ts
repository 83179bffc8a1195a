import { afterAll, beforeAll, expect, test } from 'vitest'
import { signStandardWebhook } from '../sign-webhook.ts'
import { openWorld, type World } from '../world.ts'
import { type Heard, openWire, type Wire } from './wire.ts'

/** What the fuzzer found, told as the facts that hold now. */
let world: World
let wire: Wire
beforeAll(async () => {
  world = await openWorld()
  wire = openWire(Number(new URL(world.url).port))
})
afterAll(async () => {
  wire.close()
  await world.close()
})

const say = (text: string) =>
  wire.ask({ bytes: Buffer.from(text, 'latin1'), head: false, fresh: true, halfClose: false })

function expectError(heard: Heard, status: number, code: string): void {
  if (heard.kind !== 'answered') throw new Error(`the service ${heard.kind}`)
  const requestId = heard.headers.get('x-request-id')
  expect(requestId).toMatch(/^req_/)
  expect([heard.status, JSON.parse(heard.body.toString())]).toEqual([
    status,
    { success: false, error: { code, message: expect.any(String), request_id: requestId } },
  ])
}

test('a request without Host is told so in the envelope', async () => {
  expectError(await say('GET /healthz HTTP/1.1\r\n\r\n'), 400, 'invalid_http')
})

test('an Expect that nobody understands is told so in the envelope', async () => {
  const asked = `GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n`
  expectError(await say(asked), 417, 'expectation_failed')
})

test('a path that cannot be decoded is answered with a request id', async () => {
  const asked = 'GET /api/billing/plans/%ed%a0%80 HTTP/1.1\r\nHost: x\r\n\r\n'
  expectError(await say(asked), 404, 'route_not_found')
})

test('a method that must bring a body and brings none is no fault of ours', async () => {
  expectError(await say('QUERY /api/nothing HTTP/1.1\r\nHost: x\r\n\r\n'), 404, 'route_not_found')
  expectError(await say('QUERY /api/billing/plans HTTP/1.1\r\nHost: x\r\n\r\n'), 405, 'method_not_allowed')
})

const nul = encodeURIComponent('a\0b')
const cursorOf = (values: unknown) => Buffer.from(JSON.stringify(values)).toString('base64url')

test.each([
  ['GET', `/api/billing/events?type=${nul}`, undefined],
  ['GET', `/api/billing/events?subscription_id=${nul}`, undefined],
  ['GET', `/api/billing/invoices?subscription_id=${nul}`, undefined],
  ['GET', `/api/billing/plans?cursor=${cursorOf(['\0'])}`, undefined],
  [
    'PUT',
    '/api/billing/plans/nul',
    { name: 'a\0b', amount: 1, currency: 'KRW', interval: 'month', interval_count: 1 },
  ],
])('%s %s: U+0000 is refused as what no text may hold', async (method, path, body) => {
  const answer = await world.ask(method, path, body && { body })
  expect([answer.status, answer.body.error?.code]).toEqual([400, 'validation_failed'])
  expect(answer.body.error.details).toHaveLength(1)
})

test("a cursor that the provider's list did not write is refused and not called an outage", async () => {
  for (const at of ['NaN', 'infinity', '2030-02-30 00:00:00+00']) {
    const { status, body } = await world.get(
      `/api/sandbox/provider/payments?cursor=${cursorOf([at, 'ch_1'])}`,
    )
    expect([at, status, body.error?.code]).toEqual([at, 400, 'invalid_cursor'])
  }
})

test("the provider's list goes on where its cursor says", async () => {
  for (const name of ['a', 'b', 'c']) {
    const body = { account_id: name, plan_id: 'pro-monthly', payment_method: { billing_key: 'bk_test_ok' } }
    expect((await world.post('/api/billing/subscribe', body)).status).toBe(201)
  }
  const first = (await world.get('/api/sandbox/provider/payments?limit=2')).body.data
  const rest = (await world.get(`/api/sandbox/provider/payments?cursor=${first.next_cursor}`)).body.data
  expect([...first.payments, ...rest.payments].map(({ account_id }) => account_id)).toEqual(['c', 'b', 'a'])
})

test('a signature with letters behind its padding is none', async () => {
  const raw = Buffer.from('{"type":"weather.changed","timestamp":"2026-11-15T00:00:00.000Z","data":{}}')
  const signed = signStandardWebhook(world.environment['WEBHOOK_SECRETS']!, 'evt_padding', raw, new Date())
  const send = (headers: Record<string, string>) =>
    world.ask('POST', '/api/billing/webhook', { raw, headers, token: null })
  const turned = { ...signed, 'webhook-signature': `${signed['webhook-signature']}x` }
  expect((await send(turned)).status).toBe(401)
  expect((await send(signed)).status).toBe(200)
})
