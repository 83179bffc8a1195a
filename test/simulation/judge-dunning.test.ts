import { expect, test } from 'vitest'
import type { Facts, Payment } from './facts.ts'
import type { Entry } from './history.ts'
import { givenUpAfterTheLastRetry, retriesAreMade } from './judge-dunning.ts'

const failedAt = Date.parse('2026-12-29T09:00:00Z')
const hour = 3_600_000
const onDay = (day: number) => new Date(failedAt + day * 24 * hour)

type Try = { day: number; until?: number | null; card?: string; code?: string }

/** An invoice that failed on day 0, what was tried since, and when somebody swept. `ends`: the day on which it was given up. */
function facts(tries: readonly Try[], sweeps: readonly number[], ends?: number): Facts {
  const payments = [{ day: 0 }, ...tries].map(({ day, until = day, card = 'own', code }: Try, at) => ({
    id: `pay_${at + 1}`,
    attempt: at + 1,
    invoice_id: 'inv_1',
    payment_method_id: card,
    status: until === null ? 'unknown' : 'failed',
    code: until === null ? null : (code ?? 'insufficient_funds'),
    created_at: onDay(day),
    settled_at: until === null ? null : onDay(until),
  }))
  const history = sweeps.flatMap((day, step): Entry[] => [
    { kind: 'time', step, now: onDay(day).toISOString(), real: 0 },
    { kind: 'work', step, what: 'sweep', outcome: '{"retries":0}' },
  ])
  const isOver = ends !== undefined
  return {
    history,
    payments: payments as unknown as Payment[],
    invoices: [
      {
        id: 'inv_1',
        subscription_id: 'sub_1',
        status: isOver ? 'uncollectible' : 'open',
        hold: null,
        first_failed_at: onDay(0),
        paid_at: null,
      },
    ],
    subscriptions: [
      {
        id: 'sub_1',
        time_zone: 'UTC',
        payment_method_id: 'own',
        status: isOver ? 'canceled' : 'past_due',
        cancel_code: isOver ? 'payment_failed' : null,
        canceled_at: isOver ? onDay(ends) : null,
      },
    ],
    methods: [
      { id: 'own', failure: null },
      { id: 'changed', failure: 'lost_in_restore' },
      { id: 'offered', failure: 'insufficient_funds' },
    ],
    events: [],
    book: [],
    restores: [],
    allRequests: [],
  } as unknown as Facts
}

const days = [1, 3, 5, 7]

test('a retry that a sweep left out is missed, also where a later day is kept', () => {
  expect(retriesAreMade(facts([{ day: 1 }, { day: 3 }], [1, 2, 3]))).toEqual([])
  expect(retriesAreMade(facts([{ day: 3 }], [1, 2, 3]))).toEqual([
    'inv_1 was not tried again on day 1: the sweep of #0 left it',
  ])
})

test('retries that nobody was there to make are one', () => {
  expect(retriesAreMade(facts([{ day: 6 }], [6, 6.5]))).toEqual([])
  expect(givenUpAfterTheLastRetry(facts([{ day: 9 }], [9], 9))).toEqual([])
})

test('an offered card is no retry, and takes none away', () => {
  const offered = { day: 0.5, until: 1.5, card: 'offered' }
  expect(retriesAreMade(facts([offered], [1, 1.5]))).toEqual([])
  expect(retriesAreMade(facts([offered], [1, 1.5, 2]))).toEqual([
    'inv_1 was not tried again on day 1: the sweep of #2 left it',
  ])
  expect(retriesAreMade(facts([offered, { day: 2 }], [1, 1.5, 2]))).toEqual([])
  const late = [{ day: 5 }, { day: 8, card: 'offered' }]
  expect(givenUpAfterTheLastRetry(facts(late, [], 8))).toHaveLength(1)
  expect(givenUpAfterTheLastRetry(facts([...late, { day: 8 }], [], 8))).toEqual([])
})

test('retries with a card that has taken another one’s place count, also once it was replaced itself', () => {
  const changed = (day: number) => ({ day, card: 'changed' })
  expect(retriesAreMade(facts([changed(1), changed(3), { day: 4 }], [1, 2, 3, 4]))).toEqual([])
})

