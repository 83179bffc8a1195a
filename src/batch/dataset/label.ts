import { type History, placeDownTo } from './history.ts'

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

/** Both ends of a move are medians over up to this many days: one odd day moves nothing. */
export function medianDaysFor(horizonDays: number): number {
  return Math.min(3, horizonDays)
}

/** What became of a rank over the horizon. */
export type Move = {
  label: number
  /** It was visible at both ends, so that its move is one between two places. */
  ranked: boolean
}

/**
 * Both ends are looked at down to the shallower of their two depths; a median is over the ranks of up to three days
 * that can be told there. Undefined where the ranks of the later end are not known, or where neither end is visible at
 * that depth and one of them is known to stand below it. Nothing after the horizon's last day is looked at, so an
 * embargo of one horizon keeps learning and judging apart: the end's days are the last of the horizon.
 */
export function moveOf(history: History, series: number, at: number, horizonDays: number): Move | undefined {
  const { starts, days, depths } = history
  const width = medianDaysFor(horizonDays)
  const target = days[at]! + horizonDays
  const seriesEnd = starts[series + 1]!
  let last = at
  while (last + 1 < seriesEnd && days[last + 1]! <= target) last++
  if (last === at || days[last]! <= target - width) return undefined

  const depth = Math.min(depths[at]!, depths[last]!)
  const early = windowOf(history, series, at, daysAround(days[at]!, width))
  const late = windowOf(history, series, last, [target - width + 1, target])
  const start = medianOf(history, early, depth)
  const end = medianOf(history, late, depth)
  if (start > depth && end > depth) {
    const below = seenBelow(history, early, depth) || seenBelow(history, late, depth)
    return below ? undefined : { label: hold, ranked: false }
  }
  return { label: classOf(start, end), ranked: start <= depth && end <= depth }
}

/** The median place of the ranks around one of them, between two days not more than two apart, down to a depth. */
export function medianPlace(
  history: History,
  series: number,
  at: number,
  days: Between,
  depth: number,
): number {
  return medianOf(history, windowOf(history, series, at, days), depth)
}

/** From the first to the last, both counted. */
type Between = readonly [first: number, last: number]

/**
 * The start of a move lies in the middle of its days. Were it the median of the days up to it, it would lag behind the
 * latest rank, and that lag alone would tell much about the next move, also of ranks that move by chance.
 */
function daysAround(day: number, width: number): Between {
  const reach = (width - 1) >> 1
  return [day - reach, day + reach]
}

/** The ranks around one of them that lie between two days. */
function windowOf(
  { starts, days }: History,
  series: number,
  at: number,
  [firstDay, lastDay]: Between,
): Between {
  const to = starts[series + 1]!
  let [first, last] = [at, at]
  while (first > starts[series]! && days[first - 1]! >= firstDay) first--
  while (last + 1 < to && days[last + 1]! <= lastDay) last++
  return [first, last]
}

/** The median of at most three places, as seen down to a depth; those that cannot be told there do not count. */
function medianOf(history: History, [first, last]: Between, depth: number): number {
  let sum = 0
  let count = 0
  let least = Number.POSITIVE_INFINITY
  let most = 0
  for (let at = first; at <= last; at++) {
    const place = placeDownTo(history, at, depth)
    if (Number.isNaN(place)) continue
    sum += place
    count++
    if (place < least) least = place
    if (place > most) most = place
  }
  return count < 3 ? sum / count : sum - least - most
}

/** Whether a rank was found below a depth: what was not found down there may stand higher or lower than it. */
function seenBelow({ places }: History, [first, last]: Between, depth: number): boolean {
  for (let at = first; at <= last; at++) if (places[at]! > depth) return true
  return false
}

export function classOf(start: number, end: number): number {
  const moved = Math.abs(end - start)
  // Written so that a move of exactly 12 % counts whatever floating point makes of it.
  if (moved < leastPlaces || moved * 100 < start * leastShare * 100 - 1e-9) return hold
  return end < start ? rise : fall
}
