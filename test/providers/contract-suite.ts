import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Money } from '../../src/billing/money.ts'
import type {
  ChargeOutcome,
  ChargeRequest,
  PaymentListing,
  Provider,
  ProviderPayment,
  RefundRequest,
  SetUpRequest,
} from '../../src/billing/providers/port.ts'
import type { Faults } from '../../src/sandbox/faults.ts'
import { deadPort } from './dead-port.ts'

/** What a test run needs of a provider's simulator to put its adapter through the contract. */
export type Simulated = {
  /** An adapter to the simulator, or to another address, that waits so long for an answer. */
  adapter(timeoutMs: number, baseUrl?: string): Provider
  setFaults(faults: Faults): Promise<void>
  advanceMs(ms: number): Promise<void>
  now(): Date
  /** The simulator's own word on the money it took for a reference. */
  taken(reference: string): Promise<{ times: number; amount: bigint; refunded: bigint }>
  dispute(reference: string, status: 'open' | 'won' | 'lost', amount?: number): Promise<void>
  /** A refund that had succeeded comes back. */
  failRefund(reference: string): Promise<void>
  /** Has lookups by reference know all that happened until now; nothing to do where they always do. */
  lookupsCatchUp(): Promise<void>
  cards: {
    good: string
    poor: string
    stolen: string
    expired: string
    silent: string
    broken: string
    /** Undefined: no card of this simulator refuses its money back, or never answers about it. */
    refusesRefunds: string | undefined
    silentOnRefunds: string | undefined
  }
  authKey: string
  /** A card that was collected as the documents say, stored at the provider and nobody else's; null: none is stored there. */
  storeCard: (() => Promise<{ billingKey: string; customerKey: string | null }>) | null
  /** A card whose bank wants its customer, and what they do in the browser. False: nobody awaits them. Null: none does. */
  asking: { card: string; confirm(reference: string): Promise<boolean> } | null
  /** How its notifications look; null where they carry no signature. */
  webhooks: {
    newSecret(): string
    /** A notification about the payment of a reference. */
    body(eventId: string, reference: string): Buffer
    sign(eventId: string, body: Buffer, secret: string, at: Date): Record<string, string>
  } | null
  close(): Promise<void>
}

/** In what providers differ by documentation. Whatever is not named here is the same for all of them. */
export type Traits = {
  /** What a known reference does once its key is forgotten. */
  forgottenKey: 'unknown' | 'charged_again'
  /** Whether a first answer given again says so. */
  marksReplays: boolean
  /** What a charge of another amount under a known key comes to. */
  reusedKey: ChargeOutcome['kind']
  /** Whether an error after the money moved is kept as the key's answer, so that only a lookup finds the money. */
  replaysErrors: boolean
  /** Whether a key that is still at work says so, or the repeat waits for the first answer. */
  twinsOfRunning: 'unknown' | 'done'
  /** Whether a refund can be tied to the remainder we expect, so that a doubled one is refused. */
  expectsRemainder: boolean
  /** Whether disputes are known to this provider. */
  disputes: boolean
  /** Whether a refund that succeeded can fail later. */
  refundsFailLater: boolean
  /** What a billing key that does not exist comes to, where it can be asked about at all. */
  describesBillingKeys: boolean
  /** Whether the very last digit of a card is hidden too. */
  masksLastDigit?: true
  /** Whether a dispute is about all that remains, because its amount is not named. */
  disputesAreWhole?: true
  /** Whether cards are stored there, and can be deleted. */
  storesCards: boolean
  /** Whether a charge may wait for its customer. */
  asksCustomers: boolean
  /** What ending a payment comes to that it knows nothing of. */
  endOfNobody: 'canceled' | 'unknown'
}

/** The promise of every adapter, in executable form. `open` starts a simulator of its own for this run. */
export function providerContract(name: string, traits: Traits, open: () => Promise<Simulated>): void {
  describe(`the adapter to ${name}`, () => contractOf(traits, open))
}

