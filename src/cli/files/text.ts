import { isUtf8 } from 'node:buffer'
import { readCsv, type Separator } from '../csv.ts'
import { openCp949Decoder } from './cp949.ts'
import { FileTrouble, headRows, type Row, type Table } from './table.ts'

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'cp949'

/** What the first bytes of a file are written in. */
export function encodingOf(head: Buffer): Encoding {
  const [first, second] = head
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  if (first === 0xfe && second === 0xff) return 'utf-16be'
  // Without a mark, Latin letters and line ends give UTF-16 away: every other byte of them is zero.
  const zeros = [0, 0]
  for (let at = 0; at < head.length; at++) if (head[at] === 0) zeros[at % 2]!++
  if (zeros[1]! > head.length / 20 && zeros[1]! > 4 * zeros[0]!) return 'utf-16le'
  if (zeros[0]! > head.length / 20 && zeros[0]! > 4 * zeros[1]!) return 'utf-16be'
  if (zeros[0]! + zeros[1]! > 0) throw new FileTrouble('The file is no text: it holds zero bytes.')
  if (isUtf8(wholeCharacters(head))) return 'utf-8'
  if (!openCp949Decoder().decode(head).includes('\ufffd')) return 'cp949'
  throw new FileTrouble('The file is written neither in UTF-8, UTF-16 nor CP949. Save it as UTF-8.')
}

type Decoder = { decode(bytes?: Uint8Array): string }

/** Letters may lie across the seams of what it is given; without more bytes it tells what is left. */
function openDecoder(encoding: Encoding): Decoder {
  if (encoding === 'cp949') return openCp949Decoder()
  const decoder = new TextDecoder(encoding)
  return { decode: (bytes) => (bytes ? decoder.decode(bytes, { stream: true }) : decoder.decode()) }
}

/** The head of a file may end within a character. */
function wholeCharacters(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!
    if (byte >= 0xc0) return bytes.subarray(0, bytes.length - back)
    if (byte < 0x80) break
  }
  return bytes
}

export type TextFile = {
  readonly name: string
  readonly size: number
  open(): Promise<AsyncIterable<Buffer>>
}

const headBytes = 65_536
const longestLine = 1_048_576

/** Reads text as a table: its encoding by its first bytes, its separator by what splits its first lines best. */
export async function openTextTable(file: TextFile): Promise<Table> {
  const bytes = await headOf(file)
  const encoding = encodingOf(bytes)
  const text = openDecoder(encoding).decode(bytes)
  const isWhole = bytes.length === file.size
  const separator = separatorOf(text, isWhole)
  return {
    name: file.name,
    size: file.size,
    isSheet: false,
    encoding,
    head: rowsOf(readCsv(text, isWhole, separator).records.slice(0, headRows), 1, bytes.length),
    rows: () => readRows(file, encoding, separator),
  }
}

async function headOf(file: TextFile): Promise<Buffer> {
  const parts: Buffer[] = []
  let length = 0
  for await (const part of await file.open()) {
    parts.push(part)
    length += part.length
    if (length >= headBytes) break
  }
  return Buffer.concat(parts).subarray(0, headBytes)
}

const separators: readonly Separator[] = [',', '\t', ';']

function separatorOf(head: string, isWhole: boolean): Separator {
  const widest = (separator: Separator) =>
    Math.max(
      0,
      ...readCsv(head, isWhole, separator)
        .records.slice(0, headRows)
        .map(({ cells }) => cells?.length ?? 0),
    )
  return separators.reduce((best, one) => (widest(one) > widest(best) ? one : best))
}

async function* readRows(file: TextFile, encoding: Encoding, separator: Separator): AsyncGenerator<Row> {
  const decoder = openDecoder(encoding)
  let held = ''
  let line = 1
  let bytes = 0
  for await (const part of await file.open()) {
    bytes += part.length
    held += decoder.decode(part)
    const { records, end } = readCsv(held, false, separator)
    yield* rowsOf(records, line, bytes)
    line += linesOf(records)
    held = held.slice(end)
    if (held.length > longestLine) throw new FileTrouble(`Line ${line} is longer than a million characters.`)
  }
  yield* rowsOf(readCsv(held + decoder.decode(), true, separator).records, line, bytes)
}

type Record = ReturnType<typeof readCsv>['records'][number]

function rowsOf(records: readonly Record[], firstLine: number, bytes: number): Row[] {
  const rows: Row[] = []
  let line = firstLine
  for (const { raw, cells, lines } of records) {
    rows.push({ line, raw, cells, bytes })
    line += lines
  }
  return rows
}

function linesOf(records: readonly Record[]): number {
  return records.reduce((sum, { lines }) => sum + lines, 0)
}
