import { createHmac, randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { stripeProvider } from '../../src/billing/providers/stripe/stripe.ts'
import { searchLagMs } from '../../src/sandbox/stripe/stripe-intent-routes.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { openProviderWorld } from '../sandbox/open-provider.ts'
import { providerContract } from './contract-suite.ts'

providerContract(
  'Stripe',
  {
    forgottenKey: 'charged_again',
    marksReplays: true,
    reusedKey: 'key_used_otherwise',
    replaysErrors: true,
    twinsOfRunning: 'unknown',
    expectsRemainder: false,
    disputes: true,
    refundsFailLater: true,
    describesBillingKeys: true,
  },
  async () => {
    const world = await openProviderWorld({ wire: stripeWire })
    const secretKey = 'sk_test_contract'
    const advanceMs = async (ms: number) => world.clock.moveTo(new Date(world.clock().getTime() + ms))
    return {
      adapter: (timeoutMs, baseUrl = world.sandbox.url) => stripeProvider({ baseUrl, secretKey, timeoutMs }),
      setFaults: world.setFaults,
      advanceMs,
      now: () => world.clock(),
      taken: world.taken,
      async dispute(reference, status, amount) {
        const body = { reference, status, ...(amount !== undefined && { amount }) }
        expect((await world.ask('POST', '/__sandbox/disputes', { body })).status).toBe(200)
      },
      async failRefund(reference) {
        expect((await world.ask('POST', `/__sandbox/refunds/${reference}/fail`)).status).toBe(200)
      },
      lookupsCatchUp: () => advanceMs(searchLagMs),
      cards: {
        good: 'bk_test_ok',
        poor: 'bk_test_insufficient_funds',
        stolen: 'bk_test_stolen',
        expired: 'bk_test_expired',
        silent: 'bk_test_timeout_after_charge',
        broken: 'bk_test_error_before_charge',
        refusesRefunds: 'bk_test_refund_fails',
        silentOnRefunds: 'bk_test_refund_timeout',
      },
      authKey: 'ak_test_ok',
      webhooks: {
        newSecret: () => `whsec_${randomBytes(24).toString('hex')}`,
        body: (id, reference) =>
          Buffer.from(
            JSON.stringify({
              id,
              object: 'event',
              type: 'payment_intent.succeeded',
              livemode: false,
              data: { object: { id: 'pi_1', object: 'payment_intent', metadata: { order_id: reference } } },
            }),
          ),
        sign(_eventId, body, secret, at) {
          const time = Math.floor(at.getTime() / 1000)
          const signature = createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')
          return { 'stripe-signature': `t=${time},v1=${signature}` }
        },
      },
      close: world.close,
    }
  },
)
