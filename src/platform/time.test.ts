import fc from 'fast-check'
import { Temporal } from 'temporal-polyfill/implementation'
import { expect, test } from 'vitest'
import {
  addDays,
  addDuration,
  dayOf,
  daysBetween,
  daysInMonth,
  isZone,
  parseDay,
  parseDuration,
  parseInstant,
  renderInstant,
} from './time.ts'

const zones = Intl.supportedValuesOf('timeZone')

test.each([
  ['2026-12-14T00:30:00.000Z', 'Asia/Seoul', '2026-12-14T09:30:00.000+09:00'],
  ['2026-12-14T00:30:00.007Z', 'UTC', '2026-12-14T00:30:00.007+00:00'],
  ['2026-12-14T00:30:00.000Z', 'Etc/UTC', '2026-12-14T00:30:00.000+00:00'],
  ['2026-12-14T20:00:00.000Z', 'Asia/Kolkata', '2026-12-15T01:30:00.000+05:30'],
  ['2026-12-14T20:00:00.000Z', 'Asia/Kathmandu', '2026-12-15T01:45:00.000+05:45'],
  ['2026-12-14T02:00:00.000Z', 'America/St_Johns', '2026-12-13T22:30:00.000-03:30'],
  ['2026-03-08T06:59:59.999Z', 'America/New_York', '2026-03-08T01:59:59.999-05:00'],
  ['2026-03-08T07:00:00.000Z', 'America/New_York', '2026-03-08T03:00:00.000-04:00'],
  ['2026-11-01T05:59:59.999Z', 'America/New_York', '2026-11-01T01:59:59.999-04:00'],
  ['2026-11-01T06:00:00.000Z', 'America/New_York', '2026-11-01T01:00:00.000-05:00'],
  ['2011-12-30T09:59:59.999Z', 'Pacific/Apia', '2011-12-29T23:59:59.999-10:00'],
  ['2011-12-30T10:00:00.000Z', 'Pacific/Apia', '2011-12-31T00:00:00.000+14:00'],
  ['9999-12-31T23:59:59.999Z', 'UTC', '9999-12-31T23:59:59.999+00:00'],
  ['0001-01-01T00:00:00.000Z', 'UTC', '0001-01-01T00:00:00.000+00:00'],
])('%s in %s is written %s', (instant, zone, text) => {
  expect(renderInstant(new Date(instant), zone)).toBe(text)
})

test('an old offset with seconds is rounded to the minute without moving the instant', () => {
  const instant = new Date('1900-01-01T00:00:00.000Z')
  const text = renderInstant(instant, 'Asia/Seoul') // +08:27:52 by the sun
  expect(text).toBe('1900-01-01T08:28:00.000+08:28')
  expect(parseInstant(text)).toEqual(instant)
})

test('every zone is written as its clocks show it, also to both sides of a change', () => {
  const wrong: string[] = []
  for (const zone of zones) {
    const wallClock = wallClockOf(zone)
    for (const ms of [...oldInstants, ...changesOf2026(wallClock)]) {
      const text = renderInstant(new Date(ms), zone)
      const roundedMs = Math.abs(Date.parse(`${text.slice(0, 23)}Z`) - wallClock(ms))
      const day = new Date(wallClock(ms)).toISOString().slice(0, 10)
      const right =
        Date.parse(text) === ms && roundedMs <= (ms < 1e11 ? 30_000 : 0) && dayOf(new Date(ms), zone) === day
      if (!right) wrong.push(`${zone} ${text}`)
    }
  }
  expect(wrong).toEqual([])
})

/** One instant in most years since 1850 and a few to come, at changing times of day. */
const oldInstants = Array.from({ length: 200 }, (_, i) => Date.UTC(1850, 0, 1) + i * 27_760_320_123)

/** Both sides of every change of offset in 2026, found by halving, and the middle of the days before and after. */
function changesOf2026(wallClock: (ms: number) => number): number[] {
  const instants: number[] = []
  for (let ms = Date.UTC(2026, 0, 1); ms < Date.UTC(2027, 0, 1); ms += 7 * 86_400_000) {
    let [before, after] = [ms, ms + 7 * 86_400_000]
    if (wallClock(before) - before === wallClock(after) - after) continue
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (wallClock(middle) - middle === wallClock(ms) - ms) before = middle
      else after = middle
    }
    instants.push(before - 43_200_000, before, after, after + 43_200_000)
  }
  return instants
}

