import { type Examples, isKept } from './examples.ts'
import { type Calendar, calendarOf, type History, monthOrdinal, placeDownTo, spanOf } from './history.ts'
import { horizonFor, medianPlace, moveOf } from './label.ts'
import { addMoment, openMoments, slopeOf, spreadOf } from './moments.ts'

/**
 * What is known of a series on a day. Places count by their logarithm: from 2 to 3 is as far as from 20 to 30. A lower
 * place is a better one, so a fall in rank is a positive change. NaN says not known.
 */
export const featureNames = [
  'place',
  'change_1',
  'change_3',
  'change_7',
  'change_14',
  'deviation_7',
  'deviation_28',
  'slope_7',
  'slope_28',
  'spread_7',
  'spread_28',
  'behind_best_28',
  'ahead_of_worst_28',
  'behind_median',
  'top_ten_share_28',
  'not_found_share_28',
  'checks_28',
  'days_since_check',
  'url_changes_28',
  'days_since_url_change',
  'weekday_sin',
  'weekday_cos',
  'site_change_1',
  'site_change_7',
  'market_change_1',
  'volume',
  'volume_change',
] as const

export type FeatureName = (typeof featureNames)[number]

/** The column of each feature. */
export const columnOf = Object.fromEntries(featureNames.map((name, column) => [name, column])) as Record<
  FeatureName,
  number
>

/** Ranks older than this tell nothing. */
const windowDays = 28
/** The median that a rank is compared with is taken over so many days. */
const medianDays = 3

/** Beyond so many ranks a training would take more time and memory than further days tell it anything new. */
const mostRanks = 1_000_000

/** The share of each keyword's days that is learnt from. */
export function daysKept(history: History, most = mostRanks): number {
  return Math.min(1, most / history.days.length)
}

/**
 * Every rank whose outcome is known, of all series or of some, as an example, in day order; of a long history, only the
 * days that are kept. Ranks before the first day of the history's span (a few stray old ones) make no examples.
 */
export function examplesOf(
  history: History,
  horizonDays: number,
  kept = daysKept(history),
  isWanted: (series: number) => boolean = () => true,
): Examples {
  const { starts, days, keywords } = history
  const firstDay = spanOf(history)?.firstDay ?? 0
  // As long as they can get: lists of numbers that grow leave a hundred megabytes behind.
  const found = {
    observations: new Int32Array(days.length),
    labels: new Uint8Array(days.length),
    ranked: new Uint8Array(days.length),
    groups: new Int32Array(days.length),
  }
  let count = 0
  for (let series = 0; series + 1 < starts.length; series++) {
    if (!isWanted(series)) continue
    for (let at = starts[series]!; at < starts[series + 1]!; at++) {
      if (days[at]! < firstDay || !isKept(days[at]!, keywords[series]!, kept)) continue
      const move = moveOf(history, series, at, horizonDays)
      if (!move) continue
      found.observations[count] = at
      found.labels[count] = move.label
      found.ranked[count] = move.ranked ? 1 : 0
      found.groups[count] = keywords[series]!
      count++
    }
  }
  const observations = found.observations.subarray(0, count)
  const rows = dayOrder(observations.map((at) => days[at]!))
  const sorted = {
    labels: new Uint8Array(count),
    ranked: new Uint8Array(count),
    days: new Int32Array(count),
    groups: new Int32Array(count),
  }
  for (let i = 0; i < count; i++) {
    const row = rows[i]!
    sorted.labels[row] = found.labels[i]!
    sorted.ranked[row] = found.ranked[i]!
    sorted.days[row] = days[observations[i]!]!
    sorted.groups[row] = found.groups[i]!
  }
  return { columns: featuresOf(history, observations, rows), ...sorted }
}

export function horizonOfHistory(history: History): number {
  const span = spanOf(history)
  return span ? horizonFor(span.lastDay - span.firstDay + 1) : 1
}

/** The row each item gets when items are put in day order; items of one day keep theirs. */
function dayOrder(days: Int32Array): Int32Array {
  if (days.length === 0) return new Int32Array()
  const first = days.reduce((least, day) => Math.min(least, day))
  const next = new Int32Array(days.reduce((most, day) => Math.max(most, day)) - first + 2)
  for (const day of days) next[day - first + 1]!++
  for (let at = 1; at < next.length; at++) next[at]! += next[at - 1]!
  return days.map((day) => next[day - first]!++)
}

/**
 * The features of some ranks, given in the order of the history; each goes into the row named beside it. Nothing later
 * than a rank's own day is looked at, of its series, of any other or of volumes. Training and prediction both come here,
 * so a feature cannot mean two things. Whoever passes a part of a history passes the surroundings of the whole.
 */
