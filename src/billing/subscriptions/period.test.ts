import fc from 'fast-check'
import { Temporal } from 'temporal-polyfill/implementation'
import { expect, test } from 'vitest'
import { size } from '../../../test/size.ts'
import { dayOf, daysInMonth, parseInstant, renderInstant } from '../../platform/time.ts'
import { intervalUnits } from '../plans/interval.ts'
import { type Interval, period, periodIndexAt, periodStart, trialEnd } from './period.ts'

const monthly: Interval = { unit: 'month', count: 1 }
const daily: Interval = { unit: 'day', count: 1 }

const zones = Intl.supportedValuesOf('timeZone')

/** The starts of periods 0, 1, 2 … as the zone's clocks show them, to the minute. */
function starts(anchor: string, zone: string, interval: Interval, count: number): string[] {
  const first = parseInstant(anchor)!
  return Array.from({ length: count }, (_, k) => {
    const text = renderInstant(periodStart(first, zone, interval, k), zone)
    return text.slice(0, 16) + text.slice(23)
  })
}

test('a subscription begun on 31 January bills on the last of each month and returns to the 31st', () => {
  expect(starts('2026-01-31T09:00:00+09:00', 'Asia/Seoul', monthly, 5)).toEqual([
    '2026-01-31T09:00+09:00',
    '2026-02-28T09:00+09:00',
    '2026-03-31T09:00+09:00',
    '2026-04-30T09:00+09:00',
    '2026-05-31T09:00+09:00',
  ])
})

test('in a leap year it bills on 29 February', () => {
  expect(starts('2028-01-31T09:00:00+09:00', 'Asia/Seoul', monthly, 3)[1]).toBe('2028-02-29T09:00+09:00')
})

test('a yearly subscription begun on 29 February bills on the 28th but for leap years', () => {
  const yearly: Interval = { unit: 'year', count: 1 }
  expect(starts('2024-02-29T00:00:00+09:00', 'Asia/Seoul', yearly, 5)).toEqual([
    '2024-02-29T00:00+09:00',
    '2025-02-28T00:00+09:00',
    '2026-02-28T00:00+09:00',
    '2027-02-28T00:00+09:00',
    '2028-02-29T00:00+09:00',
  ])
})

test('three months and two weeks are intervals too', () => {
  const quarterly = starts('2026-11-30T09:00:00+09:00', 'Asia/Seoul', { unit: 'month', count: 3 }, 3)
  expect(quarterly).toEqual(['2026-11-30T09:00+09:00', '2027-02-28T09:00+09:00', '2027-05-30T09:00+09:00'])
  const fortnightly = starts('2026-12-25T09:00:00+09:00', 'Asia/Seoul', { unit: 'week', count: 2 }, 3)
  expect(fortnightly).toEqual(['2026-12-25T09:00+09:00', '2027-01-08T09:00+09:00', '2027-01-22T09:00+09:00'])
})

test('the day is that of the zone, not of UTC', () => {
  // Already 31 January in Seoul, still the 30th in UTC.
  expect(starts('2026-01-30T20:00:00Z', 'Asia/Seoul', monthly, 3)[2]).toBe('2026-03-31T05:00+09:00')
  expect(starts('2026-01-30T20:00:00Z', 'UTC', monthly, 3)[2]).toBe('2026-03-30T20:00+00:00')
})

test('the time of day stays through summer time', () => {
  expect(starts('2026-02-15T12:00:00-05:00', 'America/New_York', monthly, 3)).toEqual([
    '2026-02-15T12:00-05:00',
    '2026-03-15T12:00-04:00',
    '2026-04-15T12:00-04:00',
  ])
})

test('a time that the clocks skip moves forward, and only that once', () => {
  expect(starts('2026-02-08T02:30:00-05:00', 'America/New_York', monthly, 3)).toEqual([
    '2026-02-08T02:30-05:00',
    '2026-03-08T03:30-04:00',
    '2026-04-08T02:30-04:00',
  ])
})

test('of a time that the clocks show twice, the first counts', () => {
  expect(starts('2026-10-01T01:30:00-04:00', 'America/New_York', monthly, 3)).toEqual([
    '2026-10-01T01:30-04:00',
    '2026-11-01T01:30-04:00',
    '2026-12-01T01:30-05:00',
  ])
})

