import type { Examples } from './examples.ts'
import { type History, monthOf, type Span, spanOf } from './history.ts'
import { horizonFor, labelOf, medianPlace } from './label.ts'

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

/** Ranks older than this tell nothing. */
const windowDays = 28
/** The median that a rank is compared with is taken over so many days. */
const medianDays = 3

/** Every rank whose outcome is known, as an example, in day order. */
export function examplesOf(history: History, horizonDays: number): Examples {
  const { starts, days, keywords } = history
  const observations: number[] = []
  const labels: number[] = []
  const groups: number[] = []
  for (let series = 0; series + 1 < starts.length; series++) {
    for (let at = starts[series]!; at < starts[series + 1]!; at++) {
      const label = labelOf(history, series, at, horizonDays)
      if (label === undefined) continue
      observations.push(at)
      labels.push(label)
      groups.push(keywords[series]!)
    }
  }
  const rows = dayOrder(Int32Array.from(observations, (at) => days[at]!))
  const sorted = {
    labels: new Uint8Array(rows.length),
    days: new Int32Array(rows.length),
    groups: new Int32Array(rows.length),
  }
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!
    sorted.labels[row] = labels[i]!
    sorted.days[row] = days[observations[i]!]!
    sorted.groups[row] = groups[i]!
  }
  return { columns: featuresOf(history, Int32Array.from(observations), rows), ...sorted }
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
 * than a rank's own day is looked at, of its series or of any other.
 */
export function featuresOf(history: History, observations: Int32Array, rows: Int32Array): Float32Array[] {
  const columns = featureNames.map(() => new Float32Array(observations.length))
  const span = spanOf(history)
  if (!span) return columns
  const logs = Float64Array.from(history.places, (place) => Math.log(Math.abs(place)))
  const market = meanChanges(history, logs, span, 0, history.starts.length - 1)
  const row = new Float64Array(featureNames.length)
  let next = 0
  for (let from = 0; from + 1 < history.starts.length && next < observations.length; ) {
    const to = endOfSite(history, from)
    // A site without a rank to describe is passed over.
    if (observations[next]! < history.starts[to]!) {
      const site = meanChanges(history, logs, span, from, to)
      for (let series = from; series < to; series++) {
        const end = history.starts[series + 1]!
        for (; next < observations.length && observations[next]! < end; next++) {
          describe(history, logs, series, observations[next]!, row)
          describeSurroundings(history, series, observations[next]!, site, market, span, row)
          for (let feature = 0; feature < row.length; feature++)
            columns[feature]![rows[next]!] = row[feature]!
        }
      }
    }
    from = to
  }
  return columns
}

function endOfSite({ sites }: History, from: number): number {
  let to = from + 1
  while (to < sites.length && sites[to] === sites[from]) to++
  return to
}

/** Two checks further apart than this say nothing about the change of a day. */
const widestGap = 3

/** By how much ranks changed from the check before, on each day of the span, as a mean over some series. */
function meanChanges(
  { starts, days }: History,
  logs: Float64Array,
  { firstDay, lastDay }: Span,
  from: number,
  to: number,
): Float64Array {
  const sums = new Float64Array(lastDay - firstDay + 1)
  const counts = new Int32Array(sums.length)
  for (let series = from; series < to; series++) {
    for (let at = starts[series]! + 1; at < starts[series + 1]!; at++) {
      if (days[at]! - days[at - 1]! > widestGap) continue
      const day = days[at]! - firstDay
      sums[day]! += logs[at]! - logs[at - 1]!
      counts[day]!++
    }
  }
  for (let day = 0; day < sums.length; day++)
    sums[day] = counts[day] === 0 ? Number.NaN : sums[day]! / counts[day]!
  return sums
}

const lags = [
  { days: 1, oldest: 3 },
  { days: 3, oldest: 6 },
  { days: 7, oldest: 10 },
  { days: 14, oldest: 18 },
] as const

