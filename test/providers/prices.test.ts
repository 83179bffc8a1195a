import { afterEach, expect, test } from 'vitest'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import type { Wire } from '../../src/sandbox/wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { openWorld, type World } from '../world.ts'

// A price that the provider's adapter cannot send is refused while its customer is there, and not when it falls due.

let there: ProviderWorld
let world: World
afterEach(async () => {
  await world.close()
  await there.close()
})

type Told = { wire: Wire; environment(url: string): Record<string, string> }

const stripe: Told = {
  wire: stripeWire,
  environment: (url) => ({
    PAYMENT_PROVIDER: 'stripe',
    STRIPE_SECRET_KEY: 'sk_test_prices',
    STRIPE_BASE_URL: url,
    STRIPE_WEBHOOK_SECRETS: 'whsec_a_secret_to_try_things_with',
  }),
}
const toss: Told = {
  wire: tossWire,
  environment: (url) => ({
    PAYMENT_PROVIDER: 'toss',
    TOSS_SECRET_KEY: 'test_sk_pricesOfToss',
    TOSS_BASE_URL: url,
    HINT_SECRET: 'a-secret-to-try-things-with-0123456789',
  }),
}

async function open({ wire, environment }: Told): Promise<void> {
  there = await openProviderWorld({ wire })
  world = await openWorld({ environment: environment(there.sandbox.url) })
}

async function offer(plan_id: string, amount: number, currency: string): Promise<void> {
  const body = { name: plan_id, amount, currency, interval: 'month', trial_days: 14 }
  expect((await world.ask('PUT', `/api/billing/plans/${plan_id}`, { body })).status).toBe(200)
}

const payment_method = { billing_key: 'bk_test_ok' }
const subscribe = (account_id: string, plan_id: string, more: object = {}) =>
  world.post('/api/billing/subscribe', { account_id, plan_id, payment_method, ...more })

async function written(): Promise<unknown> {
  const [row] = await world.query(`
    select (select count(*)::int from billing.account) as accounts,
           (select count(*)::int from billing.subscription) as subscriptions,
           (select count(*)::int from billing.payment_method) as methods,
           (select count(*)::int from billing.payment) as payments,
           (select count(*)::int from platform.alarm) as alarms`)
  return row
}

test.each([
  { told: stripe, amount: 150_000_000, currency: 'IDR' },
  { told: stripe, amount: 999_999_999_999, currency: 'USD' },
  { told: stripe, amount: 9_999_999_999, currency: 'ISK' },
  { told: stripe, amount: 1010, currency: 'KWD' },
  { told: toss, amount: 100, currency: 'KRW' },
])('$told.wire.name is charged $amount $currency', async ({ told, amount, currency }) => {
  await open(told)
  await offer('dear', amount, currency)
  expect(await subscribe('acct_1', 'dear')).toMatchObject({
    status: 201,
    body: { data: { status: 'active', amount, currency } },
  })
  expect((await there.ask('GET', '/__sandbox/payments')).body.payments).toMatchObject([
    { status: 'paid', amount, currency },
  ])
})

test.each([
  { told: stripe, amount: 1005, currency: 'KWD', good: 1010 },
  { told: stripe, amount: 5001, currency: 'MGA', good: 5000 },
  { told: stripe, amount: 10_000_000_000, currency: 'ISK', good: 9_999_999_999 },
  { told: toss, amount: 99, currency: 'KRW', good: 100 },
])('$told.wire.name cannot be charged $amount $currency, and no card is taken for it', async (price) => {
  const { told, amount, currency, good } = price
  await open(told)
  await offer('odd', amount, currency)
  await offer('even', good, currency)
  const refused = {
    status: 422,
    body: {
      error: {
        code: 'currency_not_supported',
        details: [{ code: 'amount_not_supported', message: expect.stringContaining(currency) }],
      },
    },
  }
  const before = await written()
  expect(await subscribe('acct_1', 'odd', { customer: { email: 'kim@example.com' } })).toMatchObject(refused)
  expect(await written()).toEqual(before)

  // A trial needs no card, and gets none that could not be charged at its end.
  const trial = await world.post('/api/billing/trial', { account_id: 'acct_2', plan_id: 'odd' })
  expect(trial.status).toBe(201)
  const { subscription_id } = trial.body.data
  const started = await written()
  expect(await subscribe('acct_2', 'odd')).toMatchObject(refused)
  expect(await world.post('/api/billing/payment-method', { subscription_id, payment_method })).toMatchObject(
    refused,
  )
  expect(await written()).toEqual(started)
  expect(await subscribe('acct_2', 'even')).toMatchObject({
    status: 201,
    body: { data: { subscription_id, status: 'trialing', amount: good } },
  })
  expect(await written()).toMatchObject({ methods: 1, payments: 0, alarms: 0 })
})
