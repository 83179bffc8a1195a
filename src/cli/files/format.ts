import { cleanKeyword } from '../../batch/keywords/keyword.ts'
import { parseDay } from '../../platform/time.ts'
import { FileTrouble, type Row, type Table, type Workbook } from './table.ts'

/** What the operator says about a file that it does not say itself. */
export type Said = {
  /** The day of its rows; of volumes, the day that their window ends with, or any day of their month. */
  readonly day?: string | undefined
  /** Which of the sites in it. */
  readonly site?: string | undefined
  readonly device?: string | undefined
  readonly location?: string | undefined
  /** How far down its maker looked. */
  readonly depth?: number | undefined
  /** In whose days instants are told; absent: UTC. */
  readonly timeZone?: string | undefined
}

export type Fields = Record<string, unknown>

/** A file whose format is known: where its rows begin, and what each of them says. */
export type Reading = {
  readonly table: Table
  /** The line of the header; rows stand below it. */
  readonly headerLine: number
  /** Columns that this format is not known to have. Nothing is read from them. */
  readonly unknownColumns: readonly string[]
  /** What somebody should know who reads the result. */
  readonly notes: readonly string[]
  /** Sees every row once before any is read, where what a row tells depends on others. */
  look?(row: Row): void
  /**
   * The observations in a row, of which there may be none, and the code of what is wrong with one in the place of it; or the
   * code of what is wrong with the row as a whole.
   */
  read(row: Row): readonly (Fields | string)[] | string
}

/** A kind of file that people have. */
export type FileFormat = {
  /** As the command line names it. */
  readonly name: string
  readonly title: string
  readonly tells: 'ranks' | 'volumes'
  /** Undefined: this is no such file. Throws a `FileTrouble` where it is one, and something is missing. */
  open(book: Workbook, said: Said): Reading | undefined
}

/** The columns of a format: those that are read, by all their names, and those that are there and tell nothing here. */
export type Columns<Name extends string> = {
  readonly read: Readonly<Record<Name, readonly string[]>>
  readonly required: readonly Name[]
  readonly ignored: readonly (string | RegExp)[]
}

export type Header<Name extends string> = {
  readonly line: number
  readonly titles: readonly string[]
  readonly unknown: readonly string[]
  has(name: Name): boolean
  /** The cell of a column, trimmed; empty where the file has no such column. */
  cell(row: Row, name: Name): string
}

/** The first table that has such a header. */
export function findTable<Name extends string>(
  { tables }: Workbook,
  columns: Columns<Name>,
): { table: Table; header: Header<Name> } | undefined {
  for (const table of tables) {
    const header = findHeader(table, columns)
    if (header) return { table, header }
  }
  return undefined
}

/** Looks for a header among the first rows of a table; what stands above it is preamble. */
export function findHeader<Name extends string>(
  table: Table,
  columns: Columns<Name>,
): Header<Name> | undefined {
  for (const row of table.head) {
    const header = headerOf(row.line, row.cells ?? [], columns)
    if (header) return header
  }
  return undefined
}

/** A row as a header, if all columns are in it that the format has to have. */
export function headerOf<Name extends string>(
  line: number,
  cells: readonly string[],
  { read, required, ignored }: Columns<Name>,
): Header<Name> | undefined {
  const titles = withoutEmptyEnd(cells.map(fold))
  const places = new Map<Name, number>()
  for (const name of Object.keys(read) as Name[]) {
    const known = read[name].map(fold)
    const at = titles.findIndex((title) => known.includes(title))
    if (at >= 0) places.set(name, at)
  }
  if (!required.every((name) => places.has(name))) return undefined
  const used = new Set(places.values())
  const isIgnored = (title: string) =>
    ignored.some((one) => (typeof one === 'string' ? fold(one) === title : one.test(title)))
  return {
    line,
    titles,
    unknown: titles.filter((title, at) => title !== '' && !used.has(at) && !isIgnored(title)),
    has: (name) => places.has(name),
    cell: (row, name) => row.cells?.[places.get(name) ?? -1]?.trim() ?? '',
  }
}

/** Titles are compared without regard to case, spaces and the signs that exports put around them. */
function fold(title: string): string {
  return title
    .normalize('NFC')
    .replace(/^\ufeff/, '')
    .trim()
    .replace(/\s+/g, ' ')
    .toLowerCase()
}

function withoutEmptyEnd(cells: readonly string[]): string[] {
  const last = cells.findLastIndex((cell) => cell.trim() !== '')
  return cells.slice(0, last + 1)
}

/** What is wrong with the form of a row: a cut-off row must not be read as one with empty cells. */
export function troubleOf(row: Row, { isSheet }: Table, width: number): string | undefined {
  if (!row.cells) return 'broken_quotes'
  if (row.raw.includes('\ufffd')) return 'wrong_encoding'
  const isShort = !isSheet && row.cells.length < width
  const isLong = row.cells.slice(width).some((cell) => cell.trim() !== '')
  return isShort || isLong ? 'wrong_number_of_cells' : undefined
}