export function featuresOf(
  history: History,
  observations: Int32Array,
  rows: Int32Array,
  around = surroundingsOf(history),
): Float32Array[] {
  // Two threads may learn from them at once.
  const columns = featureNames.map(() => new Float32Array(new SharedArrayBuffer(4 * observations.length)))
  const volumes = openVolumes(history)
  const row = new Float64Array(featureNames.length)
  let next = 0
  for (let series = 0; series + 1 < history.starts.length && next < observations.length; series++) {
    const end = history.starts[series + 1]!
    for (; next < observations.length && observations[next]! < end; next++) {
      const at = observations[next]!
      describe(history, series, at, row)
      describeSurroundings(history.days[at]!, around!, around!.siteOf(history.sites[series]!), row)
      volumes.describe(history.keywords[series]!, history.days[at]!, row)
      for (let feature = 0; feature < row.length; feature++) columns[feature]![rows[next]!] = row[feature]!
    }
  }
  return columns
}

/** By how much ranks changed from the check before, on each day of the calendar: in all sites, and in each. */
export type Surroundings = { calendar: Calendar; market: DayMeans; siteOf: (site: number) => DayMeans }

/** Means from a place of the calendar on; NaN is a day without any. */
type DayMeans = { first: number; means: Float64Array }

function surroundingsOf(history: History): Surroundings | undefined {
  const calendar = calendarOf(history)
  if (!calendar) return undefined
  const gathering = gatherSurroundings(calendar)
  gathering.add(history)
  return gathering.end()
}

/** Two checks further apart than this say nothing about the change of a day. */
const widestGap = 3

/** Gathers surroundings from a history, or from its parts in their order. */
export function gatherSurroundings(calendar: Calendar): { add(part: History): void; end(): Surroundings } {
  const market = openMeans(calendar)
  const site = openMeans(calendar)
  const sites: DayMeans[] = []
  let current = 0
  const closeSite = () => {
    sites[current] = site.take()
  }

  function addSeries(history: History, series: number): void {
    const { starts, days } = history
    for (let at = starts[series]! + 1; at < starts[series + 1]!; at++) {
      if (days[at]! - days[at - 1]! > widestGap) continue
      const change = changeAt(history, at)
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
        addSeries(part, series)
      }
    },
    end() {
      closeSite()
      return { calendar, market: market.take(), siteOf: (at) => sites[at]! }
    },
  }
}

function openMeans(calendar: Calendar) {
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
      const taken = { first, means: sums.slice(first, end) }
      for (let at = 0; at < taken.means.length; at++) taken.means[at]! /= counts[first + at]!
      sums.fill(0, first, end)
      counts.fill(0, first, end)
      first = sums.length
      end = 0
      return taken
    },
  }
}

function meanAt({ first, means }: DayMeans, place: number): number {
  return means[place - first] ?? Number.NaN
}

/** The change from the check before, at the shallower depth of both. NaN: it went on below that depth, unseen. */
function changeAt(history: History, at: number): number {
  const { places, depths } = history
  const depth = Math.min(depths[at]!, depths[at - 1]!)
  const [now, before] = [placeDownTo(history, at, depth), placeDownTo(history, at - 1, depth)]
  if (now > depth && before > depth && (places[at]! > depth || places[at - 1]! > depth)) return Number.NaN
  return logs[now]! - logs[before]!
}

/** Logarithms of all places there are, one beyond the deepest search included. */
const logs = Float64Array.from({ length: 32_768 }, (_, place) => Math.log(place))

const lags = [
  { days: 1, oldest: 3, column: columnOf.change_1 },
  { days: 3, oldest: 6, column: columnOf.change_3 },
  { days: 7, oldest: 10, column: columnOf.change_7 },
  { days: 14, oldest: 18, column: columnOf.change_14 },
] as const

/**
 * What the series itself tells, from the last 28 days, looked at as deep as today's search went: a rank that an earlier,
 * deeper search found below counts as not seen, and an earlier, shallower search without a find tells nothing.
 */
