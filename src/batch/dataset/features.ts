import { type Examples, isKept, roomForColumns } from './examples.ts'
import { type History, isInSample, logs, monthOrdinal, placeDownTo, spanOf } from './history.ts'
import { horizonFor, medianPlace, moveOf } from './label.ts'
import { addMoment, openMoments, slopeOf, spreadOf } from './moments.ts'
import { meanWith, ownChange, type Surroundings, surroundingsOf } from './surroundings.ts'

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
 * Every rank whose outcome is known, of the series of the sample or of some others, as an example, in day order; of a long
 * history, only the days that are kept. Ranks before the first day of the history's span (a few stray old ones) make no examples.
 */
export function examplesOf(
  history: History,
  horizonDays: number,
  kept = daysKept(history),
  isWanted = (series: number) => isInSample(history, series),
): Examples {
  const { starts, days, keywords } = history
  const firstDay = spanOf(history)?.firstDay ?? 0
  const eachKept = (act: (series: number, at: number) => void) => {
    for (let series = 0; series + 1 < starts.length; series++) {
      if (!isWanted(series)) continue
      for (let at = starts[series]!; at < starts[series + 1]!; at++)
        if (days[at]! >= firstDay && isKept(days[at]!, keywords[series]!, kept)) act(series, at)
    }
  }
  // As long as they can get: lists of numbers that grow leave a hundred megabytes behind.
  let most = 0
  eachKept(() => most++)
  const found = {
    observations: new Int32Array(most),
    labels: new Uint8Array(most),
    ranked: new Uint8Array(most),
    groups: new Int32Array(most),
  }
  let count = 0
  eachKept((series, at) => {
    const move = moveOf(history, series, at, horizonDays)
    if (!move) return
    found.observations[count] = at
    found.labels[count] = move.label
    found.ranked[count] = move.ranked ? 1 : 0
    found.groups[count] = keywords[series]!
    count++
  })
  const observations = found.observations.subarray(0, count)
  const rows = dayOrder(observations.map((at) => days[at]!))
  // Two threads learn from them, too.
  const sorted = {
    labels: new Uint8Array(new SharedArrayBuffer(count)),
    ranked: new Uint8Array(new SharedArrayBuffer(count)),
    days: new Int32Array(new SharedArrayBuffer(4 * count)),
    groups: new Int32Array(new SharedArrayBuffer(4 * count)),
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
  const columns = roomForColumns(featureNames.length, observations.length)
  const volumes = openVolumes(history)
  const row = new Float64Array(featureNames.length)
  let next = 0
  for (let series = 0; series + 1 < history.starts.length && next < observations.length; series++) {
    const end = history.starts[series + 1]!
    for (; next < observations.length && observations[next]! < end; next++) {
      const at = observations[next]!
      describe(history, series, at, row)
      describeSurroundings(history, series, at, around!, row)
      volumes.describe(history.keywords[series]!, history.days[at]!, row)
      for (let feature = 0; feature < row.length; feature++) columns[feature]![rows[next]!] = row[feature]!
    }
  }
  return columns
}

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
  history: History,
  series: number,
  at: number,
  { calendar, market, siteOf }: Surroundings,
  row: Float64Array,
): void {
  const today = history.days[at]!
  const weekday = ((today % 7) + 7) % 7
  row[columnOf.weekday_sin] = weekdaySin[weekday]!
  row[columnOf.weekday_cos] = weekdayCos[weekday]!
  const site = siteOf(history.sites[series]!)
  const place = calendar.placeOf(today)
  const own = ownChange(history, series, at, today)
  row[columnOf.site_change_1] = meanWith(site, place, own)
  let sum = 0
  for (let i = place; i >= 0 && calendar.days[i]! > today - 7; i--) {
    const change = meanWith(site, i, ownChange(history, series, at, calendar.days[i]!))
    if (!Number.isNaN(change)) sum += change
  }
  row[columnOf.site_change_7] = sum
  row[columnOf.market_change_1] = meanWith(market, place, own)
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
