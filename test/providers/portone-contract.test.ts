import { expect } from 'vitest'
import { portoneProvider } from '../../src/billing/providers/portone/portone.ts'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { newSecret, openProviderWorld } from '../sandbox/open-provider.ts'
import { signStandardWebhook } from '../sign-webhook.ts'
import { providerContract } from './contract-suite.ts'

const keys = { apiSecret: 'any', storeId: 'store-1', channelKey: 'channel-key-1' }

providerContract(
  'PortOne',
  {
    forgottenKey: 'unknown',
    // Nothing documented tells a replay from a first answer.
    marksReplays: false,
    // Whether a key looks at the body is not documented; here it does not, and the record names another amount.
    reusedKey: 'mismatch',
    replaysErrors: false,
    twinsOfRunning: 'unknown',
    expectsRemainder: true,
    disputes: true,
    refundsFailLater: true,
    describesBillingKeys: true,
    disputesAreWhole: true,
    storesCards: true,
    asksCustomers: false,
    endOfNobody: 'canceled',
  },
  async () => {
    const world = await openProviderWorld({ wire: portoneWire })
    return {
      adapter: (timeoutMs, baseUrl = world.sandbox.url) => portoneProvider({ ...keys, baseUrl, timeoutMs }),
      setFaults: world.setFaults,
      async advanceMs(ms) {
        await world.clock.moveTo(new Date(world.clock().getTime() + ms))
      },
      now: () => world.clock(),
      taken: world.taken,
      async dispute(reference, status) {
        const { status: answered } = await world.ask('POST', '/__sandbox/disputes', {
          body: { reference, status },
        })
        expect(answered).toBe(200)
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
      async storeCard() {
        const body = { card: 'bk_test_ok', issue_id: 'setup_1' }
        const issued = await world.ask('POST', '/__sandbox/billing-keys', { body })
        expect(issued.status).toBe(200)
        return { billingKey: issued.body.billing_key, customerKey: null }
      },
      asking: null,
      webhooks: {
        newSecret,
        body: (_eventId, reference) =>
          Buffer.from(JSON.stringify({ type: 'Transaction.Paid', data: { paymentId: reference } })),
        sign: (eventId, body, secret, at) => signStandardWebhook(secret, eventId, body, at),
      },
      close: world.close,
    }
  },
)
