import { createServer } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Money } from '../../src/billing/money.ts'
import type {
  ChargeRequest,
  PaymentListing,
  Provider,
  ProviderPayment,
  RefundRequest,
} from '../../src/billing/providers/port.ts'
import { sandboxProvider } from '../../src/billing/providers/sandbox.ts'
import { signStandardWebhook } from '../../src/billing/providers/standard-webhooks.ts'
import type { Faults } from '../../src/sandbox/faults.ts'
import { newSecret, openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'

/** What a test run needs of a provider's simulator to put its adapter through the contract. */
type Simulated = {
  provider: Provider
  /** An adapter to a port where nobody listens. */
  nobody(): Promise<Provider>
  setFaults(faults: Faults): Promise<void>
  advanceMs(ms: number): Promise<void>
  now(): Date
  /** The simulator's own word on the money it took for a reference. */
  taken(reference: string): Promise<{ times: number; amount: bigint; refunded: bigint }>
  dispute(reference: string, status: 'open' | 'won' | 'lost', amount?: number): Promise<void>
  failRefund(reference: string): Promise<void>
  sign(eventId: string, body: Buffer, secret: string, at: Date): Record<string, string>
  cards: {
    good: string
    poor: string
    stolen: string
    expired: string
    silent: string
    broken: string
    refusesRefunds: string
    silentOnRefunds: string
  }
  authKey: string
  close(): Promise<void>
}

const simulators: Record<string, () => Promise<Simulated>> = {
  sandbox: async () => {
    const world: ProviderWorld = await openProviderWorld({ timeoutMs: 300 })
    return {
      provider: world.provider,
      nobody: async () =>
        sandboxProvider({ baseUrl: `http://127.0.0.1:${await deadPort()}`, secretKey: 'sk', timeoutMs: 300 }),
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
        expect((await world.ask('POST', `/admin/refunds/${reference}/fail`)).status).toBe(200)
      },
      sign: (eventId, body, secret, at) => signStandardWebhook(secret, eventId, body, at),
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
      close: world.close,
    }
  },
}

const cardShape = {
  brand: expect.any(String),
  last4: expect.stringMatching(/^\d{4}$/),
  expires: expect.any(String),
}

