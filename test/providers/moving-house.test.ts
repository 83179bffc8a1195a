import { randomBytes } from 'node:crypto'
import Stripe from 'stripe'
import { expect, test } from 'vitest'
import { runDue } from '../../src/billing/due.ts'
import { checkLedger } from '../../src/billing/ledger/check-ledger.ts'
import { reconcilePayments } from '../../src/billing/reconciliation/reconcile-payments.ts'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { createDatabase, dropDatabase, openWorld, type World } from '../world.ts'

// A house moves from Stripe to PortOne, with both at the other end of a wire. What old cards and payments need goes on at Stripe.

const signing = () => `whsec_${randomBytes(32).toString('base64')}`
const secrets = { stripe: signing(), portone: signing() }
const secretKey = 'sk_test_house'

test('old cards are charged, refunded and deleted at Stripe while new ones go to PortOne, and both are heard at one address', async () => {
  const [there, beyond] = await Promise.all([
    openProviderWorld({ wire: stripeWire }),
    openProviderWorld({ wire: portoneWire }),
  ])
  const database = await createDatabase()
  const atStripe = {
    STRIPE_SECRET_KEY: secretKey,
    STRIPE_BASE_URL: there.sandbox.url,
    STRIPE_WEBHOOK_SECRETS: secrets.stripe,
  }
  let world = await openWorld({ database, environment: { ...atStripe, PAYMENT_PROVIDER: 'stripe' } })
  const { VAULT_KEYS = '' } = world.environment
  try {
    const client = await setUp(world, 'loyal', 'stripe')
    const [setup] = client['client_secret']!.split('_secret_')
    const stripe = stripeAt(there)
    await stripe.setupIntents.confirm(setup!, { payment_method: 'pm_card_visa' })
    await subscribe(world, 'loyal', { auth_key: setup, customer_key: client['customer'] })
    const cardOfLoyal = async () => {
      const { payment_method } = await stripe.setupIntents.retrieve(setup!)
      return stripe.paymentMethods.retrieve(payment_method as string)
    }
    await world.close()

    world = await openWorld({
      database,
      environment: {
        ...atStripe,
        VAULT_KEYS,
        PAYMENT_PROVIDER: 'portone',
        PORTONE_API_SECRET: 'api-secret-of-the-new-house',
        PORTONE_STORE_ID: 'store-house',
        PORTONE_CHANNEL_KEY: 'channel-key-house',
        PORTONE_BASE_URL: beyond.sandbox.url,
        PORTONE_WEBHOOK_SECRETS: secrets.portone,
      },
    })
    const { billing } = world.app
    // Both tell at the same address; whose secret verifies says who it was.
    const url = `${world.url}/api/billing/webhook`
    await there.openAnother({ webhook: { url, secrets: () => [secrets.stripe] } })
    await beyond.openAnother({ webhook: { url, secrets: () => [secrets.portone] } })
    await subscribe(world, 'fresh', { billing_key: await issue(world, beyond, 'fresh') })

    await world.advanceBy('P32D')
    expect(await chargesAt(there)).toEqual(['loyal', 'loyal'])
    expect(await chargesAt(beyond)).toEqual(['fresh', 'fresh'])

    // A part of each renewal is given back at its provider by hand, and each of them tells us.
    const [renewed, first] = await invoicesOf(world, 'loyal')
    const [{ payments: fresh }] = await invoicesOf(world, 'fresh')
    const { reference } = renewed.payments[0]
    const byHand = { body: { reference, amount: 900 }, secret: secretKey }
    expect((await there.ask('POST', '/__sandbox/refunds', byHand)).status).toBe(200)
    expect((await cancelAtPortone(beyond, fresh[0].reference, 700)).status).toBe(200)
    for (const [account, amount_refunded] of [
      ['loyal', 900],
      ['fresh', 700],
    ] as const)
      await expect
        .poll(async () => {
          await runDue(billing)
          return (await invoicesOf(world, account))[0]
        })
        .toMatchObject({ status: 'partially_refunded', amount_refunded })
    const heard = await world.query(
      `select distinct provider, status from billing.webhook where type in ('charge.refunded', 'Transaction.PartialCancelled')
       order by provider`,
    )
    expect(heard).toEqual([
      { provider: 'portone', status: 'done' },
      { provider: 'stripe', status: 'done' },
    ])

    const refunded = await world.post('/api/billing/refund', { invoice_id: first.invoice_id })
    expect(refunded.body.data).toMatchObject({ status: 'succeeded', amount: 9900 })
    expect((await there.taken(first.payments[0].reference)).refunded).toBe(9900n)

    expect(await cardOfLoyal()).toMatchObject({ customer: client['customer'] })
    const changed = await world.post('/api/billing/payment-method', {
      subscription_id: renewed.subscription_id,
      payment_method: { billing_key: await issue(world, beyond, 'loyal') },
    })
    expect([changed.status, changed.body.data.status]).toEqual([200, 'active'])
    await expect
      .poll(async () => {
        await runDue(billing)
        return cardOfLoyal()
      })
      .toMatchObject({ customer: null })

    await world.advanceBy('P31D')
    expect(await chargesAt(there)).toEqual(['loyal', 'loyal'])
    expect((await chargesAt(beyond)).sort()).toEqual(['fresh', 'fresh', 'fresh', 'loyal'])
    const until = new Date(world.app.clock().getTime() + 1000)
    expect(await reconcilePayments(billing, new Date(0), until)).toMatchObject({
      compared: 6,
      repaired: [],
      differences: [],
    })
    expect(await checkLedger(billing.db)).toMatchObject({ faults: [] })
  } finally {
    await world.close()
    await Promise.all([there.close(), beyond.close()])
    await dropDatabase(database)
  }
})

