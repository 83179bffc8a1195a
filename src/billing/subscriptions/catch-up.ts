import { type Interval, type Period, period, periodIndexAt } from './period.ts'

/** A period that is due, and whether it is collected by itself or left for an operator. */
export type DuePeriod = { readonly k: number; readonly period: Period; readonly held: boolean }

export type Schedule = {
  readonly anchor: Date
  readonly timeZone: string
  readonly interval: Interval
  readonly lastK: number
}

/**
 * Every period that has begun and has no row yet, oldest first. After an outage there are several: the newest few are
 * charged and the older ones held, because nobody likes three charges in one minute.
 */
export function duePeriods(schedule: Schedule, now: Date, catchUpPeriods: number): DuePeriod[] {
  const { anchor, timeZone, interval, lastK } = schedule
  const first = period(anchor, timeZone, interval, lastK + 1)
  if (first.start > now) return []
  if (first.end > now) return [{ k: lastK + 1, period: first, held: catchUpPeriods < 1 }]

  const newest = periodIndexAt(anchor, timeZone, interval, now)
  return Array.from({ length: newest - lastK }, (_, index) => {
    const k = lastK + 1 + index
    return { k, period: period(anchor, timeZone, interval, k), held: newest - k >= catchUpPeriods }
  })
}
