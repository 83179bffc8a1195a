import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newToken } from '../../src/platform/access/token.ts'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import type { Wire } from '../../src/sandbox/wire.ts'
import { openProviderWorld } from '../sandbox/open-provider.ts'
import { makeDue } from '../stored-subscriptions.ts'
import { createDatabase, dropDatabase } from '../world.ts'
import { makeCertificate } from './certificate.ts'
import { runCommand, startService } from './service-process.ts'
import { openTlsFront } from './tls-front.ts'

// MODE=live as it is started for real: live keys, TLS to the provider under a certificate that must be trusted, and a
// database of its own. Only the money is nobody's.

type Client = Readonly<Record<string, string>>
type Live = {
  readonly wire: Wire
  readonly environment: Record<string, string>
  readonly secret: string
  readonly path: string
  /** What the customer's browser does with `client`, and what goes into `payment_method`. */
  collect(url: string, client: Client): Promise<Record<string, string>>
  /** Somebody gives a part back in the provider's own console. */
  refundByHand(url: string, payment: { reference: string; id: string }, amount: number): Promise<Response>
}

const hintSecret = randomBytes(24).toString('hex')
const signing = () => `whsec_${randomBytes(32).toString('base64')}`
const stripeSecret = signing()
const portoneSecret = signing()
const random = () => randomBytes(16).toString('hex')
const keys = { stripe: `sk_live_${random()}`, toss: `live_sk_${random()}`, portone: `live${random()}` }

const post = (url: string, authorization: string, body: string, type = 'application/json') =>
  fetch(url, { method: 'POST', headers: { authorization, 'content-type': type }, body })
const form = 'application/x-www-form-urlencoded'

const houses: readonly Live[] = [
  {
    wire: stripeWire,
    environment: { STRIPE_SECRET_KEY: keys.stripe, STRIPE_WEBHOOK_SECRETS: stripeSecret },
    secret: stripeSecret,
    path: '/api/billing/webhook/stripe',
    async collect(url, { client_secret, customer }) {
      const [setup] = client_secret!.split('_secret_')
      const confirmed = await post(
        `${url}/v1/setup_intents/${setup}/confirm`,
        `Bearer ${keys.stripe}`,
        'payment_method=pm_card_visa',
        form,
      )
      expect(await confirmed.json()).toMatchObject({ status: 'succeeded', livemode: true })
      return { auth_key: setup!, customer_key: customer! }
    },
    refundByHand: (url, { id }, amount) =>
      post(`${url}/v1/refunds`, `Bearer ${keys.stripe}`, `payment_intent=${id}&amount=${amount}`, form),
  },
  {
    wire: tossWire,
    environment: { TOSS_SECRET_KEY: keys.toss, HINT_SECRET: hintSecret },
    secret: stripeSecret,
    path: `/api/billing/hints/${hintSecret}`,
    collect: async (_url, { customer_key }) => ({ auth_key: 'ak_test_ok', customer_key: customer_key! }),
    refundByHand: (url, { id }, cancelAmount) =>
      post(
        `${url}/v1/payments/${id}/cancel`,
        `Basic ${Buffer.from(`${keys.toss}:`).toString('base64')}`,
        JSON.stringify({ cancelReason: 'by hand', cancelAmount }),
      ),
  },
  {
    wire: portoneWire,
    environment: {
      PORTONE_API_SECRET: keys.portone,
      PORTONE_STORE_ID: 'store-live',
      PORTONE_CHANNEL_KEY: 'channel-key-live',
      PORTONE_WEBHOOK_SECRETS: portoneSecret,
    },
    secret: portoneSecret,
    path: '/api/billing/webhook/portone',
    collect: async () => ({ billing_key: 'bk_test_ok' }),
    refundByHand: (url, { reference }, amount) =>
      post(
        `${url}/payments/${reference}/cancel`,
        `PortOne ${keys.portone}`,
        JSON.stringify({ reason: 'by hand', amount }),
      ),
  },
]

let folder: string
const certificate = makeCertificate()
const another = makeCertificate()
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'rankledger-live-'))
  writeFileSync(join(folder, 'trusted.pem'), certificate.certificate)
  writeFileSync(join(folder, 'another.pem'), another.certificate)
})
afterAll(() => rmSync(folder, { recursive: true }))

const general = (databaseUrl: string, token: string) => ({
  MODE: 'live',
  PORT: '0',
  RANKLEDGER_DATA: folder,
  DATABASE_URL: databaseUrl,
  VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
  SELLER_NAME: 'Example Ltd',
  BOOTSTRAP_TOKEN: token,
  RATE_LIMIT: '100000',
  NODE_EXTRA_CA_CERTS: join(folder, 'trusted.pem'),
})