test('a retry that is in doubt stands for the days that come meanwhile; one that made way stands for none', () => {
  expect(retriesAreMade(facts([{ day: 1, until: 6 }], [1, 3, 5, 6, 6.5]))).toEqual([])
  expect(givenUpAfterTheLastRetry(facts([{ day: 5, until: 8 }], [], 8))).toEqual([])
  const gaveWay = { day: 5, until: 8, code: 'withdrawn' }
  expect(givenUpAfterTheLastRetry(facts([gaveWay], [], 8))).toHaveLength(1)
  // Its customer is awaited until the next retry, and not longer.
  const awaited = { day: 5, until: 8, code: 'authentication_required' }
  expect(givenUpAfterTheLastRetry(facts([awaited], [], 8))).toHaveLength(1)
  const sentLate = { ...facts([awaited], [], 8), book: [{ reference: 'pay_2', at: onDay(7).getTime() }] }
  expect(givenUpAfterTheLastRetry(sentLate as unknown as Facts)).toEqual([])
})

test('what a copy had in doubt was under way for the sweeps before it, though its outcome is dated before them', () => {
  const swept = facts([{ day: 1 }], [3])
  expect(retriesAreMade(swept)).toHaveLength(1)
  const copied = (inDoubt: string) => [{ since: 0, step: 5, from: 0, at: 0, inDoubt: new Set([inDoubt]) }]
  expect(retriesAreMade({ ...swept, restores: copied('pay_2') } as unknown as Facts)).toEqual([])
  expect(retriesAreMade({ ...swept, restores: copied('pay_1') } as unknown as Facts)).toEqual([])
  expect(retriesAreMade({ ...swept, restores: copied('pay_3') } as unknown as Facts)).toHaveLength(1)
})

test('nobody is dunned who is leaving, until they stay after all', () => {
  const said = (type: string, day: number) => ({
    type,
    subscription_id: 'sub_1',
    occurred_at: onDay(day),
    data: {},
  })
  const leaves = said('subscription.canceling', 0.5)
  expect(retriesAreMade({ ...facts([], [1]), events: [leaves] })).toEqual([])
  const stays = said('subscription.resumed', 0.7)
  expect(retriesAreMade({ ...facts([], [1]), events: [leaves, stays] })).toHaveLength(1)
})

test('a card that was declined for good waits for another until the last day, and no shorter', () => {
  const hopeless = [{ day: 1, code: 'lost_or_stolen' }]
  expect(retriesAreMade(facts(hopeless, days))).toEqual([])
  expect(givenUpAfterTheLastRetry(facts(hopeless, [], 7))).toEqual([])
  expect(givenUpAfterTheLastRetry(facts(hopeless, [], 3))).toHaveLength(1)
  const changed = {
    type: 'payment_method.changed',
    subscription_id: 'sub_1',
    occurred_at: onDay(2),
    data: {},
  }
  expect(retriesAreMade({ ...facts(hopeless, days), events: [changed] })).toHaveLength(1)
})

test('a sweep proves something only where it came to its end, alone, on a calendar that runs', () => {
  const swept = facts([], [1])
  const [time, sweep] = swept.history as [Entry, Entry]
  const judge = (...history: Entry[]) => retriesAreMade({ ...swept, history })
  expect(judge(time, sweep)).toHaveLength(1)
  expect(judge(time, { ...sweep, outcome: 'died' } as Entry)).toEqual([])
  expect(judge(time, sweep, sweep)).toEqual([])
  const since = { kind: 'restore', step: 0, since: 0 } as Entry
  expect(judge(time, since, sweep)).toEqual([])
  const resumed: Entry = { kind: 'work', step: 1, what: 'resume charging', outcome: 'true' }
  expect(judge(time, since, resumed, { ...sweep, step: 2 } as Entry)).toHaveLength(1)
})

test('nobody is given up without a try, but whoever was leaving', () => {
  const untried = facts([], [], 0)
  const invoices = untried.invoices.map((one) => ({ ...one, first_failed_at: null }))
  expect(givenUpAfterTheLastRetry({ ...untried, invoices })).toHaveLength(1)
  const cancel = {
    path: '/api/billing/cancel',
    body: { subscription_id: 'sub_1' },
    at: failedAt - hour,
    answer: { status: 200 },
  }
  const allRequests = [cancel] as unknown as Facts['allRequests']
  expect(givenUpAfterTheLastRetry({ ...untried, invoices, allRequests })).toEqual([])
})
