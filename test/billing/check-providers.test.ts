import { afterAll, beforeAll, expect, test } from 'vitest'
import { stopForCredentials } from '../../src/billing/charging-stop.ts'
import { findChargingStop } from '../../src/billing/charging-stop-rows.ts'
import { provider } from '../../src/cli/provider.ts'
import { listAlarms } from '../../src/platform/alarm.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import { openProviderWorld } from '../sandbox/open-provider.ts'
import { openWorld, type World } from '../world.ts'
import { runCommand } from './run-command.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2026-03-05T09:00:00+09:00' })
})
afterAll(() => world.close())

const check = (args: string[], environment: Record<string, string> = {}) =>
  runCommand(provider, args, { ...world.environment, ...environment })

test('a provider that is set up right passes, and a stop for refused credentials ends by it', async () => {
  const { db } = world.app.billing
  await stopForCredentials(db, 'sandbox', world.app.clock())
  const { code, output } = await check(['check', '--json'])
  expect(code).toBe(0)
  expect(JSON.parse(output)).toMatchObject({
    ok: true,
    providers: [
      { provider: 'sandbox', for_new_cards: true, ok: true, live_subscriptions: 0, charging_resumed: true },
    ],
  })
  const subjects = JSON.parse(output).providers[0].checks.map((line: { subject: string }) => line.subject)
  expect(subjects.sort()).toEqual(['clock', 'credentials', 'listing', 'webhook_secret'])
  expect(await findChargingStop(db)).toBeUndefined()
  expect(await listAlarms(db, 5)).toEqual([])
  expect((await check(['check'])).output).toMatch(/^sandbox \(new payment methods\)\n {2}ok {5}credentials/)
})

test('one that cannot be reached or is set up badly fails line by line, and a stop stays', async () => {
  const { db } = world.app.billing
  await stopForCredentials(db, 'sandbox', world.app.clock())
  const { code, output } = await check(['check', '--json'], {
    PROVIDER_BASE_URL: 'http://127.0.0.1:9',
    WEBHOOK_SECRETS: 'short',
  })
  expect(code).toBe(1)
  const faults = JSON.parse(output).providers[0].checks.filter((line: { ok: boolean }) => !line.ok)
  expect(faults.map((line: { subject: string }) => line.subject)).toEqual([
    'credentials',
    'listing',
    'webhook_secret',
  ])
  expect(output).not.toContain('"short"')
  expect(await findChargingStop(db, 'sandbox')).toBeDefined()
  expect((await check(['check'])).code).toBe(0)
})

test('a provider that holds cards in use and has no keys is reported, with how many it holds', async () => {
  await world.post('/api/billing/subscribe', {
    account_id: 'acct_1',
    plan_id: 'starter-monthly',
    payment_method: { billing_key: 'bk_test_ok' },
  })
  await world.query(`update billing.payment_method set provider = 'elsewhere'`)
  const { code, output } = await check(['check'])
  expect(code).toBe(1)
  expect(output).toMatch(/elsewhere\n {2}fault {2}credentials/)
  expect(output).toMatch(/elsewhere\n.*\n {2}It holds the payment methods of 1 live subscriptions/)
})

test('a moved sandbox clock is no fault of Stripe, and the stop ends all the same', async () => {
  const there = await openProviderWorld({ wire: stripeWire })
  const here = await openWorld({
    environment: {
      PAYMENT_PROVIDER: 'stripe',
      STRIPE_SECRET_KEY: 'sk_test_check',
      STRIPE_BASE_URL: there.sandbox.url,
      STRIPE_WEBHOOK_SECRETS: 'whsec_a_secret_to_check_things_with',
    },
  })
  try {
    await here.advanceBy('P1M')
    await stopForCredentials(here.app.billing.db, 'stripe', here.app.clock())
    const { code, output } = await runCommand(provider, ['check', '--json'], here.environment)
    expect([code, JSON.parse(output).providers[0].charging_resumed]).toEqual([0, true])
  } finally {
    await here.close()
    await there.close()
  }
})

test('without HINT_SECRET the check of Toss says that the hints route is off', async () => {
  const there = await openProviderWorld({ wire: tossWire })
  const environment = {
    ...world.environment,
    PAYMENT_PROVIDER: 'toss',
    TOSS_SECRET_KEY: 'test_sk_check',
    TOSS_BASE_URL: there.sandbox.url,
  }
  const lineOf = async (more: Record<string, string>) => {
    const { output } = await runCommand(provider, ['check', '--json'], { ...environment, ...more })
    const toss = JSON.parse(output).providers.find((one: { provider: string }) => one.provider === 'toss')
    expect(toss.ok).toBe(true)
    return toss.checks.find((line: { subject: string }) => line.subject === 'webhook_secret').message
  }
  try {
    expect(await lineOf({})).toMatch(/^HINT_SECRET is not set, so the hints route is off/)
    expect(await lineOf({ HINT_SECRET: 'h'.repeat(32) })).toMatch(/^HINT_SECRET is set; register/)
  } finally {
    await there.close()
  }
})

test('anything else is a mistake in the command', async () => {
  expect((await check([])).code).toBe(2)
  expect((await check(['check', 'stripe'])).code).toBe(2)
})
