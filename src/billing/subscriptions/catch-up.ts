import { type Interval, type Period, period, periodIndexAt } from './period.ts'
import type { SubscriptionStatus } from './subscription.ts'

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

/**
 * Whether so many newer periods have begun since that this one is no longer collected by itself. Those of a subscription
 * that runs on count from their beginning, whoever opens them first.
 */
export function isMissed(
  k: number,
  schedule: Schedule & { readonly status: SubscriptionStatus },
  now: Date,
  catchUpPeriods: number,
): boolean {
  const { anchor, timeZone, interval, lastK, status } = schedule
  const begun = status === 'active' ? periodIndexAt(anchor, timeZone, interval, now) : lastK
  return Math.max(begun, lastK) - k >= catchUpPeriods
}
