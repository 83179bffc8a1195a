import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDatabase, dropDatabase } from '../world.ts'
import { type BillingWorld, openBillingWorld } from './billing-world.ts'
import { scriptedProvider } from './scripted-provider.ts'

// Collecting a card: what the provider's browser SDK needs, and whose card it will be.

const script = scriptedProvider()
let world: BillingWorld
let url: string

beforeAll(async () => {
  // This one gives every customer a name of its own, as real providers do.
  const { anyCustomer: _gone, ...guards } = script.provider.guards
  Object.assign(script.provider, { guards })
  url = await createDatabase()
  world = await openBillingWorld({ on: { url, script } })
})
afterAll(async () => {
  await world.leave()
  await dropDatabase(url)
})

const subscribeWith = (account_id: string, customer_key: string) =>
  world.post('/subscribe', {
    account_id,
    plan_id: 'starter-monthly',
    payment_method: { auth_key: 'ak_test_ok', customer_key },
  })

test('a setup tells what the browser needs, and a repeat under its key is the same to the byte', async () => {
  const first = await world.post('/setup', { account_id: 'acct_a' }, { key: 'setup-1' })
  expect(first.status).toBe(201)
  expect(first.data).toEqual({
    setup_id: expect.stringMatching(/^setup_/),
    provider: 'scripted',
    client: { customer_key: expect.any(String), secret: expect.any(String) },
  })
  const again = await world.post('/setup', { account_id: 'acct_a' }, { key: 'setup-1' })
  expect(again.text).toBe(first.text)
  expect(script.setups).toHaveLength(1)
  // The account stays one customer at the provider.
  const second = await world.post('/setup', { account_id: 'acct_a' })
  expect(second.data.client.customer_key).toBe(first.data.client.customer_key)
})

test("a card is taken with this account's customer key only, and nobody is asked about another", async () => {
  const { data: mine } = await world.post('/setup', { account_id: 'acct_b' })
  const { data: theirs } = await world.post('/setup', { account_id: 'acct_c' })
  const before = { ...script.calls }
  for (const key of [theirs.client.customer_key, 'cus_unknown']) {
    const refused = await subscribeWith('acct_b', key)
    expect([refused.status, refused.body.error.code]).toEqual([422, 'billing_key_invalid'])
  }
  expect(script.calls).toEqual(before)
  const subscribed = await subscribeWith('acct_b', mine.client.customer_key)
  expect(subscribed.status).toBe(201)

  const change = (customer_key: string) =>
    world.post('/payment-method', {
      subscription_id: subscribed.data.subscription_id,
      payment_method: { auth_key: 'ak_test_ok', customer_key },
    })
  expect((await change(theirs.client.customer_key)).status).toBe(422)
  expect((await change(mine.client.customer_key)).status).toBe(200)
})

test("a billing key that names another account's customer is refused, and nobody is asked about it", async () => {
  const { data: theirs } = await world.post('/setup', { account_id: 'victim' })
  const { data: own } = await world.post('/setup', { account_id: 'thief' })
  const token = await world.makeToken({ account: 'thief' })
  const subscribe = (billing_key: string, more = {}) =>
    world.post(
      '/subscribe',
      { account_id: 'thief', plan_id: 'starter-monthly', payment_method: { billing_key } },
      more,
    )
  const stolen = `${theirs.client.customer_key}:pm_stolen`
  const before = { ...script.calls }
  // Nobody's customer may be one that the house had before it had us; a token of one account cannot tell.
  for (const refused of [
    await subscribe(stolen, { token }),
    await subscribe(stolen),
    await subscribe('cus_of_nobody:pm_1', { token }),
  ])
    expect([refused.status, refused.body.error.code]).toEqual([422, 'billing_key_invalid'])
  expect(script.calls).toEqual(before)
  expect(await world.rows(`select from billing.payment_method where account_id = 'thief'`)).toEqual([])

  const subscribed = await subscribe(`${own.client.customer_key}:pm_own`, { token })
  expect(subscribed.status).toBe(201)
  const { subscription_id } = subscribed.data
  const change = (billing_key: string, more = {}) =>
    world.post('/payment-method', { subscription_id, payment_method: { billing_key } }, more)
  expect((await change(stolen, { token })).status).toBe(422)
  expect((await change(stolen)).status).toBe(422)
  expect((await change('cus_of_nobody:pm_1', { token })).status).toBe(422)
  expect((await change('cus_of_nobody:pm_1')).status).toBe(200)
  expect((await change('bk_test_ok', { token })).status).toBe(200)
})

test('a trial without a card takes none that names another customer', async () => {
  const { data: theirs } = await world.post('/setup', { account_id: 'victim' })
  const token = await world.makeToken({ account: 'tries' })
  await world.post('/trial', { account_id: 'tries', plan_id: 'starter-monthly' }, { token })
  const subscribe = (billing_key: string) =>
    world.post(
      '/subscribe',
      { account_id: 'tries', plan_id: 'starter-monthly', payment_method: { billing_key } },
      { token },
    )
  expect((await subscribe(`${theirs.client.customer_key}:pm_stolen`)).status).toBe(422)
  expect((await subscribe('bk_test_ok')).status).toBe(201)
})

test("a token of one account sets up no other's card", async () => {
  const token = await world.makeToken({ account: 'acct_b' })
  expect((await world.post('/setup', { account_id: 'acct_c' }, { token })).status).toBe(403)
  expect((await world.post('/setup', { account_id: 'acct_b' }, { token })).status).toBe(201)
})

test('a provider that does not answer is said to be unavailable, and a retry goes on', async () => {
  script.state.silent = true
  const refused = await world.post('/setup', { account_id: 'acct_d' })
  script.state.silent = false
  expect([refused.status, refused.body.error.code]).toEqual([503, 'provider_unavailable'])
  expect((await world.post('/setup', { account_id: 'acct_d' })).status).toBe(201)
})

test('an erased account keeps no customer key, and its answers are gone', async () => {
  const { data } = await world.post('/setup', { account_id: 'acct_e' }, { key: 'setup-e' })
  expect((await world.ask('DELETE', '/accounts/acct_e')).status).toBe(200)
  expect(
    await world.rows(`select from billing.setup where account_id = 'acct_e' and customer_key is not null`),
  ).toEqual([])
  const replay = await world.post('/setup', { account_id: 'acct_e' }, { key: 'setup-e' })
  expect(replay.text).not.toContain(data.client.secret)
  expect((await subscribeWith('acct_e', data.client.customer_key)).status).toBe(422)
})
