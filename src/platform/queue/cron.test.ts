import { expect, test } from 'vitest'
import { nextSlot, parseCron } from './cron.ts'

function next(cron: string, after: string, zone = 'UTC'): string | undefined {
  return nextSlot(parseCron(cron)!, new Date(after), zone)?.toISOString()
}

test.each([
  ['30 3 * * *', '2026-11-15T03:29:59Z', 'UTC', '2026-11-15T03:30:00.000Z'],
  ['30 3 * * *', '2026-11-15T03:30:00Z', 'UTC', '2026-11-16T03:30:00.000Z'],
  ['30 3 * * *', '2026-11-15T00:00:00Z', 'Asia/Seoul', '2026-11-15T18:30:00.000Z'],
  ['*/15 * * * *', '2026-11-15T03:31:00Z', 'UTC', '2026-11-15T03:45:00.000Z'],
  ['0 0 29 2 *', '2026-03-01T00:00:00Z', 'UTC', '2028-02-29T00:00:00.000Z'],
  ['0 9 * * 1-5', '2026-11-13T10:00:00Z', 'UTC', '2026-11-16T09:00:00.000Z'],
  ['0 9 1 * 0', '2026-11-13T10:00:00Z', 'UTC', '2026-11-15T09:00:00.000Z'],
  ['5,10 22 31 12 *', '2026-12-31T22:05:00Z', 'UTC', '2026-12-31T22:10:00.000Z'],
])('%s after %s in %s is %s', (cron, after, zone, expected) => {
  expect(next(cron, after, zone)).toBe(expected)
})

test.each([
  ['30 2 * * *', 'Europe/Berlin', '2026-03-29T00:00:00Z', ['2026-03-29T01:30', '2026-03-30T00:30']],
  ['30 0 * * *', 'America/Santiago', '2026-09-05T12:00:00Z', ['2026-09-06T04:30', '2026-09-07T03:30']],
  // Half an hour is skipped there, so that what moves forward comes behind what was due next.
  ['15,40 2 * * *', 'Australia/Lord_Howe', '2026-10-03T12:00:00Z', ['2026-10-03T15:40', '2026-10-03T15:45']],
])('a slot of %s in the hour that %s skips is not lost, and moves forward', (cron, zone, after, expected) => {
  const first = next(cron, after, zone)!
  expect([first, next(cron, first, zone)]).toEqual(expected.map((slot) => `${slot}:00.000Z`))
})

test.each([
  ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', ['2026-10-25T00:30', '2026-10-26T01:30']],
  ['30 23 * * *', 'America/Santiago', '2026-04-04T12:00:00Z', ['2026-04-05T02:30', '2026-04-06T03:30']],
])('a slot of %s in the hour that %s repeats comes once', (cron, zone, after, expected) => {
  const first = next(cron, after, zone)!
  expect([first, next(cron, first, zone)]).toEqual(expected.map((slot) => `${slot}:00.000Z`))
})

test('a day that never comes has no slot', () => {
  expect(next('0 0 31 2 *', '2026-01-01T00:00:00Z')).toBeUndefined()
})

test.each([
  '',
  '* * * *',
  '60 * * * *',
  '* 24 * * *',
  '* * 0 * *',
  '5-1 * * * *',
  '*/0 * * * *',
  'a * * * *',
  '1,,2 * * * *',
])('"%s" is not a timetable', (text) => expect(parseCron(text)).toBeUndefined())
