import { comesLate } from '../payments/doubt.ts'
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
 * The oldest period that is charged by itself, if this is the newest one that has begun. What begins now was not missed, so
 * that it is charged also where none of those that were missed is.
 */
export function oldestCharged(
  { anchor, timeZone, interval }: Omit<Schedule, 'lastK'>,
  newest: number,
  now: Date,
  catchUpPeriods: number,
): number {
  if (catchUpPeriods > 0) return newest - catchUpPeriods + 1
  return comesLate(period(anchor, timeZone, interval, newest).start, now) ? newest + 1 : newest
}

/**
 * Every period that has begun and has no row yet, oldest first. After an outage there are several: the newest few are
 * charged and the older ones held, because nobody likes three charges in one minute.
 */
export function duePeriods(schedule: Schedule, now: Date, catchUpPeriods: number): DuePeriod[] {
  const { anchor, timeZone, interval, lastK } = schedule
  const first = period(anchor, timeZone, interval, lastK + 1)
  if (first.start > now) return []
  const newest = first.end > now ? lastK + 1 : periodIndexAt(anchor, timeZone, interval, now)
  const charged = oldestCharged(schedule, newest, now, catchUpPeriods)
  if (newest === lastK + 1) return [{ k: newest, period: first, held: newest < charged }]
  return Array.from({ length: newest - lastK }, (_, index) => {
    const k = lastK + 1 + index
    return { k, period: period(anchor, timeZone, interval, k), held: k < charged }
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
  return k < oldestCharged(schedule, Math.max(begun, lastK), now, catchUpPeriods)
}
