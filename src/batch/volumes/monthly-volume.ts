import { invariant } from '../../platform/invariant.ts'
import { addDays, type Day, daysBetween, daysInMonth } from '../../platform/time.ts'
import { type Month, monthOf } from '../month.ts'

/** How the volume of a month came about: reported by its source, summed up from all of its days, or worked out from less. */
export const volumeQualities = ['reported', 'measured', 'estimated'] as const
export type VolumeQuality = (typeof volumeQualities)[number]

/** What an observation speaks of: a day, the 30 days that end with it, or a whole month. */
export const volumeKinds = ['day', 'rolling_30d', 'month'] as const
export type VolumeKind = (typeof volumeKinds)[number]

/** How often one keyword was searched in one month, as one source tells it. */
export type MonthlyVolume = {
  readonly month: Month
  /** Null when the source only said "fewer than": the truth then lies between `volumeMin` and `volumeMax`. */
  readonly volume: number | null
  readonly volumeMin: number
  readonly volumeMax: number
  readonly quality: VolumeQuality
  /** Days of the month that the volume rests on; a reported month rests on all of its days. */
  readonly daysObserved: number
}

/** What a source said on a day: a volume, or only the most it can be (`volumeMax`, censored). */
export type VolumeObservation = {
  readonly kind: VolumeKind
  /** The day itself, the last of the 30 days, or any day of the month. */
  readonly day: Day
  readonly volume: number | null
  readonly volumeMax: number | null
  /** The parts of it that are known exactly: together the least that a censored one can be. */
  readonly pc?: number | null
  readonly mobile?: number | null
}

/** One month alone. Windows reach back, so the observations must run to 29 days past the end of the month. */
export function monthlyVolume(
  month: Month,
  observations: readonly VolumeObservation[],
): MonthlyVolume | undefined {
  return monthlyVolumeFrom(month, index(observations))
}

/**
 * What a month's volume was known to be on the day it ended, as a feature of later days: a window that ends after the
 * month also covers days of it, and nobody knew that window then. The middle of its bounds where only these are known;
 * undefined where there was too little to go by. `whole`: the month worked out of all of them.
 */
export function volumeAtMonthEnd(
  month: Month,
  observations: readonly VolumeObservation[],
  whole?: MonthlyVolume,
): number | undefined {
  const firstOfNext = addDays(`${month}-01`, daysInMonth(Number(month.slice(0, 4)), Number(month.slice(5))))
  const byThen = observations.filter(({ day }) => day < firstOfNext)
  const known = whole && byThen.length === observations.length ? whole : monthlyVolume(month, byThen)
  return known && counts(known) ? (known.volumeMin + known.volumeMax) / 2 : undefined
}

const leastDays = 20

/** A month that its source did not report and that few days were observed of says little about the whole. */
export function counts({ quality, daysObserved }: MonthlyVolume): boolean {
  return quality === 'reported' || daysObserved >= leastDays
}

/** The months to work out again when this observation arrives, however late: up to three for a window. */
export function monthsTouchedBy(observation: Pick<VolumeObservation, 'kind' | 'day'>): Month[] {
  const last = observation.day
  if (observation.kind !== 'rolling_30d') return [monthOf(last)]
  // A window that spans February whole touches three months; its middle then lies in the second.
  const days = [addDays(last, 1 - windowDays), addDays(last, -windowDays / 2), last]
  return [...new Set(days.map(monthOf))]
}

const windowDays = 30

/** Exact when both are equal. */
type Bounds = { readonly min: number; readonly max: number }

/** Observations by what they speak about; days are counted from 1970 for speed. */
type Index = {
  readonly months: ReadonlyMap<Month, { readonly day: Day; readonly bounds: Bounds }>
  readonly days: ReadonlyMap<number, Bounds>
  readonly windowsByLastDay: ReadonlyMap<number, Bounds>
}

function index(observations: readonly VolumeObservation[]): Index {
  const months = new Map<Month, { day: Day; bounds: Bounds }>()
  const days = new Map<number, Bounds>()
  const windowsByLastDay = new Map<number, Bounds>()
  for (const observation of observations) {
    const { kind, day } = observation
    const bounds = boundsOf(observation)
    if (kind === 'month') {
      // Reports are kept under the last day of their month; older ones under the day they named, of which the latest counts.
      const other = months.get(monthOf(day))
      if (!other || other.day < day) months.set(monthOf(day), { day, bounds })
      else if (other.day === day) months.set(monthOf(day), { day, bounds: better(other.bounds, bounds) })
    } else {
      const byDay = kind === 'day' ? days : windowsByLastDay
      const number = dayNumber(day)
      byDay.set(number, better(byDay.get(number), bounds))
    }
  }
  return { months, days, windowsByLastDay }
}

