/**
 * All usable ranks, series after series and in each by day, as flat arrays: a million rows are some megabytes and go
 * to another thread without a copy. A series is a keyword on one engine, device and location.
 */
export type History = {
  /** Where the ranks of each series begin; one entry more than there are series. */
  starts: Int32Array<ArrayBuffer>
  /** Days since 1970-01-01. */
  days: Int32Array<ArrayBuffer>
  /** The position; where the search did not find it, the first place beyond its depth, negative. */
  places: Int16Array<ArrayBuffer>
  /** How far down the search looked. */
  depths: Int16Array<ArrayBuffer>
  /** Stands for the page that was found; 0 is none. */
  urls: Int32Array<ArrayBuffer>
  /** The workspace of each series, as a dense index that never falls. */
  sites: Int32Array<ArrayBuffer>
  /** The keyword of each series, as a dense index; one keyword in two workspaces is one. */
  keywords: Int32Array<ArrayBuffer>
  /** 1 where a series is in the sample that is learnt from; others are there to be told of. Absent: all are in it. */
  inSample?: Uint8Array<ArrayBuffer>
  /** Where the sources of each keyword's volumes begin, by name; one entry more than there are keywords. */
  sourceStarts: Int32Array<ArrayBuffer>
  /** Where the months of each source begin, oldest first; one entry more than there are sources. */
  volumeStarts: Int32Array<ArrayBuffer>
  /** A month (years × 12 + month − 1) and its volume as it was known when the month ended. */
  volumeMonths: Int32Array<ArrayBuffer>
  volumes: Float64Array<ArrayBuffer>
}

/** What a series is of. */
export type SeriesName = {
  workspaceId: string
  keywordId: bigint
  engine: string
  device: string
  location: string
}

export type DaySpan = { firstDay: number; lastDay: number }

/** This share of the rows at either end of time says nothing about how long the history is. */
const strayShare = 0.01

/**
 * From the 1st to the 99th percentile of the days of all rows: a few stray rows do not make a long history of a short
 * one. Undefined of an empty history.
 */
export function spanOf(history: History): DaySpan | undefined {
  const calendar = calendarOf(history)
  if (!calendar) return undefined
  const stray = Math.floor(history.days.length * strayShare)
  return {
    firstDay: dayAfterRows(calendar.days, calendar.rows, stray),
    lastDay: dayAfterRows(calendar.days.toReversed(), calendar.rows.toReversed(), stray),
  }
}

/** The day of the row that follows when so many rows are passed over, day by day. */
function dayAfterRows(days: Int32Array, rows: Int32Array, skipped: number): number {
  let at = 0
  for (let passed = rows[0]!; passed <= skipped; passed += rows[at]!) at++
  return days[at]!
}

/** The days on which there are ranks, ascending. */
export type Calendar = {
  days: Int32Array
  /** How many ranks each has. */
  rows: Int32Array
  /** The place of each day in `days`, counted from the first; −1 is a day without ranks. */
  placeOf: (day: number) => number
}

export function calendarOf({ days }: History): Calendar | undefined {
  if (days.length === 0) return undefined
  const firstDay = days.reduce((least, day) => Math.min(least, day))
  const lastDay = days.reduce((most, day) => Math.max(most, day))
  const counts = new Int32Array(lastDay - firstDay + 1)
  for (const day of days) counts[day - firstDay]!++
  return calendarFrom(firstDay, counts)
}

/** The calendar of so many ranks on each day from the first on. */
export function calendarFrom(firstDay: number, counts: Int32Array): Calendar {
  const present: number[] = []
  const places = Int32Array.from(counts, (count, at) => (count === 0 ? -1 : present.push(firstDay + at) - 1))
  return {
    days: Int32Array.from(present),
    rows: counts.filter((count) => count > 0),
    placeOf: (day) => places[day - firstDay] ?? -1,
  }
}

/**
 * The place a rank shows to somebody who looks down to a depth: beyond it, the first place after. NaN where the search
 * ended before that depth without a find: it may stand anywhere below.
 */
export function placeDownTo({ places, depths }: History, at: number, depth: number): number {
  const place = places[at]!
  if (place > 0) return place <= depth ? place : depth + 1
  return depths[at]! >= depth ? depth + 1 : Number.NaN
}

/** Logarithms of all places there are, one beyond the deepest search included. */
export const logs: Float64Array = Float64Array.from({ length: 32_768 }, (_, place) => Math.log(place))

export function isInSample({ inSample }: History, series: number): boolean {
  return inSample?.[series] !== 0
}

const msPerDay = 86_400_000

export function dayName(ordinal: number): string {
  return new Date(ordinal * msPerDay).toISOString().slice(0, 10)
}

export function dayOrdinal(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) / msPerDay
}

/** The month of a day, as the history counts months. */
export function monthOrdinal(ordinal: number): number {
  const date = new Date(ordinal * msPerDay)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** The buffers of a history, to be moved to another thread. */
export function buffersOf(history: History): ArrayBuffer[] {
  return Object.values(history).map((array) => array.buffer)
}
