import { expect, test } from 'vitest'
import { duePeriods, isMissed } from './catch-up.ts'

const at = (text: string) => new Date(`${text}T09:00:00.000Z`)
const monthly = {
  anchor: at('2026-01-31'),
  timeZone: 'UTC',
  interval: { unit: 'month', count: 1 } as const,
  lastK: 0,
}

const cases: [string, string, number, string[]][] = [
  ['before the next period begins nothing is due', '2026-02-27', 1, []],
  ['a period is due from the instant it begins', '2026-02-28', 1, ['1 2026-02-28 charged']],
  [
    'after an outage the newest is charged and older ones are held, each dated right',
    '2026-05-11',
    1,
    ['1 2026-02-28 held', '2026-03-31', '2026-04-30'].map((text, index) =>
      index === 0 ? text : index === 1 ? `2 ${text} held` : `3 ${text} charged`,
    ),
  ],
  ['an operator may let two be charged', '2026-04-01', 2, ['1 2026-02-28 charged', '2 2026-03-31 charged']],
  ['or none', '2026-04-01', 0, ['1 2026-02-28 held', '2 2026-03-31 held']],
  ['what begins now was not missed', '2026-02-28', 0, ['1 2026-02-28 charged']],
  ['and is charged beside what was', '2026-03-31', 0, ['1 2026-02-28 held', '2 2026-03-31 charged']],
  ['a day later it was', '2026-03-01', 0, ['1 2026-02-28 held']],
]
test.each(cases)('%s', (_, now, catchUpPeriods, expected) => {
  const due = duePeriods(monthly, at(now), catchUpPeriods)
  expect(
    due.map(
      ({ k, period, held }) => `${k} ${period.start.toISOString().slice(0, 10)} ${held ? 'held' : 'charged'}`,
    ),
  ).toEqual(expected)
})

test('a period is missed once newer ones have begun, opened or not, as long as the subscription runs on', () => {
  const missed = (now: string, status: 'active' | 'past_due' | 'canceled', lastK: number, catchUp = 1) =>
    isMissed(1, { ...monthly, lastK, status }, at(now), catchUp)
  expect(missed('2026-03-30', 'active', 1)).toBe(false)
  expect(missed('2026-03-31', 'active', 1)).toBe(true)
  expect(missed('2026-03-31', 'active', 1, 2)).toBe(false)
  expect(missed('2026-06-01', 'past_due', 1)).toBe(false)
  expect(missed('2026-06-01', 'past_due', 2)).toBe(true)
  expect(missed('2026-06-01', 'canceled', 1)).toBe(false)
  expect(missed('2026-02-28', 'active', 1, 0)).toBe(false)
  expect(missed('2026-03-01', 'active', 1, 0)).toBe(true)
  expect(missed('2026-03-31', 'active', 1, 0)).toBe(true)
})
