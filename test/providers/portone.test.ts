import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PaymentClient, PortOneClient, Webhook } from '@portone/server-sdk'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { portoneProvider } from '../../src/billing/providers/portone/portone.ts'
import { newId } from '../../src/platform/id.ts'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { newSecret, openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'

let world: ProviderWorld
let sdk: PaymentClient
const heard: { headers: IncomingHttpHeaders; body: string }[] = []
const secret = newSecret()
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
    wire: portoneWire,
    webhook: { url: `http://127.0.0.1:${port}/`, secrets: () => [secret] },
  })
  sdk = PaymentClient({ secret: 'any-secret', baseUrl: world.sandbox.url })
})
afterEach(() => world.setFaults({}))
afterAll(async () => {
  await world.close()
  listener.close()
})

const pay = async (billingKey = 'bk_test_ok', total = 9900) => {
  const paymentId = newId('pay_')
  const paid = await sdk.payWithBillingKey({
    paymentId,
    billingKey,
    orderName: 'Pro, December',
    amount: { total },
    currency: 'KRW',
    customer: { id: newId('acct_') },
  })
  return { paymentId, paid }
}

const ask = async (method: string, path: string, body?: unknown, key?: string) => {
  const answer = await fetch(world.sandbox.url + path, {
    method,
    headers: {
      authorization: 'PortOne any-secret',
      ...(key !== undefined && { 'idempotency-key': key }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
}

describe('the unchanged official SDK walks through the simulator', () => {
  test('it charges a billing key, reads the payment, gives back a part and then the rest', async () => {
    const { paymentId, paid } = await pay()
    expect(paid.payment).toMatchObject({ pgTxId: expect.any(String), paidAt: expect.any(String) })
    const found = await sdk.getPayment({ paymentId })
    expect(found).toMatchObject({ status: 'PAID', id: paymentId, amount: { total: 9900, paid: 9900 } })

    const part = await sdk.cancelPayment({ paymentId, amount: 900, reason: 'too much' })
    expect(part.cancellation).toMatchObject({ status: 'SUCCEEDED', totalAmount: 900, reason: 'too much' })

    await sdk.cancelPayment({ paymentId, reason: 'all of it', currentCancellableAmount: 9000 })
    const ended = await sdk.getPayment({ paymentId })
    expect(ended).toMatchObject({ status: 'CANCELLED', amount: { cancelled: 9900, paid: 0 } })
    expect(await world.taken(paymentId)).toMatchObject({ times: 1, refunded: 9900n })
  })

  test('a decline is a 502 of the gateway, and the payment’s record says why', async () => {
    const paymentId = newId('pay_')
    const declined = sdk.payWithBillingKey({
      paymentId,
      billingKey: 'bk_test_stolen',
      orderName: 'Pro',
      amount: { total: 9900 },
      currency: 'KRW',
    })
    await expect(declined).rejects.toMatchObject({
      data: { type: 'PG_PROVIDER', pgCode: 'INVALID_CARD_LOST_OR_STOLEN', pgMessage: expect.any(String) },
    })
    const found = await sdk.getPayment({ paymentId })
    expect(found).toMatchObject({ failure: { pgCode: 'INVALID_CARD_LOST_OR_STOLEN' } })
  })

  test('each refusal has its type', async () => {
    const { paymentId } = await pay()
    const typed = (type: string) => ({ data: { type } })
    await expect(sdk.getPayment({ paymentId: 'nobody' })).rejects.toMatchObject(typed('PAYMENT_NOT_FOUND'))
    await expect(sdk.cancelPayment({ paymentId, reason: 'x', amount: 9901 })).rejects.toMatchObject(
      typed('CANCEL_AMOUNT_EXCEEDS_CANCELLABLE_AMOUNT'),
    )
    await expect(
      sdk.cancelPayment({ paymentId, reason: 'x', amount: 1, currentCancellableAmount: 1 }),
    ).rejects.toMatchObject(typed('CANCELLABLE_AMOUNT_CONSISTENCY_BROKEN'))
    await expect(pay('bk_of_nobody')).rejects.toMatchObject(typed('BILLING_KEY_NOT_FOUND'))
    await expect(
      sdk.payWithBillingKey({
        paymentId,
        billingKey: 'bk_test_ok',
        orderName: 'Again',
        amount: { total: 9900 },
        currency: 'KRW',
      }),
    ).rejects.toMatchObject(typed('ALREADY_PAID'))
    await world.setFaults({ refuse_credentials: true })
    await expect(sdk.getPayment({ paymentId })).rejects.toMatchObject(typed('UNAUTHORIZED'))
  })

  test('a bank that does not take the money back fails inside a 200', async () => {
    const { paymentId } = await pay('bk_test_refund_fails')
    const { cancellation } = await sdk.cancelPayment({ paymentId, reason: 'x', amount: 100 })
    expect(cancellation).toMatchObject({ status: 'FAILED' })
    expect(await world.taken(paymentId)).toMatchObject({ refunded: 0n })
  })

  test('a billing key is issued, described, charged, deleted once, and charged no more', async () => {
    const { billingKey: keys } = PortOneClient({ secret: 'any', baseUrl: world.sandbox.url }).payment
    const { billingKeyInfo } = await keys.issueBillingKey({
      channelKey: 'channel-key-1',
      method: { card: { credential: { number: '4000000000004242', expiryYear: '34', expiryMonth: '12' } } },
      customer: { id: 'acct_1' },
    })
    const { billingKey } = billingKeyInfo
    expect(await keys.getBillingKeyInfo({ billingKey })).toMatchObject({ status: 'ISSUED', billingKey })
    await pay(billingKey)
    expect(await keys.deleteBillingKey({ billingKey })).toMatchObject({ deletedAt: expect.any(String) })
    expect(await keys.getBillingKeyInfo({ billingKey })).toMatchObject({ status: 'DELETED' })
    await expect(keys.deleteBillingKey({ billingKey })).rejects.toMatchObject({
      data: { type: 'BILLING_KEY_ALREADY_DELETED' },
    })
    await expect(pay(billingKey)).rejects.toMatchObject({ data: { type: 'BILLING_KEY_ALREADY_DELETED' } })
  })

  test('payments are listed by cursor', async () => {
    const from = new Date(world.clock().getTime() - 1000).toISOString()
    const { paymentId } = await pay()
    const until = new Date(world.clock().getTime() + 1000).toISOString()
    const { items } = await sdk.getAllPaymentsByCursor({ from, until, size: 1000 })
    const found = items.find(({ payment }) => 'id' in payment && payment.id === paymentId)
    expect(found).toMatchObject({ payment: { status: 'PAID' }, cursor: expect.any(String) })
  })

  test('its verifier takes the notifications, and refuses them under another secret', async () => {
    const { paymentId } = await pay()
    await sdk.cancelPayment({ paymentId, amount: 100, reason: 'x' })
    await world.ask('POST', '/__sandbox/disputes', { body: { reference: paymentId, status: 'open' } })
    await world.ask('POST', '/__sandbox/disputes', { body: { reference: paymentId, status: 'lost' } })
    const ours = () => heard.filter(({ body }) => JSON.parse(body).data.paymentId === paymentId)
    await expect.poll(() => ours().length).toBe(4)
    const types: string[] = []
    for (const { headers, body } of ours()) {
      const signed = headers as Record<string, string>
      const told = (await Webhook.verify(secret, body, signed)) as { type: string; data: object }
      types.push(told.type)
      expect(told.data).toMatchObject({
        paymentId,
        storeId: expect.any(String),
        transactionId: expect.any(String),
      })
      await expect(Webhook.verify(newSecret(), body, signed)).rejects.toThrow()
    }
    expect(types.sort()).toEqual([
      'Transaction.DisputeCreated',
      'Transaction.DisputeResolved',
      'Transaction.Paid',
      'Transaction.PartialCancelled',
    ])
    expect(await sdk.getPayment({ paymentId })).toMatchObject({
      status: 'CANCELLED',
      cancellations: [{ trigger: 'API' }, { trigger: 'CHARGEBACK', totalAmount: 9800 }],
    })
  })

  test('every call that is described was answered on this walk', () => {
    expect(world.unanswered()).toEqual([])
  })
})

describe('keys', () => {
  const body = { billingKey: 'bk_test_ok', orderName: 'Pro', amount: { total: 9900 }, currency: 'KRW' }

  test('a key is remembered three hours, quoted or bare, and is too short below 16 characters', async () => {
    const id = newId('pay_')
    const first = await ask('POST', `/payments/${id}/billing-key`, body, `"${id}"`)
    expect(first.status).toBe(200)
    expect(await ask('POST', `/payments/${id}/billing-key`, body, id)).toEqual(first)
    await world.clock.moveTo(new Date(world.clock().getTime() + 3 * 3_600_000 + 1000))
    expect((await ask('POST', `/payments/${id}/billing-key`, body, id)).body).toMatchObject({
      type: 'ALREADY_PAID',
    })
    expect((await ask('POST', `/payments/${newId('pay_')}/billing-key`, body, 'short')).status).toBe(400)
  })

  test('while the first request runs, its repeat learns only that', async () => {
    await world.setFaults({ slow_ms: 2_000 })
    const id = newId('pay_')
    const both = await Promise.all([1, 2].map(() => ask('POST', `/payments/${id}/billing-key`, body, id)))
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
    expect(both.find(({ status }) => status === 409)?.body).toMatchObject({
      type: 'IDEMPOTENCY_OUTSTANDING_REQUEST',
    })
  })
})

test.each([
  ['one that can sign', [secret], true],
  ['two that can, while they are rotated', [secret, newSecret()], true],
  ['none', [], false],
  ['one that can sign and one that is empty', [secret, 'whsec_'], false],
  ['one that can sign and one that is too short', ['whsec_c2hvcnQ=', secret], false],
])('of webhook secrets, %s', async (_what, webhookSecrets, ok) => {
  const keys = { apiSecret: 'any-secret', storeId: 'store-1', baseUrl: world.sandbox.url, timeoutMs: 5000 }
  const lines = await portoneProvider({ ...keys, webhookSecrets }).check(world.clock())
  expect(lines.find(({ subject }) => subject === 'webhook_secret')).toMatchObject({ ok })
})

test('the adapter is set up, checked, and forgets a card', async () => {
  const provider = portoneProvider({
    apiSecret: 'any-secret',
    storeId: 'store-1',
    channelKey: 'channel-key-1',
    baseUrl: world.sandbox.url,
    timeoutMs: 5000,
    webhookSecrets: [secret],
  })
  expect(
    await provider.setUp({ setupId: 'setup_1', accountId: 'a', customerKey: null, email: null }),
  ).toEqual({
    kind: 'done',
    customerKey: null,
    client: { store_id: 'store-1', channel_key: 'channel-key-1', issue_id: 'setup_1' },
  })
  expect((await provider.check(world.clock())).map(({ ok }) => ok)).toEqual([true, true, true, true])
  expect(await provider.forget('billing-key-of-nobody')).toEqual({ kind: 'done' })
  expect(await provider.cancelPayment('pay_of_nobody', 'x')).toEqual({ kind: 'canceled' })
  const { paymentId } = await pay()
  expect(await provider.cancelPayment(paymentId, paymentId)).toEqual({ kind: 'paid' })
  await world.setFaults({ refuse_credentials: true })
  expect(await provider.check(world.clock())).toMatchObject([
    { subject: 'credentials', ok: false },
    { subject: 'clock', ok: true },
    { subject: 'listing', ok: false },
    { subject: 'webhook_secret', ok: true },
  ])
})
