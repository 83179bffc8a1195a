import { describe, expect, test } from 'vitest'
import { nextDunning } from './dunning.ts'

const at = (text: string) => new Date(`2026-${text}:00.000Z`)

describe('retries run 1, 3, 5 and 7 days after the first failure', () => {
  const cases: [string, boolean, string, string | null][] = [
    ['the first failure is retried a day later', false, '03-05T09:00', 'retry 03-06T09:00'],
    ['the first retry is followed by the third day', false, '03-06T09:00', 'retry 03-08T09:00'],
    ['retries missed in an outage become one', false, '03-11T10:00', 'retry 03-12T09:00'],
    ['after the last day nothing is tried', false, '03-12T09:00', null],
    ['a hard decline waits for the last day and gives up', true, '03-05T09:00', 'give_up 03-12T09:00'],
    ['a hard decline on the last day ends it', true, '03-12T09:00', null],
  ]
  test.each(cases)('%s', (_, hard, now, expected) => {
    const unpaid = { firstFailedAt: at('03-05T09:00'), timeZone: 'UTC', hard }
    const step = nextDunning(unpaid, at(now), [1, 3, 5, 7])
    expect(step && `${step.how} ${step.at.toISOString().slice(5, 16)}`).toBe(expected)
  })

  test('days are those of the zone: over a change of clocks the time of day stays', () => {
    const unpaid = { firstFailedAt: at('03-28T09:00'), timeZone: 'Europe/Berlin', hard: false }
    expect(nextDunning(unpaid, at('03-28T09:00'), [1])?.at).toEqual(at('03-29T08:00'))
  })
})
