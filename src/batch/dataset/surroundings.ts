import { type Calendar, calendarOf, type History, isInSample, logs, placeDownTo } from './history.ts'

/** By how much ranks changed from the check before, on each day of the calendar: in all sites, and in each. */
export type Surroundings = { calendar: Calendar; market: DayMeans; siteOf: (site: number) => DayMeans }

/** Means from a place of the calendar on; NaN is a day without any. Only a sample needs to know of how many changes each is. */
export type DayMeans = { first: number; means: Float64Array; counts?: Int32Array }

export function surroundingsOf(history: History): Surroundings | undefined {
  const calendar = calendarOf(history)
  if (!calendar) return undefined
  const gathering = gatherSurroundings(calendar, history.inSample !== undefined)
  gathering.add(history)
  return gathering.end()
}

/** Gathers surroundings from the series of the sample, of a history or of its parts in their order. */
export function gatherSurroundings(
  calendar: Calendar,
  isSampled: boolean,
): { add(part: History): void; end(): Surroundings } {
  const market = openMeans(calendar, isSampled)
  const site = openMeans(calendar, isSampled)
  const sites: DayMeans[] = []
  let current = 0
  const closeSite = () => {
    sites[current] = site.take()
  }

  function addSeries(history: History, series: number): void {
    const { starts, days } = history
    for (let at = starts[series]! + 1; at < starts[series + 1]!; at++) {
      const change = dailyChange(history, at)
      if (Number.isNaN(change)) continue
      const place = calendar.placeOf(days[at]!)
      market.add(place, change)
      site.add(place, change)
    }
  }

  return {
    add(part) {
      for (let series = 0; series + 1 < part.starts.length; series++) {
        if (part.sites[series] !== current) closeSite()
        current = part.sites[series]!
        if (isInSample(part, series)) addSeries(part, series)
      }
    },
    end() {
      closeSite()
      return { calendar, market: market.take(), siteOf: (at) => sites[at]! }
    },
  }
}

/**
 * By how much a series changed on a day up to one of its ranks, if it is not in the sample. What is learnt from counts among
 * its own surroundings, and few of a small site are in the sample; so whoever is predicted counts among them, too, or the
 * same figure would mean less of its own move to one than to the other.
 */
export function ownChange(history: History, series: number, at: number, day: number): number {
  if (isInSample(history, series)) return Number.NaN
  const { starts, days } = history
  let on = at
  while (on > starts[series]! && days[on]! > day) on--
  return days[on] === day && on > starts[series]! ? dailyChange(history, on) : Number.NaN
}

/** The mean of a day with one change more, unless that is not known. */
export function meanWith({ first, means, counts }: DayMeans, place: number, own: number): number {
  const mean = means[place - first] ?? Number.NaN
  if (Number.isNaN(own)) return mean
  if (Number.isNaN(mean)) return own
  return mean + (own - mean) / (counts![place - first]! + 1)
}

function openMeans(calendar: Calendar, isSampled: boolean) {
  const sums = new Float64Array(calendar.days.length)
  const counts = new Int32Array(sums.length)
  let first = sums.length
  let end = 0
  return {
    add(place: number, change: number): void {
      sums[place]! += change
      counts[place]!++
      if (place < first) first = place
      if (place >= end) end = place + 1
    },
    /** The means of what was added, which is forgotten. */
    take(): DayMeans {
      const taken = {
        first,
        means: sums.slice(first, end),
        ...(isSampled && { counts: counts.slice(first, end) }),
      }
      for (let at = 0; at < taken.means.length; at++) taken.means[at]! /= counts[first + at]!
      sums.fill(0, first, end)
      counts.fill(0, first, end)
      first = sums.length
      end = 0
      return taken
    },
  }
}

/** Two checks further apart than this say nothing about the change of a day. */
const widestGap = 3

/**
 * The change from the check before, at the shallower depth of both. NaN: that was too long ago, or it went on below that
 * depth, unseen.
 */
function dailyChange(history: History, at: number): number {
  const { days, places, depths } = history
  if (days[at]! - days[at - 1]! > widestGap) return Number.NaN
  const depth = Math.min(depths[at]!, depths[at - 1]!)
  const [now, before] = [placeDownTo(history, at, depth), placeDownTo(history, at - 1, depth)]
  if (now > depth && before > depth && (places[at]! > depth || places[at - 1]! > depth)) return Number.NaN
  return logs[now]! - logs[before]!
}
