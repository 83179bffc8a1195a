import type { History } from './history.ts'

/** A move counts as a rise or a fall from this share of the starting place and this many places upwards. */
export const leastShare = 0.12
export const leastPlaces = 1

export const rise = 0
export const hold = 1
export const fall = 2

/** How far ahead to look: a quarter of the history, at least a day and at most a week. */
export function horizonFor(spanDays: number): number {
  return Math.min(7, Math.max(1, Math.floor(spanDays / 4)))
}

/** Both ends of a move are medians over this many days, the last of which is the end: one odd day moves nothing. */
export function medianDaysFor(horizonDays: number): number {
  return Math.min(3, horizonDays)
}

/**
 * What became of a rank over the horizon; undefined where the ranks of the later end are not known. Nothing after
 * the horizon's last day is looked at, so an embargo of one horizon keeps learning and judging apart.
 */
export function labelOf(
  history: History,
  series: number,
  at: number,
  horizonDays: number,
): number | undefined {
  const { starts, days } = history
  const width = medianDaysFor(horizonDays)
  const target = days[at]! + horizonDays
  const seriesEnd = starts[series + 1]!
  let last = at
  while (last + 1 < seriesEnd && days[last + 1]! <= target) last++
  if (last === at || days[last]! <= target - width) return undefined
  const end = medianPlace(history, starts[series]!, last, target - width)
  const start = medianPlace(history, starts[series]!, at, days[at]! - width)
  return classOf(start, end)
}

export function classOf(start: number, end: number): number {
  const moved = Math.abs(end - start)
  // Written so that a move of exactly 12 % counts whatever floating point makes of it.
  if (moved < leastPlaces || moved * 100 < start * leastShare * 100 - 1e-9) return hold
  return end < start ? rise : fall
}

/** The median place of at most three ranks: those up to `last` on days after `afterDay`. */
export function medianPlace(
  { days, places }: History,
  first: number,
  last: number,
  afterDay: number,
): number {
  const a = Math.abs(places[last]!)
  if (last === first || days[last - 1]! <= afterDay) return a
  const b = Math.abs(places[last - 1]!)
  if (last - 1 === first || days[last - 2]! <= afterDay) return (a + b) / 2
  const c = Math.abs(places[last - 2]!)
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
}
