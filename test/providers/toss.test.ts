import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { tossProvider } from '../../src/billing/providers/toss/toss.ts'
import { newId } from '../../src/platform/id.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import { newSecret, openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'

const secretKey = 'test_sk_example'
let world: ProviderWorld
const heard: { headers: IncomingHttpHeaders; body: string }[] = []
const listener = createServer((request, response) => {
  let body = ''
  request.on('data', (chunk) => {
    body += chunk
  })
  request.on('end', () => {
    heard.push({ headers: request.headers, body })
    response.end()
  })
})

beforeAll(async () => {
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as AddressInfo
  world = await openProviderWorld({
    wire: tossWire,
    webhook: { url: `http://127.0.0.1:${port}/`, secrets: () => [newSecret()] },
  })
})
afterEach(() => world.setFaults({}))
afterAll(async () => {
  await world.close()
  listener.close()
})

type Asked = { status: number; text: string; body: Record<string, unknown> }

const ask = async (
  verb: string,
  path: string,
  { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
): Promise<Asked> => {
  const answer = await fetch(world.sandbox.url + path, {
    method: verb,
    headers: {
      // The documented vector of the credentials.
      authorization: 'Basic dGVzdF9za19leGFtcGxlOg==',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  return { status: answer.status, text, body: text === '' ? {} : JSON.parse(text) }
}
const chargeOf = (more: object = {}) => ({
  amount: 9900,
  customerKey: newId('acct_'),
  orderId: newId('pay_'),
  orderName: 'Pro, December',
  ...more,
})
const pay = async () => {
  const { status, body } = await ask('POST', '/v1/billing/bk_test_ok', { body: chargeOf() })
  expect(status).toBe(200)
  return body
}
const cancel = (paymentKey: unknown, body: object, key?: string) =>
  ask('POST', `/v1/payments/${paymentKey}/cancel`, {
    body: { cancelReason: 'asked for', ...body },
    headers: key === undefined ? {} : { 'idempotency-key': key },
  })

describe('answers', () => {
  test('a payment when it is approved, looked up by either id, cancelled in part, and aborted', async () => {
    const paid = await pay()
    expect(paid).toMatchObject({ status: 'DONE', type: 'BILLING', balanceAmount: 9900 })
    for (const time of ['requestedAt', 'approvedAt']) expect(paid[time]).toMatch(/\+09:00$/)
    expect((await ask('GET', `/v1/payments/${paid['paymentKey']}`)).body).toEqual(paid)
    expect((await ask('GET', `/v1/payments/orders/${paid['orderId']}`)).body).toEqual(paid)

    const part = await cancel(paid['paymentKey'], { cancelAmount: 900 })
    expect(part.body).toMatchObject({ status: 'PARTIAL_CANCELED', balanceAmount: 9000 })

    const order = chargeOf()
    const declined = await ask('POST', '/v1/billing/bk_test_insufficient_funds', { body: order })
    expect(declined).toMatchObject({ status: 403, body: { code: 'REJECT_CARD_PAYMENT' } })
    const aborted = await ask('GET', `/v1/payments/orders/${order.orderId}`)
    expect(aborted.body).toMatchObject({ status: 'ABORTED', failure: { code: 'REJECT_CARD_PAYMENT' } })
  })

  test('a billing key, and the transactions of a time', async () => {
    const body = { authKey: 'ak_test_ok', customerKey: 'customer-1' }
    expect((await ask('POST', '/v1/billing/authorizations/issue', { body })).status).toBe(200)
    const paid = await pay()
    await cancel(paid['paymentKey'], {})
    const day = 86_400_000
    const at = (ms: number) =>
      new Date(world.clock().getTime() + ms + 9 * 3_600_000).toISOString().slice(0, 19)
    const query = new URLSearchParams({ startDate: at(-day), endDate: at(day), limit: '5000' })
    const listed = (await ask('GET', `/v1/transactions?${query}`)).body as unknown as Record<
      string,
      unknown
    >[]
    expect(
      listed
        .filter(({ orderId }) => orderId === paid['orderId'])
        .map(({ status, amount }) => [status, amount]),
    ).toEqual([
      ['DONE', 9900],
      ['CANCELED', 9900],
    ])
  })
})

describe('its quirks', () => {
  test('credentials need their colon and a secret key’s form', async () => {
    const as = (text: string) => ({
      headers: { authorization: `Basic ${Buffer.from(text).toString('base64')}` },
    })
    const path = '/v1/payments/orders/order-1'
    expect(await ask('GET', path, as('test_sk_x'))).toMatchObject({
      status: 403,
      body: { code: 'INCORRECT_BASIC_AUTH_FORMAT' },
    })
    expect(await ask('GET', path, as('test_ck_x:'))).toMatchObject({ body: { code: 'INVALID_API_KEY' } })
    expect(await ask('GET', path, { headers: { authorization: 'Bearer x' } })).toMatchObject({
      status: 401,
      body: { code: 'UNAUTHORIZED_KEY' },
    })
    expect(await ask('GET', path)).toMatchObject({ status: 404, body: { code: 'NOT_FOUND_PAYMENT' } })
  })

  test('a key does not look at the body: another order under it replays the first, to the byte', async () => {
    const key = { 'idempotency-key': newId('key_') }
    const first = await ask('POST', '/v1/billing/bk_test_ok', { body: chargeOf(), headers: key })
    const other = chargeOf({ amount: 100 })
    const second = await ask('POST', '/v1/billing/bk_test_ok', { body: other, headers: key })
    expect(second.text).toBe(first.text)
    expect((await world.taken(other.orderId)).times).toBe(0)
    // At another address the same key is another one.
    const third = await ask('POST', '/v1/billing/bk_test_slow', { body: other, headers: key })
    expect(third.body).toMatchObject({ orderId: other.orderId })
    expect(
      (
        await ask('POST', '/v1/billing/bk_test_ok', {
          body: chargeOf(),
          headers: { 'idempotency-key': 'k'.repeat(301) },
        })
      ).body,
    ).toMatchObject({ code: 'INVALID_IDEMPOTENCY_KEY' })
  })

  test('a refused cancel stays refused under its key, also when the body is corrected', async () => {
    const { paymentKey } = await pay()
    const key = newId('key_')
    const refused = { status: 400, body: { code: 'NOT_MATCHES_REFUNDABLE_AMOUNT' } }
    expect(await cancel(paymentKey, { cancelAmount: 100, refundableAmount: 1 }, key)).toMatchObject(refused)
    expect(await cancel(paymentKey, { cancelAmount: 100, refundableAmount: 9900 }, key)).toMatchObject(
      refused,
    )
    expect((await cancel(paymentKey, { cancelAmount: 100, refundableAmount: 9900 })).status).toBe(200)
  })

  test('a replayed cancel shows the payment as it stood then', async () => {
    const { paymentKey } = await pay()
    const key = newId('key_')
    const first = await cancel(paymentKey, { cancelAmount: 100 }, key)
    await cancel(paymentKey, { cancelAmount: 200 })
    expect((await cancel(paymentKey, { cancelAmount: 100 }, key)).text).toBe(first.text)
  })

  test('the rest after a part leaves PARTIAL_CANCELED with nothing left; all in one go is CANCELED', async () => {
    const [inParts, atOnce] = [await pay(), await pay()]
    await cancel(inParts['paymentKey'], { cancelAmount: 900 })
    expect((await cancel(inParts['paymentKey'], {})).body).toMatchObject({
      status: 'PARTIAL_CANCELED',
      balanceAmount: 0,
    })
    expect((await cancel(inParts['paymentKey'], {})).body).toMatchObject({ code: 'NOT_CANCELABLE_AMOUNT' })
    expect((await cancel(atOnce['paymentKey'], {})).body).toMatchObject({
      status: 'CANCELED',
      balanceAmount: 0,
    })
    expect((await cancel(atOnce['paymentKey'], {})).body).toMatchObject({ code: 'ALREADY_CANCELED_PAYMENT' })
  })

  test.each([
    ['REJECT_CARD_COMPANY', 403],
    ['PROVIDER_ERROR', 400],
    ['IDEMPOTENT_REQUEST_PROCESSING', 409],
    ['FAILED_INTERNAL_SYSTEM_PROCESSING', 500],
  ])('%s can be asked for by header, and does nothing', async (code, status) => {
    const order = chargeOf()
    const headers = { 'tosspayments-test-code': code }
    expect(await ask('POST', '/v1/billing/bk_test_ok', { body: order, headers })).toMatchObject({
      status,
      body: { code },
    })
    expect((await world.taken(order.orderId)).times).toBe(0)
  })

  test('with a live key no error can be asked for', async () => {
    const headers = {
      'tosspayments-test-code': 'REJECT_CARD_COMPANY',
      authorization: `Basic ${btoa('live_sk_example:')}`,
    }
    expect(await ask('POST', '/v1/billing/bk_test_ok', { body: chargeOf(), headers })).toMatchObject({
      status: 200,
      body: { status: 'DONE' },
    })
  })

  test('a one-time key is spent by the first billing key, whose answer its idempotency key repeats', async () => {
    const issue = (authKey: string, key?: string) =>
      ask('POST', '/v1/billing/authorizations/issue', {
        body: { authKey, customerKey: 'customer-3' },
        headers: key === undefined ? {} : { 'idempotency-key': key },
      })
    const first = await issue('ak_test_ok.from-the-form', 'k')
    expect(await issue('ak_test_ok.from-the-form', 'k')).toMatchObject({ status: 200, text: first.text })
    const spent = { status: 400, body: { code: 'INVALID_AUTHORIZE_AUTH' } }
    expect(await issue('ak_test_ok.from-the-form')).toMatchObject(spent)
    expect(await issue('ak_test_nobody', 'no')).toMatchObject(spent)
    // The no is bound to its key too.
    expect(await issue('ak_test_ok', 'no')).toMatchObject(spent)
    for (const name of ['ak_test_ok', 'ak_test_ok', 'ak_test_ok.another'])
      expect((await issue(name)).status).toBe(200)
  })

  test('a billing key belongs to its customer, is deleted once, and then pays no more', async () => {
    const { body } = await ask('POST', '/v1/billing/authorizations/issue', {
      body: { authKey: 'ak_test_ok', customerKey: 'customer-2' },
    })
    const path = `/v1/billing/${encodeURIComponent(String(body['billingKey']))}`
    const mine = chargeOf({ customerKey: 'customer-2' })
    expect((await ask('POST', path, { body: chargeOf() })).body).toMatchObject({
      code: 'NOT_MATCHES_CUSTOMER_KEY',
    })
    expect((await ask('POST', path, { body: mine })).status).toBe(200)
    expect(await ask('DELETE', path)).toMatchObject({ status: 200, text: '' })
    expect((await ask('POST', path, { body: chargeOf({ customerKey: 'customer-2' }) })).body).toMatchObject({
      code: 'ALREADY_REMOVED_BILLING_KEY',
    })
  })

  test('an approval is not notified; a cancel is, unsigned, with the whole payment', async () => {
    const paid = await pay()
    await cancel(paid['paymentKey'], { cancelAmount: 900 })
    const about = () => heard.filter(({ body }) => JSON.parse(body).data.orderId === paid['orderId'])
    await expect.poll(() => about().length).toBe(1)
    const [{ headers, body }] = about() as [(typeof heard)[number]]
    const event = JSON.parse(body)
    expect(event).toMatchObject({ eventType: 'PAYMENT_STATUS_CHANGED', data: { status: 'PARTIAL_CANCELED' } })
    expect(event.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/)
    expect(headers['tosspayments-webhook-transmission-id']).toMatch(/^whtrans_/)
    expect(headers).not.toHaveProperty('tosspayments-webhook-signature')

    const provider = tossProvider({ secretKey, baseUrl: world.sandbox.url, timeoutMs: 5000 })
    expect(provider.readWebhook(event)).toEqual({
      type: 'PAYMENT_STATUS_CHANGED',
      reference: paid['orderId'],
      live: null,
    })
    const now = new Date()
    expect(
      provider.verifyWebhook({ headers, body: Buffer.from(body), secrets: [newSecret()], now }),
    ).toBeUndefined()
  })

  test('every call that is described was answered by now', () => {
    expect(world.unanswered()).toEqual([])
  })
})

test('the adapter takes a card from setup to deletion, and is checked line by line', async () => {
  const provider = tossProvider({ secretKey, baseUrl: world.sandbox.url, timeoutMs: 5000 })
  const setUp = await provider.setUp({
    setupId: newId('setup_'),
    accountId: 'acct_1',
    customerKey: null,
    email: null,
  })
  if (setUp.kind !== 'done' || setUp.customerKey === null) throw new Error('the setup was not done')
  expect(setUp.client).toEqual({ customer_key: setUp.customerKey })
  const exchanged = await provider.exchange('ak_test_ok', setUp.customerKey)
  if (exchanged.kind !== 'done') throw new Error('the exchange was not done')
  expect(exchanged.card).toEqual({ brand: 'visa', last4: '424*', expires: '' })
  const charge = (key: string) =>
    provider.charge({
      key,
      accountId: 'acct_1',
      amount: { minor: 9900n, currency: 'KRW' },
      billingKey: exchanged.billingKey,
      description: 'Pro',
    })
  const key = newId('pay_')
  expect(await charge(key)).toMatchObject({ kind: 'done' })
  expect(await provider.cancelPayment(key, 'x')).toEqual({ kind: 'paid' })
  expect(await provider.cancelPayment('pay_of_nobody', 'x')).toEqual({ kind: 'canceled' })
  expect(await provider.forget(exchanged.billingKey)).toEqual({ kind: 'done' })
  expect(await provider.forget(exchanged.billingKey)).toEqual({ kind: 'done' })
  expect(await charge(newId('pay_'))).toMatchObject({ kind: 'refused', code: 'billing_key_invalid' })

  expect((await provider.check(world.clock())).map(({ ok }) => ok)).toEqual([true, true, true])
  await world.setFaults({ refuse_credentials: true })
  expect(await provider.check(world.clock())).toMatchObject([
    { subject: 'credentials', ok: false },
    { subject: 'clock', ok: true },
    { subject: 'listing', ok: false },
  ])
})
