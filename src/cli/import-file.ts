import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { type BigIntStats, fstatSync } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import type {
  ImportChunk,
  ImportPosition,
  ImportRecord,
  ImportSource,
  RejectionSink,
} from '../batch/import.ts'
import { CommandFailed, explainFile, UsageError } from './command.ts'
import { type CsvPart, type CsvRecord, readCsv, writeCsvRow } from './csv.ts'

/** The columns that a file may have, and those it must have. */
export type RecordColumns = { readonly known: readonly string[]; readonly required: readonly string[] }

export type ImportFile = ImportSource & {
  /** In bytes; null for standard input. */
  readonly size: number | null
}

/**
 * Opens a file of records: CSV with a header of field names, or one JSON object per line; `-` is standard input.
 *
 * The identity of a file is its size, its time of change and its first 64 KiB. A file that was touched counts as
 * another one and is read from the start, which costs time and changes nothing.
 */
export async function openImportFile(path: string, columns: RecordColumns): Promise<ImportFile> {
  if (path === '-') {
    return {
      identity: null,
      size: null,
      read: (from) => readRecords(fillFromStdin(), from, undefined, columns),
    }
  }
  const { head, size, identity } = await headOf(path)
  const format = formatOf(head, size <= headBytes, columns)
  return {
    identity,
    size,
    read: (from) =>
      readRecords(fillFromFile(path, from.bytes), from, from.bytes > 0 ? format : undefined, columns),
  }
}

/** The first bytes of a file, and what stands for all of it. */
export async function headOf(path: string): Promise<{ head: Buffer; size: number; identity: string }> {
  const file = await open(path).catch(explainFile(path, 'read'))
  try {
    const { size, mtimeMs } = await file.stat()
    const { buffer, bytesRead } = await file.read({
      buffer: Buffer.alloc(Math.min(size, headBytes)),
      position: 0,
    })
    const head = buffer.subarray(0, bytesRead)
    const identity = createHash('sha256')
      .update(`${size} ${mtimeMs} `)
      .update(head)
      .digest('hex')
      .slice(0, 32)
    return { head, size, identity }
  } catch (error) {
    return explainFile(path, 'read')(error)
  } finally {
    await file.close()
  }
}

const headBytes = 65_536
// Some four thousand records: enough to make a transaction worth its while, and gone before they grow old in memory.
const partBytes = 262_144
const longestLine = 8_388_608

/** How records are written: JSON lines, or CSV with these columns. */
type Format = { readonly names: readonly string[] | null }

function formatOf(head: Buffer, isWhole: boolean, columns: RecordColumns): Format {
  const text = withoutMark(head).toString('utf8')
  if (text.trimStart().startsWith('{')) return { names: null }
  const header = readCsv(text, isWhole).records.find(({ raw }) => raw.trim() !== '')
  if (!header) throw new CommandFailed('The file is empty: it needs a header line, or JSON lines.')
  const names = header.cells?.map((name) => name.trim()) ?? []
  const unknown = names.filter((name) => !columns.known.includes(name))
  const missing = columns.required.filter((name) => !names.includes(name))
  const twice = names.filter((name, at) => names.indexOf(name) !== at)
  if (unknown.length + missing.length + twice.length > 0) {
    throw new CommandFailed(
      `The header line does not fit: ${[
        ...unknown.map((name) => `"${name.slice(0, 40)}" is no field`),
        ...missing.map((name) => `"${name}" is missing`),
        ...twice.map((name) => `"${name}" stands twice`),
      ].join(', ')}. Fields: ${columns.known.join(', ')}.`,
    )
  }
  return { names }
}

const mark = Buffer.from([0xef, 0xbb, 0xbf])

function withoutMark(bytes: Buffer): Buffer {
  return bytes.subarray(0, 3).equals(mark) ? bytes.subarray(3) : bytes
}

/** Puts the next bytes into a buffer and says how many; none at the end. One buffer serves the whole file. */
type Fill = AsyncGenerator<number, void, Buffer>

async function* fillFromFile(path: string, start: number): Fill {
  const file = await open(path)
  try {
    let position = start
    let room = yield 0
    for (;;) {
      const { bytesRead } = await file.read(room, 0, room.length, position)
      if (bytesRead === 0) return
      position += bytesRead
      room = yield bytesRead
    }
  } finally {
    await file.close()
  }
}

async function* fillFromStdin(): Fill {
  let room = yield 0
  for await (const chunk of process.stdin) {
    for (let rest: Buffer = chunk; rest.length > 0; ) {
      const length = rest.copy(room)
      rest = rest.subarray(length)
      room = yield length
    }
  }
}

async function* readRecords(
  fill: Fill,
  from: ImportPosition,
  known: Format | undefined,
  columns: RecordColumns,
): AsyncGenerator<ImportChunk> {
  let format = known
  let position = from
  let buffer: Buffer = Buffer.allocUnsafe(2 * partBytes)
  let held = 0

  /** Cuts whole records off the front; what is left moves up to make room. */
  const take = (isLast: boolean): ImportChunk => {
    const bytes = buffer.subarray(0, held)
    const isFirst = format === undefined
    format ??= formatOf(bytes, isLast, columns)
    const chunk = chunkOf(bytes, format, position, { isFirst, isLast })
    const taken = chunk.end.bytes - position.bytes
    buffer.copyWithin(0, taken, held)
    held -= taken
    position = chunk.end
    return chunk
  }

  await fill.next()
  for (;;) {
    if (held === buffer.length) buffer = Buffer.concat([buffer], 2 * buffer.length)
    const { value: length, done } = await fill.next(buffer.subarray(held))
    if (done) break
    held += length
    if (held < partBytes) continue
    const before = position.bytes
    const chunk = take(false)
    if (chunk.end.bytes > before) yield chunk
    if (held > longestLine) throw new CommandFailed(`Line ${position.lines + 1} is longer than 8 MiB.`)
  }
  if (held > 0 || format === undefined) yield take(true)
}