// Only silence may end in a time limit: a machine can stand still for seconds.
const patientMs = 60_000
const hastyMs = 500
/** For what only a time limit can show: if the machine stands still that long, the request never left. */
const timed = { retry: 3 }

function contractOf(traits: Traits, open: () => Promise<Simulated>): void {
  let simulated: Simulated
  let provider: Provider
  /** Gives up soon, for the tests of silence. */
  let hasty: Provider
  const cardShape = {
    brand: expect.any(String),
    last4: expect.stringMatching(traits.masksLastDigit ? /^\d{3}\*$/ : /^\d{4}$/),
    expires: expect.any(String),
  }

  beforeAll(async () => {
    simulated = await open()
    provider = simulated.adapter(patientMs)
    hasty = simulated.adapter(hastyMs)
  })
  afterAll(() => simulated.close())
  beforeEach(() => simulated.setFaults({}))

  const chargeOf = (more: Partial<ChargeRequest> = {}): ChargeRequest => ({
    key: newReference(),
    accountId: newReference(),
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
  /** A lookup by reference, once lookups know all that happened until now. */
  const find = async (reference: string) => {
    await simulated.lookupsCatchUp()
    return provider.findPayment(reference)
  }
  const refundOf = (
    payment: ProviderPayment,
    minor: bigint,
    more: Partial<RefundRequest> = {},
  ): RefundRequest => ({
    key: newReference(),
    payment,
    amount: { minor, currency: payment.amount.currency },
    remaining: payment.amount,
    reason: 'requested_by_customer',
    ...more,
  })

  /** What a refund is called on the provider's record, where it carries our name for it. */
  const nameOf = ({ key }: RefundRequest) => (provider.guards.namesRefunds ? key : null)

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
      expect(await provider.charge(request)).toMatchObject({ kind: 'declined', code })
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
      expect(await provider.charge(request)).toMatchObject({
        kind: 'declined',
        code: 'insufficient_funds',
        ...(traits.marksReplays && { replayed: true }),
      })
    })

    test('a key that was used for another amount says nothing about this one', async () => {
      const request = chargeOf()
      await provider.charge(request)
      expect(await provider.charge({ ...request, amount: won(1000n) })).toEqual({ kind: traits.reusedKey })
      expect(await simulated.taken(request.key)).toMatchObject({ times: 1, amount: 9900n })
    })

    test.runIf(traits.forgottenKey === 'unknown')(
      'once the key is forgotten, the known reference still prevents a second charge',
      async () => {
        const request = chargeOf()
        await provider.charge(request)
        await simulated.advanceMs(provider.guards.keyWindowMs + 1000)
        expect(await provider.charge(request)).toEqual({ kind: 'unknown' })
        expect((await simulated.taken(request.key)).times).toBe(1)
      },
    )

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
      expect(await provider.charge(chargeOf({ billingKey: 'bk_nobody' }))).toMatchObject({
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
      expect(await find(request.key)).toEqual(refused)
      expect(await provider.exchange(simulated.authKey, 'customer')).toEqual(refused)
      if (traits.describesBillingKeys) expect(await provider.describe(simulated.cards.good)).toEqual(refused)
      if (traits.storesCards) expect(await provider.forget(simulated.cards.good)).toEqual(refused)
      expect(await provider.cancelPayment(request.key, 'pi_nobody')).toEqual(refused)
      expect(await provider.listPayments(new Date(0), new Date(), null)).toEqual(refused)
    })

    test('a lookup tells the amount and currency that the provider names, right or wrong', async () => {
      const { reference } = await pay()
      await simulated.setFaults({ lookup_wrong_amount_rate: 1 })
      expect(await find(reference)).toMatchObject({ payment: { amount: won(9901n) } })
      await simulated.setFaults({ lookup_wrong_currency_rate: 1 })
      expect(await find(reference)).toMatchObject({
        payment: { amount: { currency: 'USD' } },
      })
    })

    test('a currency the provider does not take is refused', async () => {
      await simulated.setFaults({ currencies: ['KRW'] })
      expect(await provider.charge(chargeOf({ amount: { minor: 1900n, currency: 'USD' } }))).toMatchObject({
        kind: 'refused',
        code: 'currency_not_supported',
      })
    })
  })

  describe('doubt', () => {
    test('no answer in time is unknown, and the lookup finds the money', timed, async () => {
      const request = chargeOf({ billingKey: simulated.cards.silent })
      expect(await hasty.charge(request)).toEqual({ kind: 'unknown' })
      expect(await find(request.key)).toMatchObject({
        kind: 'found',
        payment: { status: 'paid' },
      })
    })

    test('an error of the provider is unknown, and the lookup finds nothing', async () => {
      const request = chargeOf({ billingKey: simulated.cards.broken })
      expect(await provider.charge(request)).toEqual({ kind: 'unknown' })
      expect(await find(request.key)).toEqual({ kind: 'none' })
    })

    test.each([
      ['an error after the money moved', { error_after_rate: 1 }, 'unknown'],
      ['silence after the money moved', { timeout_after_rate: 1 }, 'unknown'],
      ['another amount in the answer', { wrong_amount_rate: 1 }, 'mismatch'],
      ['another currency in the answer', { wrong_currency_rate: 1 }, 'mismatch'],
      ['an answer that is no JSON', { garbage_rate: 1 }, 'unknown'],
    ] as const)(
      '%s is unknown, the lookup finds the money and the same key replays it',
      timed,
      async (_what, faults, kind) => {
        await simulated.setFaults(faults)
        const request = chargeOf()
        const sender = 'timeout_after_rate' in faults ? hasty : provider
        expect(await sender.charge(request)).toEqual({ kind })
        await simulated.setFaults({})
        expect(await find(request.key)).toMatchObject({
          kind: 'found',
          payment: { amount: won(9900n) },
        })
        const isKept = traits.replaysErrors && 'error_after_rate' in faults
        expect(await provider.charge(request)).toMatchObject({ kind: isKept ? 'unknown' : 'done' })
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
      const sender = 'timeout_before_rate' in faults ? hasty : provider
      expect(await sender.charge(request)).toEqual({ kind: 'unknown' })
      await simulated.setFaults({})
      expect(await find(request.key)).toEqual({ kind: 'none' })
      expect(await provider.charge(request)).toMatchObject({ kind: 'done' })
      expect((await simulated.taken(request.key)).times).toBe(1)
    })

    test('while the first request runs, its repeats learn nothing, and it still counts once', async () => {
      // Long enough that even on a loaded machine the repeats arrive while it runs.
      await simulated.setFaults({ slow_ms: 2_000 })
      const request = chargeOf()
      const outcomes = await Promise.all([request, request, request].map((one) => provider.charge(one)))
      const twins = traits.twinsOfRunning
      expect(outcomes.map(({ kind }) => kind).sort()).toEqual(['done', twins, twins])
      expect((await simulated.taken(request.key)).times).toBe(1)
    })

    test('a lookup that fails is unknown, never none', async () => {
      const { reference } = await pay()
      await simulated.setFaults({ lookup_error_rate: 1 })
      expect(await find(reference)).toEqual({ kind: 'unknown' })
      await simulated.setFaults({ down: true })
      expect(await find('pay_of_nobody')).toEqual({ kind: 'unknown' })
    })

    test('where nobody listens nothing was sent', async () => {
      const nobody = simulated.adapter(patientMs, `http://127.0.0.1:${await deadPort()}`)
      const notSent = { kind: 'not_sent' }
      expect(await nobody.charge(chargeOf())).toEqual(notSent)
      expect(await nobody.refund(refundOf(await pay(), 1n))).toEqual(notSent)
      expect(await nobody.exchange(simulated.authKey, 'customer')).toEqual(notSent)
      if (traits.describesBillingKeys) expect(await nobody.describe(simulated.cards.good)).toEqual(notSent)
      if (traits.storesCards) expect(await nobody.forget(simulated.cards.good)).toEqual(notSent)
      expect(['not_sent', 'unknown']).toContain((await nobody.cancelPayment('pay_x', 'pi_x')).kind)
      expect(await nobody.findPayment('pay_x')).toEqual({ kind: 'unknown' })
      expect(await nobody.listPayments(new Date(0), new Date(), null)).toEqual({ kind: 'unknown' })
    })
  })

  describe('lookups', () => {
    test('a payment is found by our reference with its refunds, and another reference finds none', async () => {
      const payment = await pay()
      const refund = refundOf(payment, 900n)
      await provider.refund(refund)
      expect(await find(payment.reference)).toMatchObject({
        kind: 'found',
        payment: {
          refunded: won(900n),
          refunds: [{ reference: nameOf(refund), amount: won(900n), status: 'succeeded' }],
          card: cardShape,
        },
      })
      expect(await find(newReference())).toEqual({ kind: 'none' })
    })

    test('a declined charge is found as declined', async () => {
      const request = chargeOf({ billingKey: simulated.cards.poor })
      await provider.charge(request)
      expect(await find(request.key)).toMatchObject({
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
      // Some providers count in seconds, and then give the whole of the last one.
      await simulated.advanceMs(2_000)
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
      if (!traits.expectsRemainder) return
      const payment = await pay()
      const refund = refundOf(payment, 1000n)
      await provider.refund(refund)
      await simulated.setFaults({ duplicate_references: true })
      await simulated.advanceMs(provider.guards.keyWindowMs + 1000)
      expect(await provider.refund(refund)).toEqual({ kind: 'remaining_differs' })
      expect((await simulated.taken(payment.reference)).refunded).toBe(1000n)
    })

    test('of many refunds at once that expect the same remainder, one is given', async () => {
      if (!traits.expectsRemainder) return
      for (let round = 0; round < 5; round++) {
        const payment = await pay()
        const refunds = Array.from({ length: 12 }, () => provider.refund(refundOf(payment, 3000n)))
        expect((await Promise.all(refunds)).filter(({ kind }) => kind === 'done')).toHaveLength(1)
        expect((await simulated.taken(payment.reference)).refunded).toBe(3000n)
      }
    })

    test('a bank that does not take the money back declines the refund', async () => {
      if (simulated.cards.refusesRefunds === undefined) return
      const payment = await pay({ billingKey: simulated.cards.refusesRefunds })
      expect(await provider.refund(refundOf(payment, 100n))).toEqual({ kind: 'declined' })
      expect((await simulated.taken(payment.reference)).refunded).toBe(0n)
    })

    test('a refund without an answer is unknown, and the lookup shows it', timed, async () => {
      if (simulated.cards.silentOnRefunds === undefined) return
      const payment = await pay({ billingKey: simulated.cards.silentOnRefunds })
      const refund = refundOf(payment, 100n)
      expect(await hasty.refund(refund)).toEqual({ kind: 'unknown' })
      expect(await find(payment.reference)).toMatchObject({
        payment: { refunds: [{ reference: nameOf(refund), status: 'succeeded' }] },
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
      const isSilent = 'timeout_before_rate' in faults || 'timeout_after_rate' in faults
      expect(await (isSilent ? hasty : provider).refund(refund)).toEqual({
        kind: isMisnamed ? 'mismatch' : 'unknown',
      })
      await simulated.setFaults({})
      const isKept = traits.replaysErrors && 'error_after_rate' in faults
      expect(await provider.refund(refund)).toEqual({ kind: isKept ? 'unknown' : 'done' })
      expect((await simulated.taken(payment.reference)).refunded).toBe(2500n)
    })

    test.runIf(traits.disputes)(
      'a disputed payment is not refunded, and the lookup says that it is disputed',
      async () => {
        const payment = await pay()
        expect(payment.dispute).toBeNull()
        await simulated.dispute(payment.reference, 'open', 4000)
        expect(await provider.refund(refundOf(payment, 100n))).toEqual({ kind: 'disputed' })
        expect(await find(payment.reference)).toMatchObject({
          payment: {
            dispute: {
              status: 'open',
              amount: won(traits.disputesAreWhole ? 9900n : 4000n),
              openedAt: expect.any(Date),
              closedAt: null,
            },
          },
        })
      },
    )

    test.runIf(traits.disputes)(
      'a dispute that was won leaves the payment refundable; a lost one does not',
      async () => {
        const [kept, gone] = [await pay(), await pay()]
        for (const { reference } of [kept, gone]) await simulated.dispute(reference, 'open')
        await simulated.dispute(kept.reference, 'won')
        await simulated.dispute(gone.reference, 'lost')
        const dispute = { amount: won(9900n), openedAt: expect.any(Date), closedAt: expect.any(Date) }
        expect(await find(kept.reference)).toMatchObject({
          payment: { dispute: { status: 'won', ...dispute } },
        })
        expect(await find(gone.reference)).toMatchObject({
          payment: { dispute: { status: 'lost', ...dispute } },
        })
        expect(await provider.refund(refundOf(kept, 100n))).toEqual({ kind: 'done' })
        expect(await provider.refund(refundOf(gone, 100n))).toEqual({ kind: 'disputed' })
      },
    )

    test('what happens later to an old payment is listed by when it happened', async () => {
      if (!provider.listChanges) return
      const [refunded, disputed, quiet] = [await pay(), await pay(), await pay()]
      await simulated.advanceMs(40 * 86_400_000)
      const from = simulated.now()
      expect(await provider.refund(refundOf(refunded, 100n))).toEqual({ kind: 'done' })
      if (traits.disputes) await simulated.dispute(disputed.reference, 'open')
      else await provider.refund(refundOf(disputed, 100n))
      const to = new Date(simulated.now().getTime() + 1000)
      const changed = await listed(provider.listChanges, from, to)
      expect(changed).toEqual(expect.arrayContaining([refunded.reference, disputed.reference]))
      expect(changed).not.toContain(quiet.reference)
      expect(await listed(provider.listPayments, from, to)).not.toContain(refunded.reference)
    })

    test.runIf(traits.refundsFailLater)(
      'a refund that fails later is found as failed, and its money counts as kept again',
      async () => {
        const payment = await pay()
        const refund = refundOf(payment, 500n)
        await provider.refund(refund)
        await simulated.failRefund(refund.key)
        expect(await find(payment.reference)).toMatchObject({
          payment: { refunded: won(0n), refunds: [{ reference: nameOf(refund), status: 'failed' }] },
        })
      },
    )

    test('a payment the provider never took cannot be refunded', async () => {
      const payment = { ...(await pay()), reference: 'pay_none', providerId: 'none_of_ours' }
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

    test
      .runIf(traits.describesBillingKeys)
      .each(['bk_nobody', '../charges', 'x'.repeat(300), 'ключ', '__proto__'])(
      'the billing key %s is invalid',
      async (key) => {
        expect(await provider.describe(key)).toEqual({ kind: 'invalid' })
      },
    )

    test('while the provider is down, nobody says that a billing key is invalid', async () => {
      await simulated.setFaults({ down: true })
      if (traits.describesBillingKeys)
        expect(await provider.describe('bk_nobody')).toEqual({ kind: 'unknown' })
      expect(await provider.exchange('ak_of_nobody', 'customer')).toEqual({ kind: 'unknown' })
    })
  })

  describe('stored cards', () => {
    const setUpOf = (customerKey: string | null) => ({
      setupId: newReference(),
      accountId: newReference(),
      customerKey,
      email: 'kim@example.com',
    })
    const setUp = async (request: SetUpRequest) => {
      const outcome = await provider.setUp(request)
      if (outcome.kind !== 'done') throw new Error(`the setup ended ${outcome.kind}`)
      return outcome
    }

    test('a setup whose answer was lost is the same setup, and the customer of an earlier one stays', async () => {
      const request = setUpOf(null)
      const first = await setUp(request)
      expect(Object.keys(first.client).length).toBeGreaterThan(0)
      expect(await setUp(request)).toEqual(first)
      const later = await setUp(setUpOf(first.customerKey))
      expect(later.customerKey).toBe(first.customerKey)
      const another = await setUp(setUpOf(null))
      if (first.customerKey !== null) expect(another.customerKey).not.toBe(first.customerKey)
    })

    test.runIf(traits.storesCards)(
      'a stored card pays until it is deleted, and deleting it once more is done too',
      async () => {
        const { billingKey, customerKey } = await simulated.storeCard!()
        expect(provider.customerOf(billingKey)).toBe(customerKey)
        expect(await provider.charge(chargeOf({ billingKey }))).toMatchObject({ kind: 'done' })
        expect(await provider.forget(billingKey)).toEqual({ kind: 'done' })
        expect(await provider.forget(billingKey)).toEqual({ kind: 'done' })
        const request = chargeOf({ billingKey })
        expect(await provider.charge(request)).toMatchObject({ kind: 'refused', code: 'billing_key_invalid' })
        expect((await simulated.taken(request.key)).times).toBe(0)
        if (traits.describesBillingKeys)
          expect(await provider.describe(billingKey)).toEqual({ kind: 'invalid' })
      },
    )

    test('a card that nobody stored counts as deleted', async () => {
      for (const billingKey of ['bk_nobody', '', '.', '../charges', 'x'.repeat(3000)])
        expect(await provider.forget(billingKey)).toEqual({ kind: 'done' })
    })

    test.runIf(traits.storesCards)(
      'a card is not deleted while the provider does not answer, and pays on',
      async () => {
        const { billingKey } = await simulated.storeCard!()
        for (const down of [true, 'reset'] as const) {
          await simulated.setFaults({ down })
          expect(await provider.forget(billingKey)).toEqual({ kind: 'unknown' })
        }
        await simulated.setFaults({})
        expect(await provider.charge(chargeOf({ billingKey }))).toMatchObject({ kind: 'done' })
      },
    )

    test('a text that is no billing key names no customer', () => {
      for (const text of ['', ':', '::', 'bk_test_ok', '__proto__', '\u0000'])
        expect(provider.customerOf(text)).toBeNull()
    })
  })

  describe('the end of a payment', () => {
    test('what is paid stays paid', async () => {
      const { reference, providerId } = await pay()
      expect(await provider.cancelPayment(reference, providerId)).toEqual({ kind: 'paid' })
      expect(await find(reference)).toMatchObject({ payment: { status: 'paid', refunded: won(0n) } })
    })

    test('what the provider knows nothing of takes nothing, or is not known to', async () => {
      expect(await provider.cancelPayment(newReference(), 'pi_nobody')).toEqual({ kind: traits.endOfNobody })
    })

    test('while the provider is down nobody says that a payment has ended', async () => {
      const { reference, providerId } = await pay()
      await simulated.setFaults({ down: true })
      expect(await provider.cancelPayment(reference, providerId)).toEqual({ kind: 'unknown' })
    })
  })

  describe.runIf(traits.asksCustomers)('a charge that waits for its customer', () => {
    const waiting = async () => {
      const request = chargeOf({ billingKey: simulated.asking!.card })
      const outcome = await provider.charge(request)
      if (outcome.kind !== 'needs_customer') throw new Error(`the charge ended ${outcome.kind}`)
      return { request, payment: outcome.payment }
    }

    test('takes nothing, says what the customer has to do, and waits on at a repeat and a lookup', async () => {
      const { request, payment } = await waiting()
      const nextAction = {
        type: 'authenticate',
        clientSecret: expect.any(String),
        url: null,
        expiresAt: expect.any(Date),
      }
      const awaited = { reference: request.key, status: 'awaiting', amount: won(9900n), nextAction }
      expect(payment).toMatchObject(awaited)
      expect(await provider.charge(request)).toMatchObject({ kind: 'needs_customer', payment: awaited })
      expect(await find(request.key)).toMatchObject({ kind: 'found', payment: awaited })
      expect((await simulated.taken(request.key)).times).toBe(0)
    })

    test('is paid once its customer confirms, and can be ended no more', async () => {
      const { payment } = await waiting()
      expect(await simulated.asking!.confirm(payment.reference)).toBe(true)
      expect(await find(payment.reference)).toMatchObject({ payment: { status: 'paid', nextAction: null } })
      expect(await provider.cancelPayment(payment.reference, payment.providerId)).toEqual({ kind: 'paid' })
      expect((await simulated.taken(payment.reference)).times).toBe(1)
    })

    test('is over once it was ended, as often as that is asked, and confirming it takes nothing', async () => {
      const { payment } = await waiting()
      for (const _time of ['first', 'again'])
        expect(await provider.cancelPayment(payment.reference, payment.providerId)).toEqual({
          kind: 'canceled',
        })
      expect(await simulated.asking!.confirm(payment.reference)).toBe(false)
      expect(await find(payment.reference)).toMatchObject({ payment: { status: 'canceled' } })
      expect((await simulated.taken(payment.reference)).times).toBe(0)
    })
  })

  describe('the check', () => {
    const lines = async (of = provider) => {
      const told = await of.check(simulated.now())
      return Object.fromEntries(told.map(({ subject, ok }) => [subject, ok]))
    }

    test('passes line by line where all is well', async () => {
      expect(await lines()).toMatchObject({ credentials: true, clock: true, listing: true })
    })

    test('says which line is not right, and never throws', async () => {
      await simulated.setFaults({ refuse_credentials: true })
      expect(await lines()).toMatchObject({ credentials: false })
      await simulated.setFaults({ down: true })
      expect(await lines()).toMatchObject({ credentials: false })
      await simulated.setFaults({})
      const nobody = simulated.adapter(patientMs, `http://127.0.0.1:${await deadPort()}`)
      expect(await lines(nobody)).toMatchObject({ credentials: false })
    })
  })

  describe('notifications', () => {
    const now = new Date()

    const signedBy = (secret: string, at = now) => {
      const { body: bodyOf, sign } = simulated.webhooks!
      const body = bodyOf('evt-1', newReference())
      return { headers: sign('evt-1', body, secret, at), body }
    }

    const parsed = ({ body }: { body: Buffer }) => JSON.parse(body.toString())

    test('a signed notification is verified by any live secret and names its event', () => {
      if (!simulated.webhooks) return
      const { newSecret } = simulated.webhooks
      const secret = newSecret()
      const delivery = { ...signedBy(secret), secrets: [newSecret(), secret], now }
      const { message = parsed(delivery), ...verified } = provider.verifyWebhook(delivery)!
      expect(verified).toEqual({ eventId: 'evt-1' })
      expect(message).toEqual(parsed(delivery))
    })

    test.each([
      ['another secret', () => signedBy(simulated.webhooks!.newSecret())],
      ['another body', (secret: string) => ({ ...signedBy(secret), body: Buffer.from('{}') })],
      ['no signature', (secret: string) => ({ ...signedBy(secret), headers: {} })],
      ['a time too old', (secret: string) => signedBy(secret, minus(now, 301))],
      ['a time to come', (secret: string) => signedBy(secret, minus(now, -301))],
    ])('a notification with %s is not authentic', (_what, made) => {
      if (!simulated.webhooks) return
      const secret = simulated.webhooks.newSecret()
      expect(provider.verifyWebhook({ ...made(secret), secrets: [secret], now })).toBeUndefined()
    })

    test('it says which payment to look up, and anything else says none', () => {
      if (simulated.webhooks) {
        const reference = newReference()
        const told = JSON.parse(simulated.webhooks.body('evt-1', reference).toString())
        expect(provider.readWebhook(told)).toMatchObject({ reference })
        expect(provider.readWebhook(told).live).not.toBe(true)
      }
      for (const odd of [null, 7, [], {}, { data: null }, { data: { reference: 7 } }]) {
        expect(provider.readWebhook(odd)).toMatchObject({ reference: null })
      }
    })
  })
}

function newReference(): string {
  return `rl_${randomBytes(20).toString('hex')}`
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