type Client = Readonly<Record<string, string>>

async function setUp(world: World, account_id: string, provider: string): Promise<Client> {
  const { status, body } = await world.post('/api/billing/setup', { account_id })
  expect([status, body.data.provider]).toEqual([201, provider])
  return body.data.client
}

async function subscribe(world: World, account_id: string, payment_method: object): Promise<void> {
  const plan_id = 'starter-monthly'
  const { status, body } = await world.post('/api/billing/subscribe', { account_id, plan_id, payment_method })
  expect([status, body.data?.status]).toEqual([201, 'active'])
}

/** What PortOne's script gives back in the customer's browser. */
async function issue(world: World, beyond: ProviderWorld, account: string): Promise<string> {
  const { issue_id } = await setUp(world, account, 'portone')
  const issued = await beyond.ask('POST', '/__sandbox/billing-keys', {
    body: { card: 'bk_test_ok', issue_id },
  })
  return issued.body.billing_key
}

function stripeAt({ sandbox }: ProviderWorld): Stripe {
  const { hostname, port } = new URL(sandbox.url)
  return new Stripe(secretKey, { host: hostname, port: Number(port), protocol: 'http' })
}

function cancelAtPortone({ sandbox }: ProviderWorld, paymentId: string, amount: number): Promise<Response> {
  return fetch(`${sandbox.url}/payments/${paymentId}/cancel`, {
    method: 'POST',
    headers: { authorization: 'PortOne by-hand', 'content-type': 'application/json' },
    body: JSON.stringify({ reason: 'by hand', amount }),
  })
}

// biome-ignore lint/suspicious/noExplicitAny: the story reads fields that its assertions pin down
async function invoicesOf(world: World, account: string): Promise<any[]> {
  return (await world.get(`/api/billing/invoices?account_id=${account}`)).body.data.invoices
}

/** Whose charges a provider took, oldest first. */
async function chargesAt({ pool }: ProviderWorld): Promise<string[]> {
  const { rows } = await pool.query<{ account: string }>(
    `select account_id as account from sandbox.payment where status = 'paid' order by created_at, id`,
  )
  return rows.map(({ account }) => account)
}
