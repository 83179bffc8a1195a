import { afterEach, expect, test } from 'vitest'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { openSlowProvider } from '../slow-provider.ts'
import { openWorld, type World } from '../world.ts'

let there: ProviderWorld
let between: Awaited<ReturnType<typeof openSlowProvider>>
let world: World
afterEach(async () => {
  await world.close()
  await between.close()
  await there.close()
})

test('Toss issues one billing key per auth key, and repeats of a slow change of card do not cost the customer the card', async () => {
  there = await openProviderWorld({ wire: tossWire })
  between = await openSlowProvider(there.sandbox.url, 0)
  world = await openWorld({
    environment: {
      PAYMENT_PROVIDER: 'toss',
      TOSS_SECRET_KEY: 'test_sk_oneTimeKeys',
      TOSS_BASE_URL: between.url,
      HINT_SECRET: 'a-secret-to-try-things-with-0123456789',
      ANSWER_WITHIN_MS: '300',
    },
  })
  const account = { account_id: 'acct_1' }
  const { customer_key } = (await world.post('/api/billing/setup', account)).body.data.client
  const card = (name: string) => ({ auth_key: `ak_test_ok.${name}`, customer_key })
  const subscribe = { ...account, plan_id: 'starter-monthly', payment_method: card('first') }
  const headers = { 'idempotency-key': 'k' }
  const start = () => world.post('/api/billing/subscribe', subscribe, { headers })
  await expect.poll(async () => (await start()).status).toBe(201)
  const { subscription_id } = (await start()).body.data

  let arrive = () => {}
  const arrival = new Promise<void>((resolve) => {
    arrive = resolve
  })
  between.state.beforeAnswer = async ({ what }) => {
    if (!what.endsWith('/issue')) return
    between.state.beforeAnswer = async () => {}
    await arrival
  }
  const change = { subscription_id, payment_method: card('second') }
  const ask = (key: string) =>
    world.post('/api/billing/payment-method', change, { headers: { 'idempotency-key': key } })
  for (const _repeat of [1, 2, 3]) expect((await ask('k')).status).toBe(202)
  arrive()
  await expect.poll(async () => (await ask('k')).status).not.toBe(202)
  expect(await ask('k')).toMatchObject({ status: 200, body: { data: { status: 'active' } } })
  expect(between.calls.filter(({ what }) => what.endsWith('/issue'))).toHaveLength(2)

  // Whoever brings it once more has spent it.
  const refused = async () => (await ask('another')).body.error?.code
  await expect.poll(refused).toBe('billing_key_invalid')
})
