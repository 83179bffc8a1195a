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
  /** Stands for the page that was found; 0 is none. */
  urls: Int32Array<ArrayBuffer>
  /** The workspace of each series, as a dense index that never falls. */
  sites: Int32Array<ArrayBuffer>
  /** The keyword of each series, as a dense index; one keyword in two workspaces is one. */
  keywords: Int32Array<ArrayBuffer>
  /** Where the volumes of each keyword begin, and for each its month (years × 12 + month − 1) and value. */
  volumeStarts: Int32Array<ArrayBuffer>
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

export type Span = { firstDay: number; lastDay: number }

/** The first and the last day; undefined of an empty history. */
export function spanOf({ days }: History): Span | undefined {
  if (days.length === 0) return undefined
  let firstDay = days[0]!
  let lastDay = firstDay
  for (const day of days) {
    if (day < firstDay) firstDay = day
    if (day > lastDay) lastDay = day
  }
  return { firstDay, lastDay }
}

const msPerDay = 86_400_000

export function dayName(ordinal: number): string {
  return new Date(ordinal * msPerDay).toISOString().slice(0, 10)
}

export function dayOrdinal(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) / msPerDay
}

/** The month of a day, as the history counts months. */
export function monthOf(ordinal: number): number {
  const date = new Date(ordinal * msPerDay)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** The buffers of a history, to be moved to another thread. */
export function buffersOf(history: History): ArrayBuffer[] {
  return Object.values(history).map((array) => array.buffer)
}