test('the first period starts at the anchor, also when that is the second showing of its time', () => {
  const anchor = new Date('2026-11-01T06:30:00Z') // 01:30 in New York, an hour after 01:30
  expect(period(anchor, 'America/New_York', daily, 0).start).toEqual(anchor)
  expect(starts('2026-11-01T06:30:00Z', 'America/New_York', daily, 2)).toEqual([
    '2026-11-01T01:30-05:00',
    '2026-11-02T01:30-05:00',
  ])
})

test('a monthly bill on the day that Samoa never had comes a day later, once', () => {
  expect(starts('2011-11-30T10:00:00-10:00', 'Pacific/Apia', monthly, 3)).toEqual([
    '2011-11-30T10:00-10:00',
    '2011-12-31T10:00+14:00',
    '2012-01-30T10:00+14:00',
  ])
})

test.each([
  ['Pacific/Apia', '2011-12-27T10:00:00-10:00'],
  ['Pacific/Apia', '2011-12-27T00:00:00-10:00'],
  ['Pacific/Apia', '2011-12-29T23:59:59-10:00'],
  ['Pacific/Fakaofo', '2011-12-28T12:00:00-11:00'],
  ['Pacific/Kwajalein', '1993-08-18T09:00:00-12:00'],
  ['Pacific/Kwajalein', '1993-08-20T00:00:00-12:00'],
  ['Pacific/Kiritimati', '1994-12-28T09:00:00-10:00'],
  ['Pacific/Kwajalein', '1969-09-28T09:00:00+11:00'],
])(
  'where %s skips or repeats a day after %s, every interval still has periods that follow each other',
  (zone, at) => {
    const anchor = parseInstant(at)!
    for (const unit of intervalUnits) {
      for (const count of [1, 2, 3]) expectUnbroken(anchor, zone, { unit, count }, 12)
    }
  },
)

function expectUnbroken(anchor: Date, zone: string, interval: Interval, count: number): void {
  let end = anchor
  for (let k = 0; k < count; k++) {
    const { start, end: nextEnd } = period(anchor, zone, interval, k)
    expect(start, `${zone} ${interval.unit} ${k}`).toEqual(end)
    expect(nextEnd.getTime(), `${zone} ${interval.unit} ${k}`).toBeGreaterThan(start.getTime())
    expect(periodIndexAt(anchor, zone, interval, start)).toBe(k)
    expect(periodIndexAt(anchor, zone, interval, new Date(nextEnd.getTime() - 1))).toBe(k)
    end = nextEnd
  }
}

test('over 8 years in zone after zone no month is skipped or billed twice, and the day is the anchor’s or the last', () => {
  const days = ['2024-01-28', '2024-01-29', '2024-01-30', '2024-01-31', '2024-02-29']
  const times = ['00:00', '02:30', '01:15:07.089', '23:59:59.999']
  const wrong: string[] = []
  const judged = new Set<string>()
  const some = zones.filter((_, index) => index % size(3, 1) === 0)
  for (const [index, zone] of some.entries()) {
    // Zones whose clocks show the same all the while share the days; each is still judged on one of them.
    const rules = rulesOf(zone)
    const isNew = !judged.has(rules)
    judged.add(rules)
    for (const [turn, day] of days.entries()) {
      if (!isNew && turn !== index % days.length) continue
      const local = Temporal.PlainDateTime.from(`${day}T${times[(index + turn) % times.length]}`)
      wrong.push(...wrongMonths(local, zone))
    }
  }
  expect(wrong).toEqual([])
})

/** The offset at the beginning of those years, and every change of it until they are over. */
function rulesOf(zone: string): string {
  const over = Temporal.Instant.from('2032-04-01T00:00Z').epochMilliseconds
  const rules: (number | string)[] = []
  let at: Temporal.ZonedDateTime | null = Temporal.Instant.from('2024-01-01T00:00Z').toZonedDateTimeISO(zone)
  for (; at && at.epochMilliseconds < over; at = at.getTimeZoneTransition('next'))
    rules.push(at.epochMilliseconds, at.offset)
  return rules.join(' ')
}

