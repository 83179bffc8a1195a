import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { findChargingStop } from '../../src/billing/charging-stop-rows.ts'
import { resumeCharging } from '../../src/billing/lifecycle/resume-charging.ts'
import type { Http } from '../../src/platform/http/http.ts'
import { inLiveMode } from '../../src/sandbox/stripe/stripe-objects.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import type { Wire } from '../../src/sandbox/wire.ts'
import { openProviderWorld } from '../sandbox/open-provider.ts'
import { openWorld } from '../world.ts'

/** Stripe's simulator, until it answers a test key as if the money were real. */
function openMixedUp() {
  const mixed = { up: false }
  const wire: Wire = {
    ...stripeWire,
    routes(http: Http, context, keys) {
      http.addHook('onSend', async (_request, _reply, answer) =>
        mixed.up && typeof answer === 'string' ? inLiveMode(answer) : answer,
      )
      stripeWire.routes(http, context, keys)
    },
  }
  return { wire, mixed }
}

test('in sandbox mode one answer about real money stops all charging, until an operator lets it go on', async () => {
  const { wire, mixed } = openMixedUp()
  const there = await openProviderWorld({ wire })
  const world = await openWorld({
    environment: {
      PAYMENT_PROVIDER: 'stripe',
      STRIPE_SECRET_KEY: 'sk_test_mixed',
      STRIPE_BASE_URL: there.sandbox.url,
      STRIPE_WEBHOOK_SECRETS: 'whsec_of_a_mixed_up_endpoint',
    },
  })
  const { billing } = world.app
  const subscribe = async (account_id: string) => {
    const { status, body } = await world.post('/api/billing/subscribe', {
      account_id,
      plan_id: 'starter-monthly',
      payment_method: { billing_key: 'bk_test_ok' },
    })
    return [status, body.data?.status ?? body.error.code]
  }
  const charges = async () =>
    (await there.pool.query('select count(*)::int as n from sandbox.payment')).rows[0].n
  try {
    expect(await subscribe('before')).toEqual([201, 'active'])
    mixed.up = true
    expect(await subscribe('mixed')).toEqual([202, 'incomplete'])
    expect(await findChargingStop(billing.db, 'stripe')).toMatchObject({ cause: 'live_answer' })
    expect(await findChargingStop(billing.db, 'sandbox')).toMatchObject({ cause: 'live_answer' })

    // It answers well again, and all the same nobody is asked for money, once the process looks again whether it may.
    mixed.up = false
    await sleep(1_100)
    expect(await charges()).toBe(2)
    expect(await subscribe('later')).toEqual([503, 'provider_unavailable'])
    await world.advanceBy('P32D')
    expect(await charges()).toBe(2)

    await resumeCharging(billing)
    let n = 0
    await expect.poll(() => subscribe(`after_${n++}`)).toEqual([201, 'active'])
  } finally {
    await world.close()
    await there.close()
  }
})