function describe(history: History, series: number, at: number, row: Float64Array): void {
  const { starts, days, places, depths, urls } = history
  const first = starts[series]!
  const today = days[at]!
  const depth = depths[at]!
  const now = logs[placeDownTo(history, at, depth)]!
  row[columnOf.place] = now
  for (const lag of lags) row[lag.column] = Number.NaN

  const week = openMoments()
  const month = openMoments()
  let lag = 0
  let best = now
  let worst = now
  let checks = 0
  let topTen = 0
  let notFound = 0
  let urlChanges = 0
  let sinceUrlChange = Number.NaN
  for (let i = at; i >= first; i--) {
    const age = today - days[i]!
    if (age >= windowDays) break
    checks++
    const place = places[i]!
    if (place < 0) notFound++
    else if (place <= 10) topTen++
    if (i > first && urls[i] !== 0 && urls[i - 1] !== 0 && urls[i] !== urls[i - 1]) {
      urlChanges++
      if (Number.isNaN(sinceUrlChange)) sinceUrlChange = age
    }
    const seen = placeDownTo(history, i, depth)
    if (Number.isNaN(seen)) continue
    const log = logs[seen]!
    while (lag < lags.length && age >= lags[lag]!.days) {
      if (age <= lags[lag]!.oldest) row[lags[lag]!.column] = now - log
      lag++
    }
    if (age < 7) addMoment(week, -age, log)
    addMoment(month, -age, log)
    if (log < best) best = log
    if (log > worst) worst = log
  }
  row[columnOf.deviation_7] = now - week.sum / week.count
  row[columnOf.deviation_28] = now - month.sum / month.count
  row[columnOf.slope_7] = slopeOf(week)
  row[columnOf.slope_28] = slopeOf(month)
  row[columnOf.spread_7] = spreadOf(week)
  row[columnOf.spread_28] = spreadOf(month)
  row[columnOf.behind_best_28] = now - best
  row[columnOf.ahead_of_worst_28] = worst - now
  row[columnOf.behind_median] =
    now - Math.log(medianPlace(history, series, at, [today - medianDays + 1, today], depth))
  row[columnOf.top_ten_share_28] = topTen / checks
  row[columnOf.not_found_share_28] = notFound / checks
  row[columnOf.checks_28] = checks
  row[columnOf.days_since_check] = at > first ? Math.min(windowDays, today - days[at - 1]!) : Number.NaN
  row[columnOf.url_changes_28] = urlChanges
  row[columnOf.days_since_url_change] = sinceUrlChange
}

const angle = (2 * Math.PI) / 7
const weekdaySin = Float64Array.from({ length: 7 }, (_, day) => Math.sin(angle * day))
const weekdayCos = Float64Array.from({ length: 7 }, (_, day) => Math.cos(angle * day))

/** What the day, the site and the market tell. */
function describeSurroundings(
  today: number,
  { calendar, market }: Surroundings,
  site: DayMeans,
  row: Float64Array,
): void {
  const weekday = ((today % 7) + 7) % 7
  row[columnOf.weekday_sin] = weekdaySin[weekday]!
  row[columnOf.weekday_cos] = weekdayCos[weekday]!
  const day = calendar.placeOf(today)
  row[columnOf.site_change_1] = meanAt(site, day)
  let sum = 0
  for (let i = day; i >= 0 && calendar.days[i]! > today - 7; i--) {
    const change = meanAt(site, i)
    if (!Number.isNaN(change)) sum += change
  }
  row[columnOf.site_change_7] = sum
  row[columnOf.market_change_1] = meanAt(market, day)
}

/** A volume older than so many months is not known any more; a change is against the mean of as many before. */
const volumeMonths = 3

type VolumeFacts = { keyword: number; month: number; volume: number; change: number }

/**
 * Describes a keyword's volume by the months before a day's own month, which is not known until it ends. One source is
 * used: the one with most months by then, of several the first by name. Ranks come series by series and day by day, so
 * the last answer is kept and mostly holds again.
 */
function openVolumes(history: History) {
  const { sourceStarts, volumeStarts, volumes } = history
  let last: VolumeFacts = { keyword: -1, month: -1, volume: Number.NaN, change: Number.NaN }

  function lookUp(keyword: number, month: number): VolumeFacts {
    let newest = -1
    let most = 0
    for (let source = sourceStarts[keyword]!; source < sourceStarts[keyword + 1]!; source++) {
      const candidate = lastBefore(history, source, month)
      const count = candidate + 1 - volumeStarts[source]!
      if (count <= most || history.volumeMonths[candidate]! < month - volumeMonths) continue
      newest = candidate
      most = count
    }
    if (newest < 0) return { keyword, month, volume: Number.NaN, change: Number.NaN }
    const volume = Math.log1p(volumes[newest]!)
    let sum = 0
    let count = 0
    const oldest = history.volumeMonths[newest]! - volumeMonths
    for (let at = newest - 1; at > newest - most && history.volumeMonths[at]! >= oldest; at--, count++)
      sum += volumes[at]!
    return { keyword, month, volume, change: count === 0 ? Number.NaN : volume - Math.log1p(sum / count) }
  }

  return {
    describe(keyword: number, today: number, row: Float64Array): void {
      const month = monthOrdinal(today)
      if (keyword !== last.keyword || month !== last.month) last = lookUp(keyword, month)
      row[columnOf.volume] = last.volume
      row[columnOf.volume_change] = last.change
    },
  }
}

/** The place of a source's newest volume of a month before the one given. */
function lastBefore({ volumeStarts, volumeMonths }: History, source: number, month: number): number {
  let last = volumeStarts[source + 1]! - 1
  while (last >= volumeStarts[source]! && volumeMonths[last]! >= month) last--
  return last
}
