import type { ImportChunk, ImportPosition, ImportRecord } from '../../batch/import.ts'
import type { ImportFile } from '../import-file.ts'
import { ahrefs } from './ahrefs.ts'
import type { FileFormat, Reading, Said } from './format.ts'
import { keywordPlanner } from './keyword-planner.ts'
import { naver } from './naver.ts'
import { openWorkbook } from './open-workbook.ts'
import { searchConsole } from './search-console.ts'
import { semrush } from './semrush.ts'
import { serpbear } from './serpbear.ts'
import { serposcope } from './serposcope.ts'
import { FileTrouble, type Row, type Workbook } from './table.ts'

/** Those that ask for the most come first: a header that fits one of them is not looked at by the next. */
export const formats: readonly FileFormat[] = [
  searchConsole,
  keywordPlanner,
  naver,
  serpbear,
  serposcope,
  ahrefs,
  semrush,
]

export type ForeignFile = ImportFile & { readonly format: FileFormat } & Pick<
    Reading,
    'notes' | 'unknownColumns'
  >

/**
 * Opens a file that another tool wrote, in the format that is named or, by its header, found. Undefined: it is plain text that
 * nobody knows, and may have been meant for our own format.
 */
export async function openForeignFile(
  path: string,
  identity: string,
  what: FileFormat['tells'],
  named: string | undefined,
  said: Said,
): Promise<ForeignFile | undefined> {
  const book = await openWorkbook(path)
  const choice = formats.filter(({ name }) => named === undefined || name === named)
  for (const format of choice) {
    const reading = openIn(format, book, what, said)
    if (reading) return fileOf(format, reading, `${identity} ${format.name} ${JSON.stringify(said)}`)
  }
  if (named === undefined && book.isPlain) return undefined
  const wanted = named === undefined ? 'in a format that is known here' : `of ${choice[0]!.title}`
  throw new FileTrouble(`This is no file ${wanted}: ${headerTold(book)}.`)
}

function openIn(
  format: FileFormat,
  book: Workbook,
  what: FileFormat['tells'],
  said: Said,
): Reading | undefined {
  // A file that tells the other thing is known by its header all the same, and then that is what has to be said.
  if (format.tells === what) return format.open(book, said)
  const isOne = format.open(book, { day: '2026-01-01', device: 'any', location: 'any', ...said })
  if (isOne)
    throw new FileTrouble(
      `A file of ${format.title} tells ${format.tells}: use "rankledger import ${format.tells}".`,
    )
  return undefined
}

function headerTold({ tables }: Workbook): string {
  const widest = tables
    .flatMap(({ head }) => head.map(({ cells }) => cells ?? []))
    .reduce((best, cells) => (cells.length > best.length ? cells : best), [] as readonly string[])
  return widest.length === 0
    ? 'it is empty'
    : `its columns are ${widest
        .slice(0, 12)
        .map((name) => `"${name.trim().slice(0, 40)}"`)
        .join(', ')}`
}

function fileOf(format: FileFormat, reading: Reading, identity: string): ForeignFile {
  return {
    format,
    identity,
    notes: reading.notes,
    unknownColumns: reading.unknownColumns,
    size: reading.table.size,
    read: (from) => readChunks(reading, from),
  }
}

const rowsInChunk = 2000

/** An import that goes on reads the file from its start and passes over what is stored already. */
async function* readChunks(reading: Reading, from: ImportPosition): AsyncGenerator<ImportChunk> {
  if (reading.look)
    for await (const row of reading.table.rows())
      if (row.line > reading.headerLine && !isEmpty(row)) reading.look(row)
  const start = Math.max(from.lines, reading.headerLine)
  let rows: Row[] = []
  for await (const row of reading.table.rows()) {
    if (row.line <= start) continue
    rows.push(row)
    if (rows.length < rowsInChunk) continue
    yield chunkOf(reading, rows)
    rows = []
  }
  if (rows.length > 0) yield chunkOf(reading, rows)
}

function chunkOf(reading: Reading, rows: readonly Row[]): ImportChunk {
  const last = rows.at(-1)!
  return {
    end: { bytes: last.bytes, lines: last.line },
    records: () => rows.flatMap((row) => recordsOf(reading, row)),
  }
}

function isEmpty({ raw, cells }: Row): boolean {
  return raw.trim() === '' || (cells?.every((cell) => cell.trim() === '') ?? false)
}

function recordsOf(reading: Reading, row: Row): ImportRecord[] {
  const { line, raw } = row
  if (isEmpty(row)) return []
  const read = reading.read(row)
  const told = typeof read === 'string' ? [read] : read
  const records = told.flatMap((one): ImportRecord[] =>
    typeof one === 'string' ? [] : [{ line, raw, fields: one }],
  )
  // Many days of a row may be wrong in the same way: it is told once.
  const codes = new Set(told.filter((one) => typeof one === 'string'))
  return [...records, ...[...codes].map((code): ImportRecord => ({ line, raw, code }))]
}
