import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Money } from '../../src/billing/money.ts'
import type { PaymentLookup, Provider, ProviderPayment } from '../../src/billing/providers/port.ts'
import { portoneProvider } from '../../src/billing/providers/portone/portone.ts'
import { stripeProvider } from '../../src/billing/providers/stripe/stripe.ts'
import { tossProvider } from '../../src/billing/providers/toss/toss.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { portoneWire } from '../../src/sandbox/portone/portone-wire.ts'
import { stripeWire } from '../../src/sandbox/stripe/stripe-wire.ts'
import { tossWire } from '../../src/sandbox/toss/toss-wire.ts'
import type { Wire } from '../../src/sandbox/wire.ts'
import { openProviderWorld, type ProviderWorld } from '../sandbox/open-provider.ts'
import { size } from '../size.ts'
import type { Boundaries } from './boundaries.ts'
import { type ModelProvider, openModelProvider, profileOf } from './model-provider.ts'
import { type Random, seededRandom } from './random.ts'

// The simulation believes its model of a provider. Here model and simulator are asked the same, call by call, and must say
// the same; so that what the simulation proves is proved of the adapters too.

afterEach(() => vi.unstubAllEnvs())

type Played = {
  readonly wire: Wire
  readonly key: string
  open(baseUrl: string): Provider
  /** Somebody gives money back in the provider's own console. */
  refundByHand(world: ProviderWorld, payment: ProviderPayment, amount: number): Promise<void>
  readonly asks?: string
  /** A refund that succeeded may come back. */
  readonly bounces: boolean
}

const timeoutMs = 10_000
const raw = async (url: string, authorization: string, body: object) => {
  const headers = { authorization, 'content-type': 'application/json' }
  const { status } = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  expect(status).toBe(200)
}

const parts: readonly Played[] = [
  {
    wire: stripeWire,
    key: 'sk_test_model',
    open: (baseUrl) => stripeProvider({ baseUrl, secretKey: 'sk_test_model', timeoutMs }),
    refundByHand: (world, { reference }, amount) =>
      raw(`${world.sandbox.url}/__sandbox/refunds`, 'Bearer sk_test_model', { reference, amount }),
    asks: 'pm_card_authenticationRequired',
    bounces: true,
  },
  {
    wire: tossWire,
    key: 'test_sk_model',
    open: (baseUrl) => tossProvider({ baseUrl, secretKey: 'test_sk_model', timeoutMs }),
    refundByHand: (world, { providerId }, cancelAmount) =>
      raw(
        `${world.sandbox.url}/v1/payments/${providerId}/cancel`,
        `Basic ${Buffer.from('test_sk_model:').toString('base64')}`,
        { cancelReason: 'by hand', cancelAmount },
      ),
    bounces: false,
  },
  {
    wire: portoneWire,
    key: 'model',
    open: (baseUrl) =>
      portoneProvider({ baseUrl, apiSecret: 'model', storeId: 's', channelKey: 'c', timeoutMs }),
    refundByHand: (world, { reference }, amount) =>
      raw(`${world.sandbox.url}/payments/${reference}/cancel`, 'PortOne model', {
        reason: 'by hand',
        amount,
      }),
    bounces: true,
  },
]

const won = (minor: bigint): Money => ({ minor, currency: 'KRW' })

describe.each(parts)('the model of $wire.name', (played) => {
  test.each([1, 2, 3, 4, 5].slice(0, size(2, 5)))(
    'agrees with its simulator on each of 70 calls (seed %i)',
    async (seed) => {
      vi.stubEnv('SIMULATED_PROVIDER', played.wire.name)
      const time = { at: Date.parse('2026-03-01T00:00:00Z') }
      const clock: Clock = Object.assign(() => new Date(time.at), {
        sync: async () => {},
        async moveTo(instant: Date) {
          time.at = instant.getTime()
        },
      })
      const world = await openProviderWorld({ wire: played.wire, clock })
      try {
        const random = seededRandom(seed)
        const model = openModel(seed, time)
        const adapter = played.open(world.sandbox.url)
        expect(guardsOf(model.provider)).toEqual(guardsOf(adapter))
        const walk = openWalk(played, random, model, adapter, world, time)
        for (let step = 1; step <= 70; step++) await walk(step)
      } finally {
        await world.close()
      }
    },
  )
})

function openModel(seed: number, time: { at: number }): ModelProvider {
  const boundaries: Boundaries = {
    at: async () => {},
    spend: () => {},
    during: (call: () => Promise<unknown>) => call(),
    stall: async () => {},
  } as never
  return openModelProvider({
    random: seededRandom(seed + 1000),
    boundaries,
    now: () => time.at,
    rates: () => ({ charge: 0, refund: 0, lookup: 0 }),
    racing: () => false,
    step: () => 0,
    planned: () => undefined,
    onFault: () => {},
  })
}

