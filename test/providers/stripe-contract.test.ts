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
    storesCards: true,
    asksCustomers: true,
    endOfNobody: 'unknown',
  },
  async () => {
    const world = await openProviderWorld({ wire: stripeWire })
    const secretKey = 'sk_test_contract'
    const advanceMs = async (ms: number) => world.clock.moveTo(new Date(world.clock().getTime() + ms))
    const adapter = (timeoutMs: number, baseUrl = world.sandbox.url) =>
      stripeProvider({ baseUrl, secretKey, timeoutMs })
    /** What Stripe's script does in the customer's browser. */
    const confirmSetup = async (setup: string) => {
      const headers = {
        authorization: `Bearer ${secretKey}`,
        'content-type': 'application/x-www-form-urlencoded',
      }
      const url = `${world.sandbox.url}/v1/setup_intents/${setup}/confirm`
      const answer = await fetch(url, { method: 'POST', headers, body: 'payment_method=pm_card_visa' })
      expect(answer.status).toBe(200)
    }
    return {
      adapter,
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
      async storeCard() {
        const provider = adapter(60_000)
        const account = { accountId: 'acct', customerKey: null, email: null }
        const setUp = await provider.setUp({ ...account, setupId: randomBytes(8).toString('hex') })
        if (setUp.kind !== 'done') throw new Error(`the setup ended ${setUp.kind}`)
        const [id] = setUp.client.client_secret!.split('_secret_')
        await confirmSetup(id!)
        const stored = await provider.exchange(id!, setUp.customerKey!)
        if (stored.kind !== 'done') throw new Error(`the exchange ended ${stored.kind}`)
        return { billingKey: stored.billingKey, customerKey: setUp.customerKey }
      },
      asking: {
        card: 'pm_card_authenticationRequired',
        async confirm(reference) {
          const body = { reference, result: 'succeeded' }
          return (await world.ask('POST', '/__sandbox/authentications', { body })).status === 200
        },
      },
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
