import type { Day } from '../platform/time.ts'

/** A calendar month such as `'2026-10'`. Months compare as plain strings. */
export type Month = string

export function monthOf(day: Day): Month {
  return day.slice(0, 7)
}

/** The months that days fall in. */
export function monthsOf(dated: readonly { readonly day: Day }[]): Set<Month> {
  return new Set(dated.map(({ day }) => monthOf(day)))
}

/** This month and the next: made before anybody stores in them, so that no request waits for a table. */
export function monthsAhead(now: Date): Month[] {
  const next = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1))
  return [now, next].map((instant) => instant.toISOString().slice(0, 7))
}