function guardsOf({ guards: { keyWindowMs, namesRefunds } }: Provider) {
  return { keyWindowMs, namesRefunds }
}

/** One charge of the walk, as both sides know it. */
type Known = {
  readonly key: string
  readonly accountId: string
  readonly card: (typeof cards)[number]
  readonly minor: bigint
  readonly refunds: { key: string; minor: bigint }[]
  /** What the simulator calls it. */
  payment: ProviderPayment | null
  at: number
  over: boolean
}

const cards = ['good', 'good', 'good', 'poor', 'stolen', 'once', 'nobody', 'asks'] as const
const cardsThere: Readonly<Record<(typeof cards)[number], string>> = {
  good: 'bk_test_ok',
  poor: 'bk_test_insufficient_funds',
  stolen: 'bk_test_stolen',
  once: 'bk_test_fails_on_renewal',
  nobody: 'bk_nobody',
  asks: '',
}

function openWalk(
  played: Played,
  random: Random,
  model: ModelProvider,
  adapter: Provider,
  world: ProviderWorld,
  time: { at: number },
): (step: number) => Promise<void> {
  const { disputes, keyWindowMs } = profileOf()
  const known: Known[] = []
  let made = 0
  const name = () => `rl_${(++made).toString(16).padStart(40, '0')}`
  const staff = async (path: string, body?: object) =>
    (await world.ask('POST', path, { secret: played.key, ...(body && { body }) })).status

  const charge = async (one: Known, minor = one.minor) => {
    const request = { key: one.key, accountId: one.accountId, amount: won(minor), description: 'Pro' }
    const there = one.card === 'asks' ? played.asks! : cardsThere[one.card]
    const [said, saw] = await Promise.all([
      model.provider.charge({ ...request, billingKey: `bk_x_${one.card}` }),
      adapter.charge({ ...request, billingKey: there }),
    ])
    expect(shown(saw)).toEqual(shown(said))
    if ('payment' in saw) one.payment = saw.payment
  }
  const bookOf = ({ key }: Known) => model.book.findLast(({ reference }) => reference === key)!
  const isPaid = (one: Known) => !one.over && bookOf(one)?.status === 'paid'
  const some = (suits: (one: Known) => boolean) => {
    const suiting = known.filter(suits)
    return suiting.length === 0 ? undefined : random.pick(suiting)
  }
  const refund = async (one: Known, { key, minor }: { key: string; minor: bigint }, remaining: bigint) => {
    const request = { key, amount: won(minor), remaining: won(remaining), reason: 'requested_by_customer' }
    const payment = (of: ProviderPayment) => ({ reference: of.reference, providerId: of.providerId })
    const [said, saw] = await Promise.all([
      model.provider.refund({ ...request, payment: { reference: one.key, providerId: `prov_${one.key}` } }),
      adapter.refund({ ...request, payment: payment(one.payment!) }),
    ])
    expect(shown(saw)).toEqual(shown(said))
    if (saw.kind === 'done') one.refunds.push({ key, minor })
  }

  const moves = {
    async charge() {
      const card = random.pick(cards.filter((one) => one !== 'asks' || played.asks !== undefined))
      const accountId = random.chance(0.4) && known.length > 0 ? random.pick(known).accountId : name()
      const key = name()
      const minor = BigInt(random.between(1_000, 90_000))
      const one: Known = {
        key,
        accountId,
        card,
        minor,
        refunds: [],
        payment: null,
        at: time.at,
        over: false,
      }
      known.push(one)
      await charge(one)
    },
    async repeat() {
      const one = some(({ over, at }) => !over && time.at < at + keyWindowMs)
      if (one) await charge(one)
    },
    async useKeyOtherwise() {
      const one = some((each) => isPaid(each) && time.at < each.at + keyWindowMs)
      if (one) await charge(one, one.minor + 1n)
    },
    async repeatTooLate() {
      const one = some((each) => isPaid(each) && time.at >= each.at + keyWindowMs)
      if (!one) return
      await charge(one)
      // There may be two of them now, and which one a lookup means is nobody's promise.
      one.over = true
      const { times } = await world.taken(one.key)
      const paid = model.book.filter(({ reference, status }) => reference === one.key && status === 'paid')
      expect(times).toBe(paid.length)
    },
    async lookUp() {
      const one = some(({ over, card }) => !over && card !== 'nobody')
      if (!one) return
      const byId = random.chance(0.5) && one.payment !== null
      const [said, saw] = await Promise.all([
        model.provider.findPayment(one.key, byId ? `prov_${one.key}` : null),
        adapter.findPayment(one.key, byId ? one.payment!.providerId : null),
      ])
      expect(found(saw)).toEqual(found(said))
      if (saw.kind === 'found') one.payment = saw.payment
    },
    async refund() {
      const one = some((each) => isPaid(each) && model.leftOf(bookOf(each)) > 0n)
      if (!one) return
      const left = model.leftOf(bookOf(one))
      const minor = random.chance(0.3) ? left : BigInt(random.between(1, Number(left)))
      await refund(one, { key: name(), minor }, left)
    },
    async repeatRefund() {
      const one = some(({ over, refunds }) => !over && refunds.length > 0)
      // What a key that is forgotten does is told by no provider.
      if (!one || time.at >= one.at + keyWindowMs) return
      await refund(one, random.pick(one.refunds), model.leftOf(bookOf(one)))
    },
    /** Somebody else gave money back meanwhile, and we do not know it yet. */
    async refundAfterOneByHand() {
      const one = some((each) => isPaid(each) && bookOf(each).dispute === null)
      const left = one && model.leftOf(bookOf(one))
      if (!one || left === undefined || left < 10n) return
      const byHand = BigInt(random.between(1, Number(left) - 1))
      model.refundByHand(bookOf(one), byHand)
      await played.refundByHand(world, one.payment!, Number(byHand))
      await refund(one, { key: name(), minor: left }, left)
    },
    async bounce() {
      const one = some((each) => played.bounces && isPaid(each) && bookOf(each).refunds.length > 0)
      const back =
        one && bookOf(one).refunds.find(({ status, reference }) => status === 'succeeded' && reference)
      if (!one || !back || bookOf(one).dispute) return
      model.bounce(bookOf(one), back)
      expect(await staff(`/__sandbox/refunds/${back.reference}/fail`)).toBe(200)
      one.refunds.splice(0)
    },
    async dispute() {
      const one = some((each) => disputes && isPaid(each) && bookOf(each).dispute?.status !== 'lost')
      const charged = one && bookOf(one)
      if (!charged || model.leftOf(charged) === 0n) return
      const status = charged.dispute?.status === 'open' ? random.pick(['won', 'lost'] as const) : 'open'
      if (charged.dispute?.status === 'won') return
      if (status === 'open') model.dispute(charged)
      else model.decideDispute(charged, status)
      expect(await staff('/__sandbox/disputes', { reference: one!.key, status })).toBe(200)
    },
    async confirm() {
      const one = some((each) => !each.over && bookOf(each)?.status === 'awaiting')
      if (!one) return
      model.confirm(bookOf(one))
      const body = { reference: one.key, result: 'succeeded' }
      expect(await staff('/__sandbox/authentications', body)).toBe(200)
    },
    async cancel() {
      const one = some(
        (each) => !each.over && each.payment !== null && ['awaiting', 'paid'].includes(bookOf(each)?.status),
      )
      if (!one) return
      const [said, saw] = await Promise.all([
        model.provider.cancelPayment(one.key, `prov_${one.key}`),
        adapter.cancelPayment(one.key, one.payment!.providerId),
      ])
      expect(saw).toEqual(said)
    },
    async wait() {
      // Long enough for every lookup to catch up, and sometimes for every key to be forgotten.
      time.at += random.chance(0.2) ? keyWindowMs : 300_000
    },
  }
  const weights = {
    charge: 16,
    repeat: 8,
    useKeyOtherwise: 4,
    repeatTooLate: 3,
    lookUp: 14,
    refund: 8,
    repeatRefund: 5,
    refundAfterOneByHand: 4,
    bounce: 3,
    dispute: 5,
    confirm: 4,
    cancel: 3,
    wait: 5,
  } as const
  return async (step) => {
    const move = random.weighted(weights)
    await moves[move]().catch((error: Error) => {
      error.message = `call ${step}, ${move}: ${error.message}`
      throw error
    })
  }
}

/** What billing acts on: the outcome, why not, and whether it was said before. */
function shown(outcome: { kind: string; code?: string; replayed?: true }) {
  const { kind, code, replayed } = outcome
  return { kind, code, replayed }
}

function found(lookup: PaymentLookup) {
  if (lookup.kind !== 'found') return { kind: lookup.kind }
  const { status, declineCode, amount, refunded, refunds, dispute, disputesHiddenSince } = lookup.payment
  const inOrder = refunds
    .map((refund) => `${refund.reference} ${refund.amount.minor} ${refund.status}`)
    .sort()
  return {
    kind: lookup.kind,
    status,
    declineCode,
    amount,
    refunded,
    refunds: inOrder,
    dispute: dispute && {
      status: dispute.status,
      amount: dispute.amount,
      alreadyLost: dispute.alreadyLost,
    },
    disputesHiddenSince,
  }
}