describe.each(Object.entries(simulators))('the adapter to %s', (_name, open) => {
  let simulated: Simulated
  let provider: Provider

  beforeAll(async () => {
    simulated = await open()
    provider = simulated.provider
  })
  afterAll(() => simulated.close())
  beforeEach(() => simulated.setFaults({}))

  const chargeOf = (more: Partial<ChargeRequest> = {}): ChargeRequest => ({
    key: newReference('pay'),
    accountId: newReference('acct'),
    amount: won(9900n),
    billingKey: simulated.cards.good,
    description: 'Pro, December',
    ...more,
  })
  const pay = async (more: Partial<ChargeRequest> = {}): Promise<ProviderPayment> => {
    const outcome = await provider.charge(chargeOf(more))
    if (outcome.kind !== 'done') throw new Error(`the charge ended ${outcome.kind}`)
    return outcome.payment
  }
  const refundOf = (
    payment: ProviderPayment,
    minor: bigint,
    more: Partial<RefundRequest> = {},
  ): RefundRequest => ({
    key: newReference('ref'),
    payment,
    amount: { minor, currency: payment.amount.currency },
    remaining: payment.amount,
    reason: 'requested_by_customer',
    ...more,
  })

  describe('charges', () => {
    test('a good card pays exactly what was asked, once, under our reference', async () => {
      const request = chargeOf()
      const outcome = await provider.charge(request)
      expect(outcome).toMatchObject({
        kind: 'done',
        payment: {
          reference: request.key,
          status: 'paid',
          amount: won(9900n),
          refunded: won(0n),
          declineCode: null,
          card: cardShape,
        },
      })
      expect(await simulated.taken(request.key)).toEqual({ times: 1, amount: 9900n, refunded: 0n })
    })

    test.each([
      ['poor', 'insufficient_funds'],
      ['stolen', 'lost_or_stolen'],
      ['expired', 'expired_card'],
    ] as const)('a card that is %s is declined as %s and nothing is taken', async (card, code) => {
      const request = chargeOf({ billingKey: simulated.cards[card] })
      expect(await provider.charge(request)).toEqual({ kind: 'declined', code })
      expect((await simulated.taken(request.key)).times).toBe(0)
    })

    test('the same key twice is one charge, and both answers name the same payment', async () => {
      const request = chargeOf()
      const [first, second] = [await provider.charge(request), await provider.charge(request)]
      expect(second).toEqual(first)
      expect((await simulated.taken(request.key)).times).toBe(1)
    })

    test('ten equal charges at once take the money once', async () => {
      const request = chargeOf()
      const outcomes = await Promise.all(Array.from({ length: 10 }, () => provider.charge(request)))
      expect(
        outcomes.map(({ kind }) => kind).filter((kind) => kind !== 'done' && kind !== 'unknown'),
      ).toEqual([])
      expect((await simulated.taken(request.key)).times).toBe(1)
    })

    test('a decline is replayed to the same key, because it is a finished answer', async () => {
      const request = chargeOf({ billingKey: simulated.cards.poor })
      await provider.charge(request)
      expect(await provider.charge(request)).toEqual({
        kind: 'declined',
        code: 'insufficient_funds',
        replayed: true,
      })
    })

    test('a key that was used for another amount says nothing about this one', async () => {
      const request = chargeOf()
      await provider.charge(request)
      expect(await provider.charge({ ...request, amount: won(1n) })).toEqual({ kind: 'key_used_otherwise' })
      expect(await simulated.taken(request.key)).toMatchObject({ times: 1, amount: 9900n })
    })

    test('once the key is forgotten, the known reference still prevents a second charge', async () => {
      const request = chargeOf()
      await provider.charge(request)
      await simulated.advanceMs(provider.guards.keyWindowMs + 1000)
      expect(await provider.charge(request)).toEqual({ kind: 'unknown' })
      expect((await simulated.taken(request.key)).times).toBe(1)
    })

    test('a provider that forgets keys and references charges twice, which only our own guards can prevent', async () => {
      const request = chargeOf()
      await provider.charge(request)
      await simulated.setFaults({ duplicate_references: true })
      await provider.charge(request)
      expect((await simulated.taken(request.key)).times).toBe(1)
      await simulated.advanceMs(provider.guards.keyWindowMs + 1000)
      await provider.charge(request)
      expect((await simulated.taken(request.key)).times).toBe(2)
    })

    test('a billing key that does not exist is refused', async () => {
      expect(await provider.charge(chargeOf({ billingKey: 'bk_nobody' }))).toEqual({
        kind: 'refused',
        code: 'billing_key_invalid',
      })
    })

    test('our own credentials refused are told apart from every card’s refusal, by whatever call', async () => {
      const request = chargeOf()
      await provider.charge(request)
      await simulated.setFaults({ refuse_credentials: true })
      const refused = { kind: 'credentials_refused' }
      expect(await provider.charge(chargeOf())).toEqual(refused)
      expect(await provider.findPayment(request.key)).toEqual(refused)
      expect(await provider.exchange('ak_test_ok', 'customer')).toEqual(refused)
      expect(await provider.describe(simulated.cards.good)).toEqual(refused)
      expect(await provider.listPayments(new Date(0), new Date(), null)).toEqual(refused)
    })

    test('a lookup tells the amount and currency that the provider names, right or wrong', async () => {
      const { reference } = await pay()
      await simulated.setFaults({ lookup_wrong_amount_rate: 1 })
      expect(await provider.findPayment(reference)).toMatchObject({ payment: { amount: won(9901n) } })
      await simulated.setFaults({ lookup_wrong_currency_rate: 1 })
      expect(await provider.findPayment(reference)).toMatchObject({
        payment: { amount: { currency: 'USD' } },
      })
    })

    test('a currency the provider does not take is refused', async () => {
      await simulated.setFaults({ currencies: ['KRW'] })
      expect(await provider.charge(chargeOf({ amount: { minor: 1900n, currency: 'USD' } }))).toEqual({
        kind: 'refused',
        code: 'currency_not_supported',
      })
    })
  })

  describe('doubt', () => {
    test('no answer in time is unknown, and the lookup finds the money', async () => {
      const request = chargeOf({ billingKey: simulated.cards.silent })
      expect(await provider.charge(request)).toEqual({ kind: 'unknown' })
      expect(await provider.findPayment(request.key)).toMatchObject({
        kind: 'found',
        payment: { status: 'paid' },
      })
    })

    test('an error of the provider is unknown, and the lookup finds nothing', async () => {
      const request = chargeOf({ billingKey: simulated.cards.broken })
      expect(await provider.charge(request)).toEqual({ kind: 'unknown' })
      expect(await provider.findPayment(request.key)).toEqual({ kind: 'none' })
    })

    test.each([
      ['an error after the money moved', { error_after_rate: 1 }, 'unknown'],
      ['silence after the money moved', { timeout_after_rate: 1 }, 'unknown'],
      ['another amount in the answer', { wrong_amount_rate: 1 }, 'mismatch'],
      ['another currency in the answer', { wrong_currency_rate: 1 }, 'mismatch'],
      ['an answer that is no JSON', { garbage_rate: 1 }, 'unknown'],
    ] as const)(
      '%s is unknown, the lookup finds the money and the same key replays it',
      async (_what, faults, kind) => {
        await simulated.setFaults(faults)
        const request = chargeOf()
        expect(await provider.charge(request)).toEqual({ kind })
        await simulated.setFaults({})
        expect(await provider.findPayment(request.key)).toMatchObject({
          kind: 'found',
          payment: { amount: won(9900n) },
        })
        expect(await provider.charge(request)).toMatchObject({ kind: 'done' })
        expect((await simulated.taken(request.key)).times).toBe(1)
      },
    )

    test.each([
      ['an error before any money moved', { error_before_rate: 1 }],
      ['silence before any money moved', { timeout_before_rate: 1 }],
      ['a provider that is down', { down: true }],
      ['a connection that is reset', { down: 'reset' }],
    ] as const)('%s is unknown, nothing was taken, and the same key pays later', async (_what, faults) => {
      await simulated.setFaults(faults)
      const request = chargeOf()
      expect(await provider.charge(request)).toEqual({ kind: 'unknown' })
      await simulated.setFaults({})
      expect(await provider.findPayment(request.key)).toEqual({ kind: 'none' })
      expect(await provider.charge(request)).toMatchObject({ kind: 'done' })
      expect((await simulated.taken(request.key)).times).toBe(1)
    })

    test('while the first request runs, its repeats learn nothing, and it still counts once', async () => {
      await simulated.setFaults({ slow_ms: 200 })
      const request = chargeOf()
      const outcomes = await Promise.all([request, request, request].map((one) => provider.charge(one)))
      expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['done', 'unknown', 'unknown'])
      expect((await simulated.taken(request.key)).times).toBe(1)
    })

    test('a lookup that fails is unknown, never none', async () => {
      const { reference } = await pay()
      await simulated.setFaults({ lookup_error_rate: 1 })
      expect(await provider.findPayment(reference)).toEqual({ kind: 'unknown' })
      await simulated.setFaults({ down: true })
      expect(await provider.findPayment('pay_of_nobody')).toEqual({ kind: 'unknown' })
    })

    test('where nobody listens nothing was sent', async () => {
      const nobody = await simulated.nobody()
      const notSent = { kind: 'not_sent' }
      expect(await nobody.charge(chargeOf())).toEqual(notSent)
      expect(await nobody.refund(refundOf(await pay(), 1n))).toEqual(notSent)
      expect(await nobody.exchange(simulated.authKey, 'customer')).toEqual(notSent)
      expect(await nobody.describe(simulated.cards.good)).toEqual(notSent)
      expect(await nobody.findPayment('pay_x')).toEqual({ kind: 'unknown' })
      expect(await nobody.listPayments(new Date(0), new Date(), null)).toEqual({ kind: 'unknown' })
    })
  })

  describe('lookups', () => {
    test('a payment is found by our reference with its refunds, and another reference finds none', async () => {
      const payment = await pay()
      const refund = refundOf(payment, 900n)
      await provider.refund(refund)
      expect(await provider.findPayment(payment.reference)).toMatchObject({
        kind: 'found',
        payment: {
          refunded: won(900n),
          refunds: [{ reference: refund.key, amount: won(900n), status: 'succeeded' }],
          card: cardShape,
        },
      })
      expect(await provider.findPayment(newReference('pay'))).toEqual({ kind: 'none' })
    })

    test('a declined charge is found as declined', async () => {
      const request = chargeOf({ billingKey: simulated.cards.poor })
      await provider.charge(request)
      expect(await provider.findPayment(request.key)).toMatchObject({
        kind: 'found',
        payment: { status: 'declined', declineCode: 'insufficient_funds' },
      })
    })

    test('the book between two instants comes oldest first, page by page, each payment once', async () => {
      await simulated.advanceMs(60_000)
      const from = simulated.now()
      const made: string[] = []
      for (let n = 0; n < 105; n++) made.push((await pay()).reference)
      await simulated.advanceMs(1_000)
      const to = simulated.now()
      await pay()
      expect(await listed(provider.listPayments, from, to)).toEqual(made)
    })
  })

  describe('refunds', () => {
    test('money goes back in parts until nothing remains', async () => {
      const payment = await pay()
      expect(await provider.refund(refundOf(payment, 4000n))).toEqual({ kind: 'done' })
      expect(await provider.refund(refundOf(payment, 5900n, { remaining: won(5900n) }))).toEqual({
        kind: 'done',
      })
      expect((await simulated.taken(payment.reference)).refunded).toBe(9900n)
    })

    test('more than what remains is refused', async () => {
      const payment = await pay()
      expect(await provider.refund(refundOf(payment, 9901n))).toEqual({ kind: 'declined' })
      expect((await simulated.taken(payment.reference)).refunded).toBe(0n)
    })

    test('the same key twice gives money back once', async () => {
      const payment = await pay()
      const refund = refundOf(payment, 1000n)
      expect(await provider.refund(refund)).toEqual({ kind: 'done' })
      expect(await provider.refund(refund)).toEqual({ kind: 'done' })
      expect((await simulated.taken(payment.reference)).refunded).toBe(1000n)
    })

    test('a refund whose key was forgotten is not given twice: the remainder we expect is gone', async () => {
      const payment = await pay()
      const refund = refundOf(payment, 1000n)
      await provider.refund(refund)
      await simulated.setFaults({ duplicate_references: true })
      await simulated.advanceMs(provider.guards.keyWindowMs + 1000)
      expect(await provider.refund(refund)).toEqual({ kind: 'remaining_differs' })
      expect((await simulated.taken(payment.reference)).refunded).toBe(1000n)
    })

    test('of many refunds at once that expect the same remainder, one is given', async () => {
      for (let round = 0; round < 5; round++) {
        const payment = await pay()
        const refunds = Array.from({ length: 12 }, () => provider.refund(refundOf(payment, 3000n)))
        expect((await Promise.all(refunds)).filter(({ kind }) => kind === 'done')).toHaveLength(1)
        expect((await simulated.taken(payment.reference)).refunded).toBe(3000n)
      }
    })

    test('a bank that does not take the money back declines the refund', async () => {
      const payment = await pay({ billingKey: simulated.cards.refusesRefunds })
      expect(await provider.refund(refundOf(payment, 100n))).toEqual({ kind: 'declined' })
      expect((await simulated.taken(payment.reference)).refunded).toBe(0n)
    })

    test('a refund without an answer is unknown, and the lookup shows it', async () => {
      const payment = await pay({ billingKey: simulated.cards.silentOnRefunds })
      const refund = refundOf(payment, 100n)
      expect(await provider.refund(refund)).toEqual({ kind: 'unknown' })
      expect(await provider.findPayment(payment.reference)).toMatchObject({
        payment: { refunds: [{ reference: refund.key, status: 'succeeded' }] },
      })
    })

    test.each([
      { error_before_rate: 1 },
      { error_after_rate: 1 },
      { timeout_before_rate: 1 },
      { timeout_after_rate: 1 },
      { wrong_amount_rate: 1 },
      { wrong_currency_rate: 1 },
      { garbage_rate: 1 },
      { down: true },
      { down: 'reset' },
    ] as const)('a refund under %o is unknown, and the same key ends it once', async (faults) => {
      const payment = await pay()
      const refund = refundOf(payment, 2500n)
      await simulated.setFaults(faults)
      const isMisnamed = 'wrong_amount_rate' in faults || 'wrong_currency_rate' in faults
      expect(await provider.refund(refund)).toEqual({ kind: isMisnamed ? 'mismatch' : 'unknown' })
      await simulated.setFaults({})
      expect(await provider.refund(refund)).toEqual({ kind: 'done' })
      expect((await simulated.taken(payment.reference)).refunded).toBe(2500n)
    })

    test('a disputed payment is not refunded, and the lookup says that it is disputed', async () => {
      const payment = await pay()
      expect(payment.dispute).toBeNull()
      await simulated.dispute(payment.reference, 'open', 4000)
      expect(await provider.refund(refundOf(payment, 100n))).toEqual({ kind: 'disputed' })
      expect(await provider.findPayment(payment.reference)).toMatchObject({
        payment: {
          dispute: { status: 'open', amount: won(4000n), openedAt: expect.any(Date), closedAt: null },
        },
      })
    })

    test('a dispute that was won leaves the payment refundable; a lost one does not', async () => {
      const [kept, gone] = [await pay(), await pay()]
      for (const { reference } of [kept, gone]) await simulated.dispute(reference, 'open')
      await simulated.dispute(kept.reference, 'won')
      await simulated.dispute(gone.reference, 'lost')
      const dispute = { amount: won(9900n), openedAt: expect.any(Date), closedAt: expect.any(Date) }
      expect(await provider.findPayment(kept.reference)).toMatchObject({
        payment: { dispute: { status: 'won', ...dispute } },
      })
      expect(await provider.findPayment(gone.reference)).toMatchObject({
        payment: { dispute: { status: 'lost', ...dispute } },
      })
      expect(await provider.refund(refundOf(kept, 100n))).toEqual({ kind: 'done' })
      expect(await provider.refund(refundOf(gone, 100n))).toEqual({ kind: 'disputed' })
    })

    test('what happens later to an old payment is listed by when it happened', async () => {
      if (!provider.listChanges) return
      const [refunded, disputed, quiet] = [await pay(), await pay(), await pay()]
      await simulated.advanceMs(40 * 86_400_000)
      const from = simulated.now()
      expect(await provider.refund(refundOf(refunded, 100n))).toEqual({ kind: 'done' })
      await simulated.dispute(disputed.reference, 'open')
      const to = new Date(simulated.now().getTime() + 1000)
      const changed = await listed(provider.listChanges, from, to)
      expect(changed).toEqual(expect.arrayContaining([refunded.reference, disputed.reference]))
      expect(changed).not.toContain(quiet.reference)
      expect(await listed(provider.listPayments, from, to)).not.toContain(refunded.reference)
    })

    test('a refund that fails later is found as failed, and its money counts as kept again', async () => {
      const payment = await pay()
      const refund = refundOf(payment, 500n)
      await provider.refund(refund)
      await simulated.failRefund(refund.key)
      expect(await provider.findPayment(payment.reference)).toMatchObject({
        payment: { refunded: won(0n), refunds: [{ reference: refund.key, status: 'failed' }] },
      })
    })

    test('a payment the provider never took cannot be refunded', async () => {
      const payment = { ...(await pay()), reference: 'pay_none', providerId: 'ch_none' }
      expect(await provider.refund(refundOf(payment, 100n))).toEqual({ kind: 'declined' })
    })
  })

  describe('billing keys', () => {
    test('a one-time key becomes a billing key that pays', async () => {
      const exchanged = await provider.exchange(simulated.authKey, 'customer')
      if (exchanged.kind !== 'done') throw new Error(`the exchange ended ${exchanged.kind}`)
      expect(await provider.describe(exchanged.billingKey)).toEqual({ kind: 'valid', card: exchanged.card })
      expect(await provider.charge(chargeOf({ billingKey: exchanged.billingKey }))).toMatchObject({
        kind: 'done',
      })
    })

    test('a one-time key that was never given out is refused', async () => {
      expect(await provider.exchange('ak_of_nobody', 'customer')).toEqual({ kind: 'refused' })
    })

    test.each(['bk_nobody', '../charges', 'x'.repeat(300), 'ключ', '__proto__'])(
      'the billing key %s is invalid',
      async (key) => {
        expect(await provider.describe(key)).toEqual({ kind: 'invalid' })
      },
    )

    test('while the provider is down, nobody says that a billing key is invalid', async () => {
      await simulated.setFaults({ down: true })
      expect(await provider.describe('bk_nobody')).toEqual({ kind: 'unknown' })
      expect(await provider.exchange('ak_of_nobody', 'customer')).toEqual({ kind: 'unknown' })
    })
  })

  describe('notifications', () => {
    const secret = newSecret()
    const body = Buffer.from('{"type":"payment.paid","data":{"reference":"pay_1"}}')
    const now = new Date()

    test('a signed notification is verified by any live secret and names its event', () => {
      const headers = simulated.sign('evt-1', body, secret, now)
      expect(provider.verifyWebhook({ headers, body, secrets: [newSecret(), secret], now })).toEqual({
        eventId: 'evt-1',
      })
    })

    test.each([
      ['another secret', (at: Date) => ({ headers: simulated.sign('evt-1', body, newSecret(), at), body })],
      [
        'another body',
        (at: Date) => ({ headers: simulated.sign('evt-1', body, secret, at), body: Buffer.from('{}') }),
      ],
      ['no signature', () => ({ headers: {}, body })],
      [
        'a time too old',
        (at: Date) => ({ headers: simulated.sign('evt-1', body, secret, minus(at, 301)), body }),
      ],
      [
        'a time to come',
        (at: Date) => ({ headers: simulated.sign('evt-1', body, secret, minus(at, -301)), body }),
      ],
    ])('a notification with %s is not authentic', (_what, made) => {
      expect(provider.verifyWebhook({ ...made(now), secrets: [secret], now })).toBeUndefined()
    })

    test('it says which payment to look up, and anything else says none', () => {
      expect(provider.readWebhook(JSON.parse(body.toString()))).toMatchObject({
        reference: 'pay_1',
        live: false,
      })
      for (const odd of [null, 7, [], {}, { data: null }, { data: { reference: 7 } }]) {
        expect(provider.readWebhook(odd)).toMatchObject({ reference: null })
      }
    })
  })
})

let made = 0

function newReference(prefix: string): string {
  return `${prefix}_${process.pid}_${Date.now().toString(36)}_${++made}`
}

function won(minor: bigint): Money {
  return { minor, currency: 'KRW' }
}

function minus(date: Date, seconds: number): Date {
  return new Date(date.getTime() - seconds * 1000)
}

async function listed(list: Provider['listPayments'], from: Date, to: Date): Promise<string[]> {
  const references: string[] = []
  let cursor: string | null = null
  do {
    const listing: PaymentListing = await list(from, to, cursor)
    if (listing.kind !== 'page') throw new Error('the provider does not list its book')
    references.push(...listing.payments.map(({ reference }) => reference))
    cursor = listing.next
  } while (cursor !== null)
  return references
}

/** A port that was free a moment ago. */
async function deadPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
