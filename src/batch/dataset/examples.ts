/**
 * What a classifier learns from: one row per keyword and day, in day order, so that every split by time
 * is a range of rows and costs no copy.
 */
export type Examples = {
  /** One array per feature; NaN says missing. Float32 is the precision of training and of scoring alike. */
  columns: Float32Array[]
  /** The class of each row, 0 … classes − 1. */
  labels: Uint8Array
  /** 1 where the keyword was visible at both ends of its move, so that telling found from not found is no merit; absent: everywhere. */
  ranked?: Uint8Array
  /** The ordinal day of each row, ascending. */
  days: Int32Array
  /** The keyword of each row, as a dense index. */
  groups: Int32Array
}

export function sliceExamples(examples: Examples, from: number, to: number): Examples {
  return {
    columns: examples.columns.map((column) => column.subarray(from, to)),
    labels: examples.labels.subarray(from, to),
    ...(examples.ranked && { ranked: examples.ranked.subarray(from, to) }),
    days: examples.days.subarray(from, to),
    groups: examples.groups.subarray(from, to),
  }
}

/**
 * At most about so many rows: days of each keyword are left out evenly, other days for other keywords, so that every
 * keyword and every day still speaks. Days next to each other tell nearly the same; another keyword does not.
 */
export function thinDays(examples: Examples, most: number): Examples {
  const { ranked, days, groups } = examples
  const share = most / days.length
  if (share >= 1) return examples
  const kept = new Int32Array(days.length)
  let count = 0
  for (let row = 0; row < days.length; row++) if (isKept(days[row]!, groups[row]!, share)) kept[count++] = row
  const rows = kept.subarray(0, count)
  const columns = roomForColumns(examples.columns.length, count)
  return {
    columns: columns.map((column, at) => pick(examples.columns[at]!, rows, column)),
    labels: pick(examples.labels, rows, new Uint8Array(count)),
    ...(ranked && { ranked: pick(ranked, rows, new Uint8Array(count)) }),
    days: pick(days, rows, new Int32Array(count)),
    groups: pick(groups, rows, new Int32Array(count)),
  }
}

/**
 * Columns for so many rows, in one block that two threads can learn from at once: a copy for each thread, and many small
 * blocks between which holes are left, would take a hundred megabytes more.
 */
export function roomForColumns(columns: number, rows: number): Float32Array[] {
  const block = new SharedArrayBuffer(4 * columns * rows)
  return Array.from({ length: columns }, (_, at) => new Float32Array(block, 4 * rows * at, rows))
}

/** A bare loop: `from` with a function takes ten times as long, and there are thirty columns of a million rows. */
function pick<Column extends Float32Array | Int32Array | Uint8Array>(
  column: Column,
  rows: Int32Array,
  picked: Column,
): Column {
  for (let at = 0; at < rows.length; at++) picked[at] = column[rows[at]!]!
  return picked
}

/** Which rows count: all of them, or those on which the keyword was visible at both ends of its move. */
export type Among = 'all' | 'ranked'

/** 1 where a row counts; undefined: all do. */
export function countedRows({ ranked }: Examples, among: Among): Uint8Array | undefined {
  return among === 'ranked' ? ranked : undefined
}

export function countRows(examples: Examples, among: Among): number {
  const counted = countedRows(examples, among)
  if (!counted) return examples.labels.length
  let count = 0
  for (let row = 0; row < counted.length; row++) count += counted[row]!
  return count
}

/** Whether a day of a keyword stays when only this share of the days does. */
export function isKept(day: number, group: number, share: number): boolean {
  const at = day + group
  return Math.floor((at + 1) * share) > Math.floor(at * share)
}

export function rowsBefore(examples: Examples, day: number): Examples {
  return sliceExamples(examples, 0, firstRowOnOrAfter(examples.days, day))
}

export function rowsFrom(examples: Examples, day: number): Examples {
  return sliceExamples(examples, firstRowOnOrAfter(examples.days, day), examples.days.length)
}

/** Rows to learn from, and later rows to be judged on. */
export type TimeSplit = { past: Examples; future: Examples; futureFrom: number }

/** Sets the last fifth of the days aside, at least one. Undefined when no row is left to learn from. */
export function holdOut(examples: Examples, embargoDays: number): TimeSplit | undefined {
  const days = distinctDays(examples)
  const from = days[days.length - Math.max(1, Math.round(days.length / 5))]
  return from === undefined ? undefined : splitAt(examples, from, Number.POSITIVE_INFINITY, embargoDays)
}

/**
 * Rolling origins: the last third of the days in up to three windows, each to be predicted from what was known
 * before it.
 */
export function rollingSplits(examples: Examples, embargoDays: number): TimeSplit[] {
  const days = distinctDays(examples)
  const late = days.slice(-Math.max(1, Math.round(days.length / 3)))
  const windows = Math.min(3, late.length)
  const edges = Array.from(
    { length: windows },
    (_, window) => late[Math.floor((window * late.length) / windows)]!,
  )
  return edges
    .map((from, window) =>
      splitAt(examples, from, edges[window + 1] ?? Number.POSITIVE_INFINITY, embargoDays),
    )
    .filter((split) => split !== undefined)
}

/**
 * The past ends `embargoDays` before the future begins, because a row's label looks that far ahead and would
 * tell of the future.
 */
function splitAt(
  examples: Examples,
  from: number,
  until: number,
  embargoDays: number,
): TimeSplit | undefined {
  const pastEnd = firstRowOnOrAfter(examples.days, from - embargoDays)
  if (pastEnd === 0) return undefined
  const start = firstRowOnOrAfter(examples.days, from)
  const end = firstRowOnOrAfter(examples.days, until)
  return {
    past: sliceExamples(examples, 0, pastEnd),
    future: sliceExamples(examples, start, end),
    futureFrom: from,
  }
}

function distinctDays(examples: Examples): number[] {
  return [...new Set(examples.days)]
}

export function countClasses(labels: Uint8Array, classes: number): Float64Array {
  const counts = new Float64Array(classes)
  for (const label of labels) counts[label]! += 1
  return counts
}

function firstRowOnOrAfter(days: Int32Array, day: number): number {
  let low = 0
  let high = days.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (days[middle]! < day) low = middle + 1
    else high = middle
  }
  return low
}
