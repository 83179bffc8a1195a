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

test('a slot inside the hour that daylight saving skips runs once, an hour later', () => {
  expect(next('30 2 * * *', '2026-03-29T00:00:00Z', 'Europe/Berlin')).toBe('2026-03-29T01:30:00.000Z')
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
