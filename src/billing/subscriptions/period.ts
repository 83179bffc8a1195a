import { Temporal } from 'temporal-polyfill/implementation'
import { invariant } from '../../platform/invariant.ts'
import type { IntervalUnit } from '../plans/interval.ts'

/** What is paid for at once: from `start` up to, not including, `end`. */
export type Period = { readonly start: Date; readonly end: Date }

export type Interval = { readonly unit: IntervalUnit; readonly count: number }

/**
 * Period k of a subscription, a pure function of its four arguments: late jobs, retries and moved clocks cannot
 * shift it. The end of one period is the start of the next.
 */
export function period(anchor: Date, zone: string, interval: Interval, k: number): Period {
  return { start: periodStart(anchor, zone, interval, k), end: periodStart(anchor, zone, interval, k + 1) }
}

/**
 * Counts from the anchor, never from the period before, so that one anchored on 31 January falls on 28 February
 * and then on 31 March again. The zone's clocks show the anchor's time of day; where they skip it the start moves
 * forward by what was skipped, where they show it twice the first time counts.
 */
export function periodStart(anchor: Date, zone: string, interval: Interval, k: number): Date {
  invariant(Number.isSafeInteger(k) && k >= 0, `a period is counted from 0, not ${k}`)
  // Clocks that show the anchor's time twice could otherwise move the first start an hour before the anchor.
  if (k === 0) return anchor

  const local = localOf(anchor, zone)
  const startAt = (n: number) => resolve(local, zone, interval.unit, interval.count * n)
  const start = startAt(k)
  if (interval.unit !== 'day' || interval.count !== 1) return start

  // Samoa had no 30 December 2011: that day's start moves onto the next day's. To keep one period per k, none
  // empty, the day that never was takes half of the time between its neighbours.
  const next = startAt(k + 1)
  if (start < next) return start
  const previous = k === 1 ? anchor : startAt(k - 1)
  return new Date(Math.floor((previous.getTime() + next.getTime()) / 2))
}

/** Which period holds an instant; -1 before the anchor, when none has begun. */
export function periodIndexAt(anchor: Date, zone: string, interval: Interval, instant: Date): number {
  if (instant < anchor) return -1

  const meanMs = meanDays[interval.unit] * interval.count * 86_400_000
  let k = Math.floor((instant.getTime() - anchor.getTime()) / meanMs)
  while (periodStart(anchor, zone, interval, k) > instant) k--
  while (periodStart(anchor, zone, interval, k + 1) <= instant) k++
  return k
}

/** A trial lasts whole calendar days of the account's zone and ends at the time of day at which it began. */
export function trialEnd(now: Date, days: number, zone: string): Date {
  return days === 0 ? now : resolve(localOf(now, zone), zone, 'day', days)
}

const meanDays = { day: 1, week: 7, month: 365.2425 / 12, year: 365.2425 } as const

function localOf(instant: Date, zone: string): Temporal.PlainDateTime {
  return Temporal.Instant.fromEpochMilliseconds(instant.getTime()).toZonedDateTimeISO(zone).toPlainDateTime()
}

/** The instant at which the zone's clocks show a local time plus so many units. */
function resolve(local: Temporal.PlainDateTime, zone: string, unit: IntervalUnit, amount: number): Date {
  const due = local.add({ [`${unit}s`]: amount }, { overflow: 'constrain' })
  return new Date(due.toZonedDateTime(zone, { disambiguation: 'compatible' }).epochMilliseconds)
}