function boundsOf({ volume, volumeMax, pc, mobile }: VolumeObservation): Bounds {
  const max = volume ?? volumeMax
  invariant(max !== null && Number.isSafeInteger(max) && max >= 0, 'an observation has a volume or a bound')
  return { min: volume ?? Math.min(max, (pc ?? 0) + (mobile ?? 0)), max }
}

/**
 * The store keeps one observation per kind and day. Should two differ all the same, an exact one beats a censored
 * one and the greater beats the smaller, so that the order of arrival decides nothing.
 */
function better(a: Bounds | undefined, b: Bounds): Bounds {
  if (!a) return b
  const [exactA, exactB] = [a.min === a.max, b.min === b.max]
  if (exactA !== exactB) return exactA ? a : b
  if (a.max !== b.max) return a.max > b.max ? a : b
  return a.min >= b.min ? a : b
}

/**
 * A month that was reported stands as reported. One with an observation for each of its days is their sum. Any
 * other is estimated: each day counts as observed, or else as the median of the windows that cover it, a thirtieth
 * of each; the days that neither covers are taken to be like the rest.
 */
function monthlyVolumeFrom(month: Month, known: Index): MonthlyVolume | undefined {
  const length = daysInMonth(Number(month.slice(0, 4)), Number(month.slice(5)))
  const report = known.months.get(month)
  if (report) return render(month, report.bounds, 1, 'reported', length)

  const first = dayNumber(`${month}-01`)
  const inSixtieths = { min: 0, max: 0 }
  let measured = 0
  let covered = 0
  for (let day = first; day < first + length; day++) {
    const exact = known.days.get(day)
    const sixtieths = exact ? times(exact, 60) : medianInSixtieths(windowsCovering(day, known))
    if (!sixtieths) continue
    if (exact) measured++
    covered++
    inSixtieths.min += sixtieths.min
    inSixtieths.max += sixtieths.max
  }
  if (covered === 0) return undefined
  const quality = measured === length ? 'measured' : 'estimated'
  return render(month, times(inSixtieths, length), 60 * covered, quality, covered)
}

function windowsCovering(day: number, known: Index): Bounds[] {
  const windows: Bounds[] = []
  for (let last = day; last < day + windowDays; last++) {
    const window = known.windowsByLastDay.get(last)
    if (window) windows.push(window)
  }
  return windows
}

/**
 * One day's share of the median window. A window's day is a thirtieth of it and a median may be half of two
 * windows, so sixtieths keep every sum a whole number, and nothing is rounded before the end.
 */
function medianInSixtieths(windows: readonly Bounds[]): Bounds | undefined {
  if (windows.length === 0) return undefined
  const twiceMedian = (values: number[]) => {
    values.sort((a, b) => a - b)
    return values[(values.length - 1) >> 1]! + values[values.length >> 1]!
  }
  return { min: twiceMedian(windows.map(({ min }) => min)), max: twiceMedian(windows.map(({ max }) => max)) }
}

/** Rounds, once: an exact volume half up, an open one outwards, so that the truth stays between its bounds. */
function render(
  month: Month,
  bounds: Bounds,
  divisor: number,
  quality: VolumeQuality,
  daysObserved: number,
): MonthlyVolume {
  if (bounds.min === bounds.max) {
    const volume = divideHalfUp(bounds.min, divisor)
    return { month, volume, volumeMin: volume, volumeMax: volume, quality, daysObserved }
  }
  const volumeMin = Math.floor(bounds.min / divisor)
  const volumeMax = Math.ceil(bounds.max / divisor)
  return { month, volume: null, volumeMin, volumeMax, quality, daysObserved }
}

const dayNumbers = new Map<Day, number>()
const mostRemembered = 10_000

/** Remembered, because a million observations speak of a few hundred days. */
function dayNumber(day: Day): number {
  let number = dayNumbers.get(day)
  if (number === undefined) {
    if (dayNumbers.size === mostRemembered) dayNumbers.clear()
    number = daysBetween('1970-01-01', day)
    dayNumbers.set(day, number)
  }
  return number
}

function times({ min, max }: Bounds, factor: number): Bounds {
  return { min: min * factor, max: max * factor }
}

export function divideHalfUp(dividend: number, divisor: number): number {
  return Math.floor((2 * dividend + divisor) / (2 * divisor))
}
