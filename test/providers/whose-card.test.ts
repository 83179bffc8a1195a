import { afterEach, expect, test } from 'vitest'
import { resolveOpenPayment } from '../../src/billing/collection/resolve-open-payments.ts'
import { subscribe as beginning } from '../../src/billing/lifecycle/subscribe.ts'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import type { Wire } from '../../src/sandbox/wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { openWorld, type World } from '../world.ts'

// A card belongs to the account it was collected for: told by the running service over each provider's own wire.

let there: ProviderWorld
let world: World
afterEach(async () => {
  await world.close()
  await there.close()
})

async function open(wire: Wire, environment: (url: string) => Record<string, string>): Promise<void> {
  there = await openProviderWorld({ wire })
  world = await openWorld({ environment: environment(there.sandbox.url) })
}

/** A token that reaches this account alone. */
const boundTo = (account: string) => world.makeToken({ workspace: null, account })

const setUp = async (account_id: string) => (await world.post('/api/billing/setup', { account_id })).body.data

const subscribe = (account_id: string, payment_method: object, token?: string) =>
  world.post(
    '/api/billing/subscribe',
    { account_id, plan_id: 'starter-monthly', payment_method },
    token === undefined ? {} : { token },
  )

const told = ({ status, body }: Awaited<ReturnType<typeof subscribe>>) => [status, body.error?.code]
const refused = [422, 'billing_key_invalid']

async function taken(): Promise<number> {
  return (await there.ask('GET', '/__sandbox/payments')).body.payments.length
}

/** What is true of every provider whose billing keys name their customer. */
async function tellOfNamedKeys(keys: { victims: string; own: string; nobodys: string }): Promise<void> {
  const token = await boundTo('thief')
  const before = await taken()
  expect(told(await subscribe('thief', { billing_key: keys.victims }, token))).toEqual(refused)
  expect(told(await subscribe('thief', { billing_key: keys.victims }))).toEqual(refused)
  expect(told(await subscribe('thief', { billing_key: keys.nobodys }, token))).toEqual(refused)
  expect(await taken()).toBe(before)

  const mine = await subscribe('thief', { billing_key: keys.own }, token)
  expect(told(mine)).toEqual([201, undefined])
  const { subscription_id } = mine.body.data
  const change = (billing_key: string, own?: string) =>
    world.post(
      '/api/billing/payment-method',
      { subscription_id, payment_method: { billing_key } },
      own === undefined ? {} : { token: own },
    )
  expect(told(await change(keys.victims, token))).toEqual(refused)
  expect(told(await change(keys.victims))).toEqual(refused)
  expect(told(await change(keys.nobodys, token))).toEqual(refused)
  expect(told(await change(keys.nobodys))).toEqual([200, undefined])
  expect(told(await subscribe('plain', { billing_key: 'bk_test_ok' }, await boundTo('plain')))).toEqual([
    201,
    undefined,
  ])
}

const stripeKey = 'sk_test_whose'

async function openStripe(): Promise<void> {
  await open(stripeWire, (url) => ({
    PAYMENT_PROVIDER: 'stripe',
    STRIPE_SECRET_KEY: stripeKey,
    STRIPE_BASE_URL: url,
    STRIPE_WEBHOOK_SECRETS: 'whsec_a_secret_to_try_things_with',
  }))
}

const askStripe = async (path: string, form: Record<string, string> | null, method = 'POST') =>
  (
    await fetch(`${there.sandbox.url}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${stripeKey}` },
      ...(form && { body: new URLSearchParams(form) }),
    })
  ).json() as Promise<{ id: string; payment_method: string; deleted?: true; data: { id: string }[] }>

/** What its customer does in the browser. */
const collectAtStripe = async (account: string) => {
  const { client } = await setUp(account)
  const intent: string = client.client_secret.split('_secret_')[0]
  const { payment_method } = await askStripe(`/setup_intents/${intent}/confirm`, {
    payment_method: 'pm_card_visa',
  })
  return { intent, customer: client.customer as string, method: payment_method }
}

test('at Stripe', async () => {
  await openStripe()
  const collect = async (account: string) => {
    const { customer, method } = await collectAtStripe(account)
    return `${customer}:${method}`
  }
  const old = await askStripe('/customers', {})
  const card = await askStripe('/payment_methods/pm_card_visa/attach', { customer: old.id })
  await tellOfNamedKeys({
    victims: await collect('victim'),
    own: await collect('thief'),
    nobodys: `${old.id}:${card.id}`,
  })
})