/** The whole records at the front of the bytes held. */
function chunkOf(
  held: Buffer,
  { names }: Format,
  start: ImportPosition,
  { isFirst, isLast }: { isFirst: boolean; isLast: boolean },
): ImportChunk {
  const bytes = isLast ? held : held.subarray(0, held.lastIndexOf(0x0a) + 1)
  // Bytes that are no UTF-8 are read one by one, so that places in the text stay places in the file; each record is
  // then judged alone.
  const encoding = isUtf8(bytes) ? 'utf8' : 'latin1'
  const markLength = isFirst ? bytes.length - withoutMark(bytes).length : 0
  const text = bytes.subarray(markLength).toString(encoding)

  const split = () => (names === null ? readLines(text, isLast) : readCsv(text, isLast))
  let first: CsvPart | undefined = split()
  const lines = first.records.reduce((sum, record) => sum + record.lines, 0)
  const rest = Buffer.byteLength(text.slice(first.end), encoding)
  return {
    end: { bytes: start.bytes + bytes.length - rest, lines: start.lines + lines },
    records() {
      const { records } = first ?? split()
      first = undefined
      return fieldsOf(records, names, start.lines + 1, isFirst && names !== null, encoding)
    },
  }
}

function fieldsOf(
  parts: readonly CsvRecord[],
  names: readonly string[] | null,
  firstLine: number,
  isHeaderFirst: boolean,
  encoding: 'utf8' | 'latin1',
): ImportRecord[] {
  const records: ImportRecord[] = []
  let line = firstLine
  let isHeaderDue = isHeaderFirst
  for (const { raw, cells, lines } of parts) {
    if (raw.trim() !== '') {
      if (isHeaderDue) isHeaderDue = false
      else records.push(recordOf(line, raw, cells, names, encoding))
    }
    line += lines
  }
  return records
}

function readLines(text: string, isLast: boolean): CsvPart {
  const end = isLast ? text.length : text.lastIndexOf('\n') + 1
  const lines = text.slice(0, end).split('\n')
  if (lines.at(-1) === '') lines.pop()
  return { records: lines.map((raw) => ({ raw, cells: undefined, lines: 1 })), end }
}

function recordOf(
  line: number,
  raw: string,
  cells: string[] | undefined,
  names: readonly string[] | null,
  encoding: 'utf8' | 'latin1',
): ImportRecord {
  if (encoding === 'latin1') {
    const bytes = Buffer.from(raw, 'latin1')
    if (!isUtf8(bytes)) return { line, raw, code: 'not_utf8' }
    const text = bytes.toString('utf8')
    return recordOf(
      line,
      text,
      names === null ? undefined : readCsv(text, true).records[0]?.cells,
      names,
      'utf8',
    )
  }
  if (names === null) return jsonRecord(line, raw)
  if (!cells) return { line, raw, code: 'broken_quotes' }
  if (cells.length !== names.length) return { line, raw, code: 'wrong_number_of_cells' }
  const fields: Record<string, unknown> = {}
  for (let at = 0; at < cells.length; at++) if (cells[at] !== '') fields[names[at]!] = cells[at]
  return { line, raw, fields }
}

function jsonRecord(line: number, raw: string): ImportRecord {
  try {
    const fields: unknown = JSON.parse(raw)
    if (typeof fields === 'object' && fields !== null && !Array.isArray(fields)) {
      return { line, raw, fields: fields as Record<string, unknown> }
    }
  } catch {
    // Falls through: told by its code.
  }
  return { line, raw, code: 'invalid_json' }
}

/**
 * Where rejected records go. It is never the file that is read, under whatever name: the first of them would empty it, and the
 * rest of it would be gone.
 */
export async function readRejectsPath(
  given: string | undefined,
  path: string,
  what: 'ranks' | 'volumes',
): Promise<string> {
  const rejectsPath = given ?? (path === '-' ? `rejected-${what}.csv` : `${path}.rejected.csv`)
  const isThere = (stats: Promise<BigIntStats>) => stats.catch(() => undefined)
  const read = path === '-' ? fstatSync(0, { bigint: true }) : await isThere(stat(path, { bigint: true }))
  const written = await isThere(stat(rejectsPath, { bigint: true }))
  if (read?.isFile() && written?.dev === read.dev && written.ino === read.ino)
    throw new UsageError(
      'The rejected lines would be written over the file that is read; name another with --rejects.',
    )
  return rejectsPath
}

/** A CSV file of rejected records: line, reason and the text as it stood. It comes into being with the first one. */
export function openRejects(path: string): RejectionSink & { close(): Promise<void> } {
  let file: FileHandle | undefined
  let length = 0
  return {
    async open(kept) {
      const size = await stat(path).then(
        ({ size }) => size,
        () => 0,
      )
      length = Math.min(kept, size)
      if (length === 0) return
      file = await open(path, 'r+')
      await file.truncate(length)
    },
    async write(rejections) {
      if (rejections.length === 0) return length
      file ??= await open(path, 'w').catch(explainFile(path, 'written'))
      const head = length === 0 ? writeCsvRow(['line', 'code', 'record']) : ''
      const rows = rejections.map(({ line, code, raw }) => writeCsvRow([line, code, raw.slice(0, 65_536)]))
      const bytes = Buffer.from(head + rows.join(''))
      await file.write(bytes, 0, bytes.length, length)
      await file.datasync()
      length += bytes.length
      return length
    },
    close: async () => file?.close(),
  }
}