/** What the series itself tells, from the last 28 days. */
function describe(history: History, logs: Float64Array, series: number, at: number, row: Float64Array): void {
  const { starts, days, places, urls } = history
  const first = starts[series]!
  const today = days[at]!
  const now = logs[at]!
  row[0] = now
  for (let lag = 0; lag < lags.length; lag++) row[1 + lag] = Number.NaN

  const week = openMoments()
  const month = openMoments()
  let lag = 0
  let best = now
  let worst = now
  let topTen = 0
  let notFound = 0
  let urlChanges = 0
  let sinceUrlChange = Number.NaN
  for (let i = at; i >= first; i--) {
    const age = today - days[i]!
    if (age >= windowDays) break
    const log = logs[i]!
    while (lag < lags.length && age >= lags[lag]!.days) {
      if (age <= lags[lag]!.oldest) row[1 + lag] = now - log
      lag++
    }
    if (age < 7) addMoment(week, -age, log)
    addMoment(month, -age, log)
    if (log < best) best = log
    if (log > worst) worst = log
    const place = places[i]!
    if (place < 0) notFound++
    else if (place <= 10) topTen++
    if (i > first && urls[i] !== 0 && urls[i - 1] !== 0 && urls[i] !== urls[i - 1]) {
      urlChanges++
      if (Number.isNaN(sinceUrlChange)) sinceUrlChange = age
    }
  }
  row[5] = now - week.sum / week.count
  row[6] = now - month.sum / month.count
  row[7] = slopeOf(week)
  row[8] = slopeOf(month)
  row[9] = spreadOf(week)
  row[10] = spreadOf(month)
  row[11] = now - best
  row[12] = worst - now
  row[13] = now - Math.log(medianPlace(history, first, at, today - medianDays))
  row[14] = topTen / month.count
  row[15] = notFound / month.count
  row[16] = month.count
  row[17] = at > first ? Math.min(windowDays, today - days[at - 1]!) : Number.NaN
  row[18] = urlChanges
  row[19] = sinceUrlChange
}

const angle = (2 * Math.PI) / 7
const weekdaySin = Float64Array.from({ length: 7 }, (_, day) => Math.sin(angle * day))
const weekdayCos = Float64Array.from({ length: 7 }, (_, day) => Math.cos(angle * day))

/** What the day, the site, the market and the searchers tell. */
function describeSurroundings(
  history: History,
  series: number,
  at: number,
  site: Float64Array,
  market: Float64Array,
  span: Span,
  row: Float64Array,
): void {
  const today = history.days[at]!
  const day = today - span.firstDay
  const weekday = ((today % 7) + 7) % 7
  row[20] = weekdaySin[weekday]!
  row[21] = weekdayCos[weekday]!
  row[22] = site[day]!
  let sum = 0
  for (let i = Math.max(0, day - 6); i <= day; i++) if (!Number.isNaN(site[i]!)) sum += site[i]!
  row[23] = sum
  row[24] = market[day]!
  describeVolume(history, history.keywords[series]!, monthOf(today), row)
}

/** Volumes of the months before this one: the running month is not known before it ends. */
function describeVolume(
  { volumeStarts, volumeMonths, volumes }: History,
  keyword: number,
  month: number,
  row: Float64Array,
): void {
  const first = volumeStarts[keyword]!
  let last = volumeStarts[keyword + 1]! - 1
  while (last >= first && volumeMonths[last]! >= month) last--
  if (last < first || volumeMonths[last]! < month - 3) {
    row[25] = row[26] = Number.NaN
    return
  }
  row[25] = Math.log1p(volumes[last]!)
  let sum = 0
  let count = 0
  for (let at = last - 1; at >= first && volumeMonths[at]! >= volumeMonths[last]! - 3; at--, count++)
    sum += volumes[at]!
  row[26] = count === 0 ? Number.NaN : row[25]! - Math.log1p(sum / count)
}

type Moments = {
  count: number
  sum: number
  squares: number
  times: number
  timeSquares: number
  products: number
}

function openMoments(): Moments {
  return { count: 0, sum: 0, squares: 0, times: 0, timeSquares: 0, products: 0 }
}

function addMoment(moments: Moments, time: number, value: number): void {
  moments.count++
  moments.sum += value
  moments.squares += value * value
  moments.times += time
  moments.timeSquares += time * time
  moments.products += time * value
}

/** Change per day along the least-squares line. */
function slopeOf({ count, sum, times, timeSquares, products }: Moments): number {
  const spread = count * timeSquares - times * times
  return spread === 0 ? Number.NaN : (count * products - times * sum) / spread
}

function spreadOf({ count, sum, squares }: Moments): number {
  return count < 2 ? Number.NaN : Math.sqrt(Math.max(0, squares - (sum * sum) / count) / (count - 1))
}