test('at Stripe an account whose customer was deleted there becomes another one, and pays with a new card', async () => {
  await openStripe()
  const first = await collectAtStripe('kim')
  const given = { auth_key: first.intent, customer_key: first.customer }
  const { subscription_id, next_billing_at } = (await subscribe('kim', given)).body.data
  expect(await askStripe(`/customers/${first.customer}`, null, 'DELETE')).toMatchObject({ deleted: true })

  // Its card went with it, so that the renewal fails, and only another card helps.
  await world.advanceTo(new Date(Date.parse(next_billing_at) + 60_000))
  const [invoice] = (await world.get('/api/billing/invoices?account_id=kim')).body.data.invoices
  expect(invoice.payments).toMatchObject([{ status: 'failed', failure_code: 'billing_key_invalid' }])
  const second = await collectAtStripe('kim')
  expect(second.customer).not.toBe(first.customer)
  const changed = await world.post('/api/billing/payment-method', {
    subscription_id,
    payment_method: { auth_key: second.intent, customer_key: second.customer },
  })
  expect([changed.status, changed.body.data?.status]).toEqual([200, 'active'])

  // From now on it is this one, and nobody else is.
  expect((await setUp('kim')).client.customer).toBe(second.customer)
  for (const { customer, method } of [first, second])
    expect(told(await subscribe('thief', { billing_key: `${customer}:${method}` }))).toEqual(refused)
  expect((await askStripe('/customers', null, 'GET')).data).toMatchObject([{ id: second.customer }])
})

test('at Toss', async () => {
  await open(tossWire, (url) => ({
    PAYMENT_PROVIDER: 'toss',
    TOSS_SECRET_KEY: 'test_sk_whoseCard',
    TOSS_BASE_URL: url,
    HINT_SECRET: 'a-secret-to-try-things-with-0123456789',
  }))
  const issue = async (customerKey: string) => {
    const answer = await fetch(`${there.sandbox.url}/v1/billing/authorizations/issue`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${btoa('test_sk_whoseCard:')}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ authKey: 'ak_test_ok', customerKey }),
    })
    return `${customerKey}:${((await answer.json()) as { billingKey: string }).billingKey}`
  }
  const collect = async (account: string) => issue((await setUp(account)).client.customer_key)
  const victims = await collect('victim')
  await tellOfNamedKeys({ victims, own: await collect('thief'), nobodys: await issue('an-old-customer') })
  // The form in which we keep one ourselves is no way round either.
  const [customer, key] = victims.split(':')
  const kept = { billing_key: `toss:${customer}:visa:4242:${key}` }
  expect(told(await subscribe('another', kept, await boundTo('another')))).toEqual(refused)
})

async function openPortone(): Promise<void> {
  await open(portoneWire, (url) => ({
    PAYMENT_PROVIDER: 'portone',
    PORTONE_API_SECRET: 'whose-card-portone-api-secret',
    PORTONE_STORE_ID: 'store-whose',
    PORTONE_CHANNEL_KEY: 'channel-key-whose',
    PORTONE_BASE_URL: url,
    PORTONE_WEBHOOK_SECRETS: `whsec_${Buffer.from('a secret to try things with').toString('base64')}`,
  }))
}

const issueAtPortone = async (names: { issue_id?: string; customer_id?: string }): Promise<string> =>
  (await there.ask('POST', '/__sandbox/billing-keys', { body: { card: 'bk_test_ok', ...names } })).body
    .billing_key

test('at PortOne, where only reading a billing key back tells', async () => {
  await openPortone()
  const collect = async (account: string) =>
    issueAtPortone({ issue_id: (await setUp(account)).client.issue_id })
  await tellOfNamedKeys({
    victims: await collect('victim'),
    own: await collect('thief'),
    nobodys: await issueAtPortone({ issue_id: 'issue-of-older-times', customer_id: 'somebody' }),
  })
  const kept = await world.query<{ failure: string; sealed: Buffer | null }>(
    `select distinct failure, sealed from billing.payment_method where state = 'dropped'`,
  )
  expect(kept).toEqual([{ failure: 'billing_key_invalid', sealed: null }])

  const named = { billing_key: await issueAtPortone({ customer_id: 'by-name' }) }
  expect(told(await subscribe('another', named, await boundTo('another')))).toEqual(refused)
  expect(told(await subscribe('by-name', named, await boundTo('by-name')))).toEqual([201, undefined])
})

test('at PortOne nothing is charged for a token of one account while nobody can tell whose a billing key is', async () => {
  await openPortone()
  const card = { billing_key: await issueAtPortone({ issue_id: (await setUp('mine')).client.issue_id }) }
  await there.setFaults({ down: true })
  const token = await boundTo('mine')
  expect(told(await subscribe('mine', card, token))).toEqual([503, 'provider_unavailable'])
  expect(await taken()).toBe(0)
  await there.setFaults({})
  expect(told(await subscribe('mine', card, token))).toEqual([201, undefined])
})

test('at PortOne a request that died before its charge is finished with the same care', async () => {
  await openPortone()
  const stolen = await issueAtPortone({ issue_id: (await setUp('victim')).client.issue_id })
  const app = world.app.billing
  const request = {
    accountId: 'thief',
    planId: 'starter-monthly',
    method: { billingKey: stolen },
    bound: true,
    timeZone: undefined,
    contact: undefined,
    actor: 'test',
  }
  const intent = await app.db.transaction().execute(beginning(app, request).begin)
  await world.query(`update billing.payment set sending_until = now(), next_lookup_at = now()`)
  await resolveOpenPayment(app, intent.id)
  expect(await taken()).toBe(0)
})