/** Every route that is there in sandbox mode alone. */
const sandboxRoutes = Object.entries(
  (JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8')) as Described).paths,
).flatMap(([path, operations]): [string, string[]][] => {
  const methods = Object.entries(operations).filter(([, { tags }]) => tags?.includes('sandbox'))
  return methods.length === 0 ? [] : [[path, methods.map(([method]) => method.toUpperCase())]]
})
type Described = { paths: Record<string, Record<string, { tags?: string[] }>> }

test('the routes of sandbox mode are known', () => {
  const paths = sandboxRoutes.map(([path]) => path)
  expect(paths).toEqual(expect.arrayContaining(['/api/sandbox/clock', '/api/sandbox/demo']))
  expect(paths.filter((path) => !path.startsWith('/api/sandbox/'))).toEqual([])
})

test.each(['sandbox', 'stripe', 'toss', 'portone'])(
  'the simulator of %s is not opened with MODE=live, and nothing is asked of the database',
  async (name) => {
    const { code, output } = await runCommand(['sandbox', '--as', name, '--port', '0'], {
      ...general('postgres://nobody@127.0.0.1:1/nothing', newToken('live')),
      PAYMENT_PROVIDER: 'stripe',
      ...houses[0]!.environment,
    })
    expect(output).toContain('takes no real money and refuses MODE=live')
    expect(code).toBe(1)
  },
)

describe.each(houses)('live with $wire.name', (live) => {
  test('a card is collected, subscribed with, renewed and refunded, and what happens there is heard of', async () => {
    const there = await openProviderWorld({ wire: live.wire })
    const front = await openTlsFront(certificate, there.sandbox.url)
    const databaseUrl = await createDatabase()
    const token = newToken('live')
    const environment = {
      ...general(databaseUrl, token),
      PAYMENT_PROVIDER: live.wire.name,
      PROVIDER_BASE_URL: front.url,
      ...live.environment,
    }
    const service = startService(['serve'], environment)
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 })
    try {
      const url = await service.url()
      await there.openAnother({ webhook: { url: url + live.path, secrets: () => [live.secret] } })
      const ask = async (method: string, path: string, body?: object) => {
        const answer = await fetch(url + path, {
          method,
          headers: {
            authorization: `Bearer ${token}`,
            'idempotency-key': randomUUID(),
            ...(body && { 'content-type': 'application/json' }),
          },
          ...(body && { body: JSON.stringify(body) }),
        })
        return { status: answer.status, ...((await answer.json()) as { data: never; error: never }) }
      }
      // biome-ignore lint/suspicious/noExplicitAny: the story reads fields that its assertions pin down
      const invoices = async (): Promise<any[]> =>
        ((await ask('GET', '/api/billing/invoices?account_id=acct_live')).data as { invoices: [] }).invoices
      const comesTrue = (read: () => Promise<unknown>, expected: object) =>
        expect.poll(read, { interval: 200 }).toMatchObject(expected)

      // Nobody turns the clock of a live service, plays its provider or fills it with made-up customers.
      for (const [path, methods] of sandboxRoutes)
        for (const method of methods)
          expect(await ask(method, path, method === 'POST' ? {} : undefined)).toMatchObject({
            status: 404,
            error: { code: 'route_not_found' },
          })

      const plan = { name: 'Pro', amount: 9900, currency: 'KRW', interval: 'month' }
      expect(await ask('PUT', '/api/billing/plans/pro', plan)).toMatchObject({ status: 200 })

      const setup = await ask('POST', '/api/billing/setup', { account_id: 'acct_live' })
      expect(setup).toMatchObject({ status: 201, data: { provider: live.wire.name } })
      const payment_method = await live.collect(there.sandbox.url, (setup.data as { client: Client }).client)
      const subscribed = await ask('POST', '/api/billing/subscribe', {
        account_id: 'acct_live',
        plan_id: 'pro',
        payment_method,
      })
      expect(subscribed).toMatchObject({ status: 201, data: { status: 'active' } })

      // Nobody moves the clock of a live service, so the month is over by what its row says.
      await makeDue(pool, 'acct_live', new Date(Date.now() - 60_000))
      await comesTrue(invoices, [{ status: 'paid' }, { status: 'paid' }])

      const [second, first] = await invoices()
      const refunded = await ask('POST', '/api/billing/refund', { invoice_id: first.invoice_id, amount: 900 })
      expect(refunded).toMatchObject({ status: 200, data: { status: 'succeeded', amount: 900 } })

      const { rows } = await pool.query<{ id: string }>(
        'select provider_id as id from billing.payment where provider_reference = $1',
        [second.payments[0].reference],
      )
      const byHand = await live.refundByHand(
        there.sandbox.url,
        { reference: second.payments[0].reference, id: rows[0]!.id },
        1_100,
      )
      expect(byHand.status).toBe(200)
      await comesTrue(async () => (await invoices())[0], {
        status: 'partially_refunded',
        amount_refunded: 1_100,
      })

      expect(front.received()).toBeGreaterThan(0)
      const checked = await runCommand(['provider', 'check'], environment)
      expect(checked.code, checked.output).toBe(0)
      // No key, secret or stored card in what it writes and counts.
      const metrics = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })
      expect(metrics.status).toBe(200)
      const told = service.output() + checked.output + (await metrics.text())
      const { client_secret = live.secret } = (setup.data as { client: Client }).client
      const secrets = [...Object.values(keys), live.secret, hintSecret, client_secret, token]
      for (const secret of [...secrets, ...Object.values(payment_method)]) expect(told).not.toContain(secret)
      expect(await service.stop()).toBe(0)
    } finally {
      service.child.kill('SIGKILL')
      await pool.end()
      front.close()
      await there.close()
      await dropDatabase(databaseUrl)
    }
  })

  test('a provider that cannot prove who it is gets nothing', async () => {
    const there = await openProviderWorld({ wire: live.wire })
    const front = await openTlsFront(another, there.sandbox.url)
    const databaseUrl = await createDatabase()
    try {
      const checked = await runCommand(['provider', 'check'], {
        ...general(databaseUrl, newToken('live')),
        PAYMENT_PROVIDER: live.wire.name,
        PROVIDER_BASE_URL: front.url,
        ...live.environment,
      })
      expect(checked.output).toContain('gives no clear answer')
      expect(checked.code).toBe(1)
      expect(front.received()).toBe(0)
    } finally {
      front.close()
      await there.close()
      await dropDatabase(databaseUrl)
    }
  })
})
