import { expect } from 'vitest'
import { sandboxProvider } from '../../src/billing/providers/sandbox.ts'
import { newSecret, openProviderWorld } from '../sandbox/open-provider.ts'
import { signStandardWebhook } from '../sign-webhook.ts'
import { providerContract } from './contract-suite.ts'

providerContract(
  'sandbox',
  {
    forgottenKey: 'unknown',
    marksReplays: true,
    reusedKey: 'key_used_otherwise',
    replaysErrors: false,
    twinsOfRunning: 'unknown',
    expectsRemainder: true,
    disputes: true,
    refundsFailLater: true,
    describesBillingKeys: true,
    // Its cards are names that everybody knows.
    storesCards: false,
    asksCustomers: false,
    endOfNobody: 'canceled',
  },
  async () => {
    const world = await openProviderWorld()
    return {
      adapter: (timeoutMs, baseUrl = world.sandbox.url) =>
        sandboxProvider({ baseUrl, secretKey: 'sk_test_any', timeoutMs }),
      setFaults: world.setFaults,
      async advanceMs(ms) {
        await world.clock.moveTo(new Date(world.clock().getTime() + ms))
      },
      now: () => world.clock(),
      taken: world.taken,
      async dispute(reference, status, amount) {
        const body = { reference, status, ...(amount !== undefined && { amount }) }
        expect((await world.ask('POST', '/__sandbox/disputes', { body })).status).toBe(200)
      },
      async failRefund(reference) {
        expect((await world.ask('POST', `/__sandbox/refunds/${reference}/fail`)).status).toBe(200)
      },
      async lookupsCatchUp() {},
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
      storeCard: null,
      asking: null,
      webhooks: {
        newSecret,
        body: (_eventId, reference) =>
          Buffer.from(JSON.stringify({ type: 'payment.paid', data: { reference } })),
        sign: (eventId, body, secret, at) => signStandardWebhook(secret, eventId, body, at),
      },
      close: world.close,
    }
  },
)
