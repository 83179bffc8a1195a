import { expect, test } from 'vitest'
import { judgeSource } from './breaker.ts'
import type { SourceState } from './source-rows.ts'

const now = new Date('2030-01-15T12:00:00Z')
const tomorrow = new Date('2030-01-16T00:00:00Z')
const ready: SourceState = {
  state: 'ready',
  until: null,
  throttles: 0,
  recentGood: 0,
  recentFailed: 0,
  lastError: null,
  lastErrorAt: null,
}
const failures = (count: number, of: 'answer' | 'rate' | 'quota' | 'credentials' = 'answer') =>
  Array.from({ length: count }, () => ({ reason: 'trouble', of }))
const judged = (good: number, failed: ReturnType<typeof failures>, before = ready) => {
  const { state, until } = judgeSource(before, { good, failures: failed }, now, tomorrow)
  return [state, until?.toISOString() ?? null]
}
const inHalfAnHour = ['resting', '2030-01-15T12:30:00.000Z']

test('a source rests when more than 30 % of at least 20 answers fail', () => {
  expect(judged(14, failures(6))).toEqual(['ready', null])
  expect(judged(13, failures(7))).toEqual(inHalfAnHour)
  expect(judged(0, failures(19))).toEqual(['ready', null])
  // What came before counts too.
  expect(judged(0, failures(1), { ...ready, recentGood: 13, recentFailed: 6 })).toEqual(inHalfAnHour)
})

test('an empty quota ends the day, a refused key stops it, and being too quick is no failure', () => {
  expect(judged(50, failures(1, 'quota'))).toEqual(['resting', tomorrow.toISOString()])
  expect(judged(50, failures(1, 'credentials'))).toEqual(['refused', tomorrow.toISOString()])
  expect(judged(0, failures(30, 'rate'))).toEqual(['ready', null])
  expect(judged(0, failures(1, 'rate'), { ...ready, throttles: 4 })).toEqual([
    'resting',
    '2030-01-15T12:05:00.000Z',
  ])
})
