import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { newSecret, openProviderWorld, type ProviderWorld } from './open-provider.ts'

type Received = {
  headers: IncomingHttpHeaders
  body: Buffer
  event: { type: string; data: Record<string, string> }
}

/** A merchant's endpoint that answers as told and keeps what it got. */
class Merchant {
  readonly received: Received[] = []
  answer: (received: Received) => number = () => 200
  headers: Record<string, string> = {}
  readonly #server: Server

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk) => chunks.push(chunk))
      request.on('end', () => {
        const body = Buffer.concat(chunks)
        const received = { headers: request.headers, body, event: JSON.parse(body.toString()) }
        this.received.push(received)
        response.writeHead(this.answer(received), this.headers).end('{}')
      })
    })
  }

  async open(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/api/billing/webhook`
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  get events(): string[] {
    return this.received.map(({ event }) => `${event.type} ${event.data['reference']}`)
  }

  get ids(): unknown[] {
    return this.received.map(({ headers }) => headers['webhook-id'])
  }
}

const secret = newSecret()
let merchant: Merchant
let world: ProviderWorld
let webhook: { url: string; secrets: () => string[] }

beforeEach(async () => {
  merchant = new Merchant()
  webhook = { url: await merchant.open(), secrets: () => [secret, newSecret()] }
  world = await openProviderWorld({ webhook })
})
afterEach(async () => {
  await world.close()
  merchant.close()
})

function charge(reference: string, billingKey = 'bk_test_ok') {
  const body = { reference, billing_key: billingKey, account_id: 'acct_1', amount: 900, currency: 'KRW' }
  return world.ask('POST', '/v1/charges', { body, key: reference })
}

function waiting() {
  return world.pool
    .query<{ status: string; tries: number; wait_s: number }>(
      'select status, tries, extract(epoch from due_at - clock_timestamp())::float8 as wait_s from sandbox.delivery order by id',
    )
    .then(({ rows }) => rows)
}

test('what happens to money is told, signed so that billing believes it, whole and to the byte', async () => {
  await charge('pay_1')
  await charge('pay_2', 'bk_test_stolen')
  const refund = { body: { reference: 'ref_1', amount: 100 }, key: 'ref_1' }
  await world.ask('POST', '/v1/charges/pay_1/refunds', refund)
  await world.ask('POST', '/admin/refunds/ref_1/fail')
  await world.ask('POST', '/admin/charges/pay_1/dispute')
  await expect.poll(() => merchant.received.length).toBe(5)

  expect([...merchant.events].sort()).toEqual([
    'payment.declined pay_2',
    'payment.disputed pay_1',
    'payment.paid pay_1',
    'payment.refunded pay_1',
    'refund.failed pay_1',
  ])
  for (const { headers, body } of merchant.received) {
    const verified = world.provider.verifyWebhook({ headers, body, secrets: [secret], now: new Date() })
    expect(verified).toEqual({ eventId: headers['webhook-id'] })
  }
  const refunded = merchant.received.find(({ event }) => event.type === 'payment.refunded')
  expect(refunded?.event).toEqual({
    type: 'payment.refunded',
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    data: { reference: 'pay_1', refund_reference: 'ref_1' },
  })
  await expect.poll(async () => (await waiting()).every(({ status }) => status === 'delivered')).toBe(true)
})

test('a moved clock shows in what is told, not in the signature', async () => {
  await world.clock.moveTo(new Date(Date.now() + 40 * 86_400_000))
  await charge('pay_1')
  await expect.poll(() => merchant.received.length).toBe(1)
  const [{ headers, body, event }] = merchant.received as [Received & { event: { timestamp: string } }]
  expect(new Date(event.timestamp).getTime()).toBeGreaterThan(Date.now() + 39 * 86_400_000)
  expect(world.provider.verifyWebhook({ headers, body, secrets: [secret], now: new Date() })).toBeDefined()
})

test('a replayed charge is told once', async () => {
  await charge('pay_1')
  await charge('pay_1')
  await charge('pay_2')
  await expect.poll(() => merchant.events).toContain('payment.paid pay_2')
  expect(merchant.events.filter((event) => event === 'payment.paid pay_1')).toHaveLength(1)
})

// What waits for seconds may be overtaken by a machine that stands still for longer.
describe('a merchant in trouble', { retry: 3 }, () => {
  test('is told again under the same id until it takes the news', async () => {
    merchant.answer = () => 500
    await charge('pay_1')
    await expect.poll(() => merchant.received.length).toBe(1)
    merchant.answer = () => 200
    await expect.poll(() => waiting()).toMatchObject([{ status: 'delivered', tries: 2 }])
    expect(merchant.ids[1]).toBe(merchant.ids[0])
  })

  test.each([
    [2, 5],
    [4, 300],
    [6, 7_200],
    [11, 86_400],
  ])('waits longer and longer: after try %i for about %i s', async (tries, seconds) => {
    merchant.answer = () => 500
    await charge('pay_1')
    await expect.poll(() => merchant.received.length).toBe(1)
    await world.pool.query('update sandbox.delivery set tries = $1, due_at = clock_timestamp()', [tries - 1])
    await expect.poll(() => merchant.received.length).toBe(2)
    await expect.poll(async () => (await waiting())[0]!.wait_s / seconds).toBeGreaterThan(0.6)
    const [delivery] = await waiting()
    expect(delivery).toMatchObject({ status: 'waiting', tries })
    expect(delivery!.wait_s / seconds).toBeLessThan(1.11)
  })

  test('who redirects is not followed', async () => {
    merchant.answer = () => 302
    merchant.headers = { location: `${webhook.url}/elsewhere` }
    await charge('pay_1')
    await expect.poll(() => waiting()).toMatchObject([{ status: 'waiting', tries: 1 }])
    expect(merchant.received).toHaveLength(1)
  })

  test('who answers 410 is left alone', async () => {
    merchant.answer = () => 410
    await charge('pay_1')
    await expect.poll(() => waiting()).toMatchObject([{ status: 'given_up', tries: 1 }])
  })

  test('who asks for a pause gets it', async () => {
    merchant.answer = () => 503
    merchant.headers = { 'retry-after': '120' }
    await charge('pay_1')
    await expect.poll(async () => (await waiting())[0]?.wait_s).toBeGreaterThan(100)
  })

  test('is given up after eleven waits, some 75 hours', async () => {
    merchant.answer = () => 500
    await charge('pay_1')
    await expect.poll(() => merchant.received.length).toBe(1)
    await world.pool.query('update sandbox.delivery set tries = 11, due_at = clock_timestamp()')
    await expect.poll(() => waiting()).toMatchObject([{ status: 'given_up', tries: 12 }])
  })
})

describe('faults', { retry: 3 }, () => {
  test('a duplicated notification arrives twice under one id', async () => {
    await world.setFaults({ webhook_duplicate_rate: 1 })
    await charge('pay_1')
    await expect.poll(() => merchant.received.length).toBe(2)
    expect(new Set(merchant.ids).size).toBe(1)
  })

  test('a dropped notification never arrives, and the money moved all the same', async () => {
    await world.setFaults({ webhook_drop_rate: 1 })
    await charge('pay_1')
    await world.setFaults({})
    await charge('pay_2')
    await expect.poll(() => merchant.events).toEqual(['payment.paid pay_2'])
    expect((await world.taken('pay_1')).times).toBe(1)
    expect(await waiting()).toHaveLength(1)
  })

  test('a delayed notification waits', async () => {
    await world.setFaults({ webhook_delay_ms: 60_000 })
    await charge('pay_1')
    const [delivery] = await waiting()
    expect(delivery?.wait_s).toBeGreaterThan(50)
  })

  test('a reordered notification is overtaken by a later one', async () => {
    await world.setFaults({ webhook_reorder_rate: 1 })
    await charge('pay_1')
    await world.setFaults({})
    await charge('pay_2')
    await expect.poll(() => merchant.events).toEqual(['payment.paid pay_2', 'payment.paid pay_1'])
  })
})

test('several senders on one book send each notification once', async () => {
  await world.setFaults({ webhook_delay_ms: 60_000 })
  const references = Array.from({ length: 300 }, (_, n) => `pay_${n}`)
  await Promise.all(references.map((reference) => charge(reference)))
  await world.pool.query('update sandbox.delivery set due_at = clock_timestamp()')
  await Promise.all(Array.from({ length: 8 }, () => world.openAnother({ webhook })))

  await expect.poll(() => new Set(merchant.ids).size).toBe(300)
  await expect.poll(async () => (await waiting()).filter(({ status }) => status === 'waiting')).toEqual([])
  expect(merchant.received).toHaveLength(300)
})