/** What Intl says the clocks show, as if it were UTC; the field by field way that is too slow for every answer. */
function wallClockOf(zone: string): (ms: number) => number {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' })
  return (ms) => Date.parse(`${format.format(ms).replace(' ', 'T')}Z`) + (((ms % 1000) + 1000) % 1000)
}

test.each([
  ['2026-12-14T09:30:00.000+09:00', '2026-12-14T00:30:00.000Z'],
  ['2026-12-14T09:30:00+09:00', '2026-12-14T00:30:00.000Z'],
  ['2026-12-14T09:30+0900', '2026-12-14T00:30:00.000Z'],
  ['2026-12-14T09:30+09', '2026-12-14T00:30:00.000Z'],
  ['2026-12-14T00:30:00Z', '2026-12-14T00:30:00.000Z'],
  ['2026-12-14t00:30:00z', '2026-12-14T00:30:00.000Z'],
  ['2026-12-13T22:00:00.5-02:30', '2026-12-14T00:30:00.500Z'],
  ['2026-12-14T00:30:00,25Z', '2026-12-14T00:30:00.250Z'],
  ['2026-12-14T00:30:00.999999999Z', '2026-12-14T00:30:00.999Z'],
  ['1969-12-31T23:59:59.9999Z', '1969-12-31T23:59:59.999Z'],
  ['2024-02-29T00:00:00-00:00', '2024-02-29T00:00:00.000Z'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
  ['0099-07-01T00:00:00Z', '0099-07-01T00:00:00.000Z'],
  ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
])('%s is the instant %s', (text, instant) => {
  expect(parseInstant(text)?.toISOString()).toBe(instant)
})

test.each([
  ['no offset', '2026-12-14T09:30:00.000'],
  ['a bare day', '2026-12-14'],
  ['30 February', '2026-02-30T00:00:00Z'],
  ['29 February of a common year', '2026-02-29T00:00:00Z'],
  ['29 February 1900', '1900-02-29T00:00:00Z'],
  ['31 April', '2026-04-31T00:00:00Z'],
  ['month 13', '2026-13-01T00:00:00Z'],
  ['month 0', '2026-00-01T00:00:00Z'],
  ['day 0', '2026-01-00T00:00:00Z'],
  ['hour 24', '2026-01-01T24:00:00Z'],
  ['minute 60', '2026-01-01T00:60:00Z'],
  ['a leap second', '2016-12-31T23:59:60Z'],
  ['the year 0', '0000-01-01T00:00:00Z'],
  ['a five-digit year', '10000-01-01T00:00:00Z'],
  ['a signed year', '+002026-01-01T00:00:00Z'],
  ['an instant before the year 1', '0001-01-01T00:00:00+09:00'],
  ['an instant after the year 9999', '9999-12-31T23:59:59-09:00'],
  ['an offset of a day', '2026-01-01T00:00:00+24:00'],
  ['an offset with minute 60', '2026-01-01T00:00:00+09:60'],
  ['a space for the T', '2026-01-01 00:00:00Z'],
  ['a zone name', '2026-01-01T00:00:00Z[Asia/Seoul]'],
  ['an empty fraction', '2026-01-01T00:00:00.Z'],
  ['a trailing newline', '2026-01-01T00:00:00Z\n'],
  ['other digits', '２０２６-01-01T00:00:00Z'],
  ['nothing', ''],
])('%s is no instant', (_, text) => {
  expect(parseInstant(text)).toBeUndefined()
})

test('every instant survives being written in any zone and read again', () => {
  const min = new Date('0001-01-03T00:00:00Z')
  const max = new Date('9999-12-29T00:00:00Z')
  fc.assert(
    fc.property(fc.date({ min, max, noInvalidDate: true }), fc.constantFrom(...zones), (instant, zone) => {
      expect(parseInstant(renderInstant(instant, zone))).toEqual(instant)
    }),
  )
})

test.each([
  ['Asia/Seoul', true],
  ['ROK', true],
  ['UTC', true],
  ['GMT', true],
  ['Etc/GMT+5', true],
  ['Asia/Kolkata', true],
  ['Asia/Calcutta', true],
  ['Europe/Kyiv', true],
  ['America/Argentina/Buenos_Aires', true],
  ['EST5EDT', true],
  ['+09:00', false],
  ['-0330', false],
  ['GMT+9', false],
  ['Z', false],
  ['JST', false],
  ['PST', false],
  ['SystemV/PST8PDT', false],
  ['Asia/Atlantis', false],
  ['Asia/Seoul ', false],
  ['', false],
  ['A'.repeat(65), false],
])('%j names a zone: %s', (text, verdict) => {
  expect(isZone(text)).toBe(verdict)
})

test('every zone that Intl lists is a zone, and Temporal knows it as well', () => {
  for (const zone of zones) {
    expect(isZone(zone), zone).toBe(true)
    expect(() => Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(zone)).not.toThrow()
  }
})

test.each([
  ['2026-03-05', true],
  ['2024-02-29', true],
  ['2000-02-29', true],
  ['0001-01-01', true],
  ['2026-02-29', false],
  ['1900-02-29', false],
  ['2026-3-5', false],
  ['2026-03-32', false],
  ['0000-01-01', false],
  ['2026-03-05T00:00:00Z', false],
  ['2026-03-05\n', false],
])('%j is a calendar day: %s', (text, verdict) => {
  expect(parseDay(text)).toBe(verdict ? text : undefined)
})

test.each([
  ['2026-03-05', 1, '2026-03-06'],
  ['2026-02-28', 1, '2026-03-01'],
  ['2024-02-28', 1, '2024-02-29'],
  ['2026-01-01', -1, '2025-12-31'],
  ['2026-03-29', 0, '2026-03-29'],
  ['0001-01-01', 365, '0002-01-01'],
])('%s and %i days is %s', (day, days, sum) => {
  expect(addDays(day, days)).toBe(sum)
  expect(daysBetween(day, sum)).toBe(days)
})

test('a day that is none is a defect, not an answer', () => {
  expect(() => addDays('soon', 1)).toThrow('a day reads YYYY-MM-DD')
  expect(() => addDays('9999-12-31', 1)).toThrow('0001 to 9999')
})

test('months have the days of the Gregorian calendar', () => {
  for (const year of [1900, 2000, 2023, 2024, 2100]) {
    for (let month = 1; month <= 12; month++) {
      expect(daysInMonth(year, month)).toBe(new Date(Date.UTC(year, month, 0)).getUTCDate())
    }
  }
})

test.each([
  ['2026-01-31T09:00:00+09:00', 'P1M', 'Asia/Seoul', '2026-02-28T09:00:00.000+09:00'],
  ['2024-01-31T09:00:00+09:00', 'P1M', 'Asia/Seoul', '2024-02-29T09:00:00.000+09:00'],
  ['2026-01-31T09:00:00+09:00', 'P30D', 'Asia/Seoul', '2026-03-02T09:00:00.000+09:00'],
  ['2026-01-31T09:00:00+09:00', 'P2W', 'Asia/Seoul', '2026-02-14T09:00:00.000+09:00'],
  ['2026-01-31T09:00:00+09:00', 'PT1H', 'Asia/Seoul', '2026-01-31T10:00:00.000+09:00'],
  ['2026-01-31T09:00:00+09:00', 'PT0.25S', 'Asia/Seoul', '2026-01-31T09:00:00.250+09:00'],
  ['2026-01-01T00:00:00+00:00', 'P1Y2M3DT4H5M6S', 'UTC', '2027-03-04T04:05:06.000+00:00'],
  ['2026-03-07T02:30:00-05:00', 'P1D', 'America/New_York', '2026-03-08T03:30:00.000-04:00'],
  ['2026-03-07T12:00:00-05:00', 'P1D', 'America/New_York', '2026-03-08T12:00:00.000-04:00'],
  ['2026-03-07T12:00:00-05:00', 'PT24H', 'America/New_York', '2026-03-08T13:00:00.000-04:00'],
  ['2026-03-31T00:00:00+00:00', '-P1M', 'UTC', '2026-02-28T00:00:00.000+00:00'],
])('%s and %s in %s is %s', (instant, duration, zone, sum) => {
  const answer = addDuration(parseInstant(instant)!, parseDuration(duration)!, zone)
  expect(renderInstant(answer!, zone)).toBe(sum)
})

test.each(['', 'P', 'PT', '1M', 'P1', 'P1H', 'PT1D', 'P1.5D', 'P1M ', 'one month', 'P1M2Y'])(
  '%j is no duration',
  (text) => {
    expect(parseDuration(text)).toBeUndefined()
  },
)

test.each(['P8000Y', 'P999999999Y', 'PT1000000000000H'])('%s from now leads nowhere', (text) => {
  expect(addDuration(new Date('2026-01-01T00:00:00Z'), parseDuration(text)!, 'Asia/Seoul')).toBeUndefined()
})
