import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type CircuitState,
  type GuardOptions,
  guardProvider,
  type ProviderUse,
  providerUses,
} from './guarded-provider.ts'
import type { ChargeOutcome, ChargeRequest, PaymentLookup, Provider, RefundRequest } from './port.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

type Script = {
  charge?: (request: ChargeRequest) => Promise<ChargeOutcome>
  lookup?: (reference: string) => Promise<PaymentLookup>
}

/** A provider that answers as the script says and remembers what reached it. */
function scripted(script: Script) {
  const reached: string[] = []
  const provider: Provider = {
    name: 'scripted',
    guards: {
      keyWindowMs: 1,
      namesRefunds: true,
      currencies: 'all',
      takesAmount: () => true,
    },
    charge(request) {
      reached.push(request.billingKey)
      return script.charge?.(request) ?? Promise.resolve({ kind: 'declined', code: 'unknown' })
    },
    findPayment(reference) {
      reached.push(reference)
      return script.lookup?.(reference) ?? Promise.resolve({ kind: 'none' })
    },
    refund: async () => ({ kind: 'unknown' }),
    exchange: async () => ({ kind: 'refused' }),
    customerOf: () => null,
    describe: async () => ({ kind: 'invalid' }),
    cancelPayment: async () => ({ kind: 'unknown' }),
    forget: async () => ({ kind: 'done' }),
    setUp: async () => ({ kind: 'unknown' }),
    check: async () => [],
    listPayments: async () => ({ kind: 'unknown' }),
    listChanges: null,
    verifyWebhook: () => undefined,
    readWebhook: () => ({ type: 'x', reference: null, live: null }),
  }
  return { provider, reached }
}

function guard(script: Script, options: Partial<GuardOptions> = {}) {
  const states: CircuitState[] = []
  const { provider, reached } = scripted(script)
  const guarding = guardProvider(provider, {
    timeoutMs: 1_000,
    onState: (state) => states.push(state),
    ...options,
  })
  const guarded = guarding.uses.requests
  const charge = (card: string, use: ProviderUse = 'requests') =>
    guarding.uses[use].charge({
      key: `pay_${card}`,
      accountId: 'acct',
      amount: { minor: 1n, currency: 'KRW' },
      billingKey: card,
      description: '',
    })
  return { guarding, guarded, charge, reached, states }
}

const never = () => new Promise<never>(() => {})
const unknown = async () => ({ kind: 'unknown' }) as const
const notSent = async () => ({ kind: 'not_sent' }) as const
const declined = { kind: 'declined', code: 'unknown' } as const
const cards = (count: number) => Array.from({ length: count }, (_, n) => `card_${n}`)

describe('the circuit', () => {
  test('one bad card, however often it is tried, never opens it for others', async () => {
    const { charge, states } = guard({
      charge: async ({ billingKey }) => (billingKey === 'bad' ? { kind: 'unknown' } : declined),
    })
    for (let n = 0; n < 100; n++) expect(await charge('bad')).toEqual({ kind: 'unknown' })
    expect(await charge('good')).toEqual(declined)
    expect(states).toEqual([])
  })

  test('four bad cards do not open it either', async () => {
    const { charge, states } = guard({ charge: unknown })
    for (let n = 0; n < 100; n++) await charge(`bad_${n % 4}`)
    expect(states).toEqual([])
  })

  test('refunds without an answer count as one subject, because their card is not known', async () => {
    const { guarded, states } = guard({})
    for (let n = 0; n < 100; n++) await guarded.refund({ key: `ref_${n}` } as RefundRequest)
    expect(states).toEqual([])
  })

  test('many different cards in a row without an answer open it, and then nothing is sent', async () => {
    const { charge, reached, states } = guard({ charge: unknown })
    for (const card of cards(6)) await charge(card)
    expect(states).toEqual(['open'])
    expect(await charge('next')).toEqual({ kind: 'not_sent' })
    expect(reached).not.toContain('next')
  })

  test('an answer in between, even a decline, starts the count again', async () => {
    const { charge, states } = guard({
      charge: async ({ billingKey }) => (billingKey === 'card_4' ? declined : { kind: 'unknown' }),
    })
    for (const card of cards(9)) await charge(card)
    expect(states).toEqual([])
  })

  test('a provider where nobody listens opens it, whatever the card', async () => {
    const { charge, states } = guard({ charge: notSent })
    for (let n = 0; n < 3; n++) await charge('same')
    expect(states).toEqual(['open'])
  })

  test('while it is open a lookup is unknown, not none', async () => {
    const { guarded, charge } = guard({ charge: notSent })
    for (let n = 0; n < 3; n++) await charge('same')
    expect(await guarded.findPayment('pay_1')).toEqual({ kind: 'unknown' })
  })

  test('after a rest one lookup goes ahead as a probe; a charge follows only when it was answered', async () => {
    let down = true
    const { charge, reached, states } = guard({
      charge: async () => (down ? { kind: 'not_sent' } : declined),
      lookup: async () => (down ? { kind: 'unknown' } : { kind: 'none' }),
    })
    for (let n = 0; n < 3; n++) await charge('same')
    reached.length = 0

    vi.advanceTimersByTime(1_001)
    expect(await Promise.all([charge('a'), charge('b')])).toEqual([
      { kind: 'not_sent' },
      { kind: 'not_sent' },
    ])
    expect(reached).toEqual(['circuit-probe'])

    down = false
    expect(await charge('a')).toEqual({ kind: 'not_sent' })
    vi.advanceTimersByTime(2_001)
    expect(await charge('a')).toEqual(declined)
    expect(states).toEqual(['open', 'half_open', 'open', 'half_open', 'closed'])
  })

  test('a bad card that comes first after the rest does not keep it open', async () => {
    let down = true
    const { charge } = guard({
      charge: async ({ billingKey }) => {
        if (down) return { kind: 'not_sent' }
        return billingKey === 'bad' ? { kind: 'unknown' } : declined
      },
    })
    for (let n = 0; n < 3; n++) await charge('same')
    down = false
    vi.advanceTimersByTime(1_001)
    expect(await charge('bad')).toEqual({ kind: 'unknown' })
    expect(await charge('good')).toEqual(declined)
  })

  test('it rests longer each time, but never so long that a recovered provider waits a minute', async () => {
    const { charge, reached } = guard({ charge: notSent, lookup: unknown })
    for (let n = 0; n < 3; n++) await charge('same')
    for (let n = 0; n < 10; n++) {
      vi.advanceTimersByTime(15_001)
      await charge('same')
    }
    expect(reached.filter((what) => what === 'circuit-probe')).toHaveLength(10)
  })
})

