import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { tossProvider } from '../../src/billing/providers/toss/toss.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import { openProviderWorld } from '../sandbox/open-provider.ts'
import { providerContract } from './contract-suite.ts'

const secretKey = 'test_sk_any'

providerContract(
  'Toss Payments',
  {
    forgottenKey: 'unknown',
    // Nothing documented tells a replay from a first answer.
    marksReplays: false,
    // The key does not look at the body: what comes back is about another amount.
    reusedKey: 'mismatch',
    replaysErrors: false,
    twinsOfRunning: 'unknown',
    expectsRemainder: true,
    disputes: false,
    refundsFailLater: true,
    describesBillingKeys: false,
    masksLastDigit: true,
    storesCards: true,
    asksCustomers: false,
    endOfNobody: 'canceled',
  },
  async () => {
    const world = await openProviderWorld({ wire: tossWire })
    const adapter = (timeoutMs: number, baseUrl = world.sandbox.url) =>
      tossProvider({ baseUrl, secretKey, timeoutMs })
    return {
      adapter,
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
        const customerKey = `customer_${randomBytes(8).toString('hex')}`
        const stored = await adapter(60_000).exchange('ak_test_ok', customerKey)
        if (stored.kind !== 'done') throw new Error(`the exchange ended ${stored.kind}`)
        return { billingKey: stored.billingKey, customerKey }
      },
      asking: null,
      webhooks: null,
      close: world.close,
    }
  },
)