/** A place as an export writes it, or that there is none, in the words of its format. */
export function placeOf(
  text: string,
  notRanked: readonly string[],
  depth: number,
): { fields: Fields } | { code: string } {
  if (notRanked.includes(text)) return { fields: { status: 'not_in_depth', searched_depth: depth } }
  const position = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (!(position >= 1)) return { code: 'position_wrong_form' }
  // Whoever found it there has looked that far.
  return { fields: { status: 'ranked', position, searched_depth: Math.max(position, depth) } }
}

/**
 * Reads rows that each tell one place, and of several for the same keyword, day and series only the best: other pages of the
 * site stand below it, and that one of them is read last must not make it the rank.
 */
export function bestPlaces(read: (row: Row) => Fields | string): Required<Pick<Reading, 'look' | 'read'>> {
  const best = new Map<string, number>()
  const placeIn = ({ position }: Fields) =>
    typeof position === 'number' ? position : Number.POSITIVE_INFINITY
  const nameOf = ({ keyword, day, device, location }: Fields) => {
    const { key } = cleanKeyword(keyword) as { key?: string }
    return JSON.stringify([key ?? keyword, day, device, location])
  }
  return {
    look(row) {
      const told = read(row)
      if (typeof told === 'string') return
      const name = nameOf(told)
      best.set(name, Math.min(placeIn(told), best.get(name) ?? Number.POSITIVE_INFINITY))
    },
    read(row) {
      const told = read(row)
      if (typeof told === 'string') return told
      return placeIn(told) > best.get(nameOf(told))! ? 'not_best_place' : [told]
    },
  }
}

/** A count as exports write it: with commas between thousands, or `< 10`, which says no more than "at most 9". */
export function countOf(text: string): { count: number; isBound: boolean } | undefined {
  const below = /^<\s*(\d{1,9})$/.exec(text)
  if (below && Number(below[1]) > 0) return { count: Number(below[1]) - 1, isBound: true }
  return /^\d{1,12}$|^\d{1,3}(,\d{3}){1,3}$/.test(text)
    ? { count: Number(text.replaceAll(',', '')), isBound: false }
    : undefined
}

/** A day in a file's name: 2026-03-10, 20260310 or 2026_03_10, where only one stands. */
export function dayInName(name: string): string | undefined {
  const found = [...name.matchAll(/(?<!\d)(20\d\d)([-_.]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d)/g)]
  const days = new Set(found.map(([, year, , month, day]) => parseDay(`${year}-${month}-${day}`)))
  const [only] = days
  return days.size === 1 ? only : undefined
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

/** The number of a month by its English name or the first letters of it. */
export function monthOf(name: string): number | undefined {
  const at = months.indexOf(name.slice(0, 3).toLowerCase())
  return at < 0 ? undefined : at + 1
}

/** A day written out: 2026-03-10, 2026. 3. 10., March 10, 2026, 10 March 2026, 2026년 3월 10일. */
export function dayWritten(text: string): string | undefined {
  const byNumber = /^(20\d\d)\s*[-./년]\s*(\d{1,2})\s*[-./월]\s*(\d{1,2})\s*[.일]?$/.exec(text)
  if (byNumber) return dayAt(byNumber[1]!, Number(byNumber[2]), byNumber[3]!)
  const byName =
    /^(?<month>[A-Za-z]{3,9})\.? (?<day>\d{1,2}),? (?<year>20\d\d)$/.exec(text) ??
    /^(?<day>\d{1,2}) (?<month>[A-Za-z]{3,9})\.?,? (?<year>20\d\d)$/.exec(text)
  const { year, month, day } = byName?.groups ?? {}
  return year && month && day ? dayAt(year, monthOf(month), day) : undefined
}

function dayAt(year: string, month: number | undefined, day: string): string | undefined {
  return month === undefined
    ? undefined
    : parseDay(`${year}-${String(month).padStart(2, '0')}-${day.padStart(2, '0')}`)
}

/** The day of a file whose rows have none: what the operator says, else what its name says. */
export function dayOfFile(book: Workbook, said: Said): string {
  const day = said.day ?? dayInName(book.fileName)
  if (day === undefined)
    throw new FileTrouble(
      'Neither the rows nor the name of this file say of which day it is: add --day YYYY-MM-DD.',
    )
  return day
}

/** What the file does not say about the series and the operator has to. Another series must never take it in by mistake. */
export function requireSaid(said: Said, name: 'device' | 'location', examples: string): string {
  const value = said[name]
  if (value === undefined)
    throw new FileTrouble(`This file does not say its ${name}: add --${name}, such as ${examples}.`)
  return value
}