/** Judges 97 monthly starts by plain calendar arithmetic: month after month, the day, and the time of day. */
function wrongMonths(local: Temporal.PlainDateTime, zone: string): string[] {
  const anchor = new Date(local.toZonedDateTime(zone).epochMilliseconds)
  const wrong: string[] = []
  let previous = -1
  for (let k = 0; k <= 96; k++) {
    const months = local.month - 1 + k
    const [year, month] = [local.year + Math.floor(months / 12), (months % 12) + 1]
    const day = Math.min(local.day, daysInMonth(year, month))
    const wanted = Date.UTC(year, month - 1, day, local.hour, local.minute, local.second, local.millisecond)

    const start = periodStart(anchor, zone, monthly, k).getTime()
    const right = isShownAs(start, wanted, zone) && start > previous
    if (!right) wrong.push(`${zone} ${local.toString()} ${k}: ${renderInstant(new Date(start), zone)}`)
    previous = start
  }
  return wrong
}

/** True if the clocks show the wanted local time, or skipped it and the start moved on by exactly the skip. */
function isShownAs(instant: number, wanted: number, zone: string): boolean {
  const late = instant + offsetMs(instant, zone) - wanted
  if (late === 0) return dayOf(new Date(instant), zone) === new Date(wanted).toISOString().slice(0, 10)
  return late > 0 && offsetMs(instant, zone) - offsetMs(instant - late, zone) === late
}

function offsetMs(instant: number, zone: string): number {
  return Date.parse(`${renderInstant(new Date(instant), zone).slice(0, 23)}Z`) - instant
}

const anyInterval = fc.record({
  unit: fc.constantFrom(...intervalUnits),
  count: fc.integer({ min: 1, max: 12 }),
})
const anyAnchor = fc.date({
  min: new Date('1995-01-01T00:00:00Z'),
  max: new Date('2060-01-01T00:00:00Z'),
  noInvalidDate: true,
})

test('any interval from any anchor in any zone leaves no gap and no overlap, and every instant finds its period', () => {
  fc.assert(
    fc.property(
      anyAnchor,
      fc.constantFrom(...zones),
      anyInterval,
      fc.nat({ max: 120 }),
      (anchor, zone, interval, k) => {
        const { start, end } = period(anchor, zone, interval, k)
        const next = period(anchor, zone, interval, k + 1)
        expect(end).toEqual(next.start)
        expect(start.getTime()).toBeLessThan(end.getTime())
        expect(periodIndexAt(anchor, zone, interval, start)).toBe(k)
        expect(periodIndexAt(anchor, zone, interval, new Date(end.getTime() - 1))).toBe(k)
        expect(periodIndexAt(anchor, zone, interval, end)).toBe(k + 1)
      },
    ),
    { numRuns: 400 },
  )
})

test('before the anchor no period has begun, and none is counted below zero', () => {
  const anchor = new Date('2026-01-31T00:00:00Z')
  expect(periodIndexAt(anchor, 'UTC', monthly, new Date(anchor.getTime() - 1))).toBe(-1)
  expect(() => periodStart(anchor, 'UTC', monthly, -1)).toThrow('counted from 0')
  expect(() => periodStart(anchor, 'UTC', monthly, 0.5)).toThrow('counted from 0')
})

test.each([
  ['2026-12-14T09:30:00+09:00', 14, 'Asia/Seoul', '2026-12-28T09:30:00.000+09:00'],
  ['2026-12-14T09:30:00+09:00', 0, 'Asia/Seoul', '2026-12-14T09:30:00.000+09:00'],
  ['2026-02-27T23:59:59.999+09:00', 2, 'Asia/Seoul', '2026-03-01T23:59:59.999+09:00'],
  ['2026-03-01T12:00:00-05:00', 14, 'America/New_York', '2026-03-15T12:00:00.000-04:00'],
  ['2026-03-07T02:30:00-05:00', 1, 'America/New_York', '2026-03-08T03:30:00.000-04:00'],
])('a trial begun %s for %i days in %s ends %s', (now, days, zone, end) => {
  expect(renderInstant(trialEnd(parseInstant(now)!, days, zone), zone)).toBe(end)
})