describe('the gate', () => {
  test('bounds the calls in flight and lets the waiting in by turn', async () => {
    const answer: (() => void)[] = []
    const { charge, reached } = guard(
      { charge: () => new Promise((resolve) => answer.push(() => resolve(declined))) },
      { places: { requests: 2 }, maxWaiting: 2 },
    )
    const calls = ['a', 'b', 'c', 'd'].map((card) => charge(card))
    const oneTooMany = charge('e')
    await vi.advanceTimersByTimeAsync(1)
    expect(reached).toEqual(['a', 'b'])
    expect(await oneTooMany).toEqual({ kind: 'not_sent' })

    answer.shift()?.()
    await calls[0]
    await vi.waitFor(() => expect(reached).toEqual(['a', 'b', 'c']))
    calls.push(charge('f'))
    await vi.advanceTimersByTimeAsync(1)
    expect(reached).toEqual(['a', 'b', 'c'])
    while (answer.length > 0) {
      answer.shift()?.()
      await vi.advanceTimersByTimeAsync(1)
    }
    expect(await Promise.all(calls)).toEqual([declined, declined, declined, declined, declined])
    expect(reached).toEqual(['a', 'b', 'c', 'd', 'f'])
  })

  test('a place that came free is not lost: later calls go through', async () => {
    const { charge } = guard({}, { places: { requests: 1 } })
    for (let n = 0; n < 10; n++) expect(await charge('good')).toEqual(declined)
    expect(await Promise.all(cards(10).map((card) => charge(card)))).toEqual(
      Array.from({ length: 10 }, () => declined),
    )
  })

  test('who waits too long was not sent, and leaves no gap behind', async () => {
    const { charge, reached } = guard({ charge: never }, { places: { requests: 1 }, maxWaitMs: 200 })
    const calls = ['first', 'second'].map((card) => charge(card))
    await vi.advanceTimersByTimeAsync(900)
    const third = charge('third')
    await vi.advanceTimersByTimeAsync(1_200)
    expect(await Promise.all(calls)).toEqual([{ kind: 'unknown' }, { kind: 'not_sent' }])
    expect(await third).toEqual({ kind: 'unknown' })
    expect(reached).toEqual(['first', 'third'])
  })

  test('a call that never ends is unknown in the end', async () => {
    const { charge } = guard({ charge: never })
    const call = charge('slow')
    await vi.advanceTimersByTimeAsync(1_001)
    expect(await call).toEqual({ kind: 'unknown' })
  })

  test('a wave that fills its own places leaves those of every other use free', async () => {
    const { guarding, charge, reached } = guard({ charge: never })
    for (const card of cards(500)) void charge(card, 'charges')
    await vi.advanceTimersByTimeAsync(1)
    expect(reached).toHaveLength(32)
    const others = providerUses.filter((use) => use !== 'charges')
    for (const use of others) void guarding.uses[use].findPayment(`pay_${use}`)
    void charge('waits for an answer', 'requests')
    await vi.advanceTimersByTimeAsync(1)
    expect(reached.slice(32)).toEqual([...others.map((use) => `pay_${use}`), 'waits for an answer'])
  })
})

describe('at the end', () => {
  test('nothing begins in the background, whoever waits is turned away, and what is on its way comes home', async () => {
    const answer: (() => void)[] = []
    const { guarding, charge, reached } = guard(
      { charge: () => new Promise((resolve) => answer.push(() => resolve(declined))) },
      { places: { charges: 1 } },
    )
    const calls = ['on its way', 'waiting'].map((card) => charge(card, 'charges'))
    await vi.advanceTimersByTimeAsync(1)
    guarding.windDown()
    let idle = false
    void guarding.idle().then(() => {
      idle = true
    })
    expect(await calls[1]).toEqual({ kind: 'not_sent' })
    expect(await charge('later', 'charges')).toEqual({ kind: 'not_sent' })
    expect(await guarding.uses.lookups.findPayment('pay_1')).toEqual({ kind: 'unknown' })
    expect(idle).toBe(false)
    answer.shift()?.()
    expect(await calls[0]).toEqual(declined)
    await vi.advanceTimersByTimeAsync(1)
    expect(idle).toBe(true)
    expect(reached).toEqual(['on its way'])
  })

  test('a request in hand still makes its one call and no lookup after it, until the guard is shut', async () => {
    const { guarding, guarded, charge, reached } = guard({})
    guarding.windDown()
    expect(await charge('in hand')).toEqual(declined)
    expect(await guarded.findPayment('pay_1')).toEqual({ kind: 'unknown' })
    guarding.shut()
    expect(await charge('too late')).toEqual({ kind: 'not_sent' })
    expect(reached).toEqual(['in hand'])
  })
})
