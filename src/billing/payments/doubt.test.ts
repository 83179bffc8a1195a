import { describe, expect, test } from 'vitest'
import { lookupAgainAfterMs, nextLookupBy, verdictOfNotFound } from './doubt.ts'

const day = 86_400_000
const at = (text: string) => new Date(`2026-03-${text}:00.000Z`)
const sentAt = at('01T00:00')

describe('the provider knows nothing of our reference', () => {
  const cases: [string, number, string | null, string, string][] = [
    ['inside the key window the same key is sent again', 0, null, '01T23:59', 'resend'],
    ['once it has closed nothing is sent, only looked up', 0, null, '02T00:00', 'wait'],
    ['two lookups are not enough', 1, '02T00:00', '02T02:00', 'wait'],
    ['three lookups within the hour are not enough', 2, '02T00:00', '02T00:59', 'wait'],
    ['three lookups over an hour are', 2, '02T00:00', '02T01:00', 'never_arrived'],
  ]
  test.each(cases)('%s', (_, notFoundCount, since, now, kind) => {
    const doubt = { sentAt, notFoundCount, notFoundSince: since === null ? null : at(since) }
    expect(verdictOfNotFound(doubt, at(now), day).kind).toBe(kind)
  })

  test('following its own checks, a doubt ends with the third lookup, an hour after the first', () => {
    let doubt = { sentAt, notFoundCount: 0, notFoundSince: null as Date | null }
    let now = new Date(sentAt.getTime() + day)
    const looks: Date[] = []
    for (;;) {
      looks.push(now)
      const verdict = verdictOfNotFound(doubt, now, day)
      if (verdict.kind !== 'wait') {
        expect(verdict.kind).toBe('never_arrived')
        break
      }
      doubt = { sentAt, notFoundCount: verdict.notFoundCount, notFoundSince: verdict.notFoundSince }
      now = verdict.lookupBy
    }
    expect(looks).toEqual([at('02T00:00'), at('02T00:30'), at('02T01:00')])
  })
})

test('moved time stops a few times inside the key window and where it closes, and then no more', () => {
  const stops: string[] = []
  for (let next = nextLookupBy(sentAt, sentAt, day); next; next = nextLookupBy(sentAt, next, day)) {
    stops.push(next.toISOString().slice(8, 16))
  }
  expect(stops).toEqual(['01T00:10', '01T01:00', '01T06:00', '02T00:00'])
})

test('looks come at once, then ever more slowly, but once an hour at least', () => {
  expect([0, 1, 2, 3, 4, 5, 12, 13, 50].map(lookupAgainAfterMs)).toEqual([
    0, 1000, 2000, 4000, 8000, 16_000, 2_048_000, 3_600_000, 3_600_000,
  ])
})

test('over the longest key window, fifteen days, an attempt is sent fewer than 400 times', () => {
  let sends = 0
  for (let ms = 0; ms < 15 * day; ms += lookupAgainAfterMs(sends)) sends++
  expect(sends).toBeGreaterThan(15 * 24)
  expect(sends).toBeLessThan(400)
})
