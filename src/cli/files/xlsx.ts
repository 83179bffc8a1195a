import { SaxesParser } from 'saxes'
import { writeCsvRow } from '../csv.ts'
import { FileTrouble, headRows, type Row, type Table } from './table.ts'
import type { ZipEntry } from './zip.ts'

// All texts of a workbook are held at once; an export of a million keywords stays below this.
const mostTextBytes = 256 * 1024 * 1024

/** Reads the first sheet of a workbook as a table. Cells are told as they are stored: formats and formulas are not applied. */
export async function openSheet(name: string, entries: readonly ZipEntry[]): Promise<Table> {
  const find = (path: string) => entries.find((entry) => entry.name === path)
  const sheet = find(await firstSheetPath(find))
  if (!sheet) throw new FileTrouble('The workbook has no sheet.')
  const texts = await readTexts(find('xl/sharedStrings.xml'))
  const rows = () => readRows(sheet, texts)
  const head: Row[] = []
  for await (const row of rows()) {
    head.push(row)
    if (head.length === headRows) break
  }
  return { name, size: sheet.size, isSheet: true, encoding: 'xlsx', head, rows }
}

type Find = (path: string) => ZipEntry | undefined

/** The workbook lists its sheets by name and number; another file says where each number lies. */
async function firstSheetPath(find: Find): Promise<string> {
  let id: string | undefined
  await readXml(find('xl/workbook.xml'), {
    open(name, attributes) {
      if (name === 'sheet') id ??= attributes['r:id']
    },
  })
  let target: string | undefined
  await readXml(find('xl/_rels/workbook.xml.rels'), {
    open(name, attributes) {
      if (name === 'Relationship' && attributes['Id'] === id) target = attributes['Target']
    },
  })
  if (target === undefined) return 'xl/worksheets/sheet1.xml'
  return target.startsWith('/') ? target.slice(1) : `xl/${target}`
}

async function readTexts(entry: ZipEntry | undefined): Promise<string[]> {
  const texts: string[] = []
  if (!entry) return texts
  if (entry.size > mostTextBytes) throw new FileTrouble('The workbook is too large: save the sheet as CSV.')
  let text = ''
  let isText = false
  // Readings of Chinese and Japanese signs stand beside the text and are no part of it.
  let isReading = false
  await readXml(entry, {
    open(name) {
      if (name === 'si') text = ''
      if (name === 'rPh') isReading = true
      isText = name === 't' && !isReading
    },
    text(more) {
      if (isText) text += more
    },
    close(name) {
      if (name === 'si') texts.push(text)
      if (name === 'rPh') isReading = false
      isText = false
    },
  })
  return texts
}

async function* readRows(sheet: ZipEntry, texts: readonly string[]): AsyncGenerator<Row> {
  const rows: Row[] = []
  let line = 0
  let bytes = 0
  let cells: string[] = []
  let column = 0
  let kind = ''
  let value = ''
  let isValue = false

  const parser = openParser({
    open(name, attributes) {
      if (name === 'row') {
        line = Number(attributes['r'] ?? line + 1)
        cells = []
        column = 0
      } else if (name === 'c') {
        column = columnOf(attributes['r']) ?? column
        kind = attributes['t'] ?? 'n'
        value = ''
      } else isValue = name === 'v' || name === 't'
    },
    text(more) {
      if (isValue) value += more
    },
    close(name) {
      isValue = false
      if (name === 'c') {
        while (cells.length < column) cells.push('')
        cells[column++] = kind === 's' ? (texts[Number(value)] ?? '') : value
      } else if (name === 'row') rows.push({ line, raw: writeCsvRow(cells).trimEnd(), cells, bytes })
    },
  })
  const decoder = new TextDecoder()
  for await (const part of await sheet.open()) {
    bytes += part.length
    parser.write(decoder.decode(part, { stream: true }))
    yield* rows.splice(0)
  }
  parser.close()
  yield* rows.splice(0)
}

/** `AB12` is column 27, counted from 0. */
function columnOf(reference: string | undefined): number | undefined {
  const letters = /^[A-Z]{1,3}/.exec(reference ?? '')?.[0]
  if (letters === undefined) return undefined
  return [...letters].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0) - 1
}

type Listener = {
  open(name: string, attributes: Readonly<Record<string, string>>): void
  text?(text: string): void
  close?(name: string): void
}

async function readXml(entry: ZipEntry | undefined, listener: Listener): Promise<void> {
  if (!entry) return
  const parser = openParser(listener)
  const decoder = new TextDecoder()
  for await (const part of await entry.open()) parser.write(decoder.decode(part, { stream: true }))
  parser.close()
}

function openParser({ open, text, close }: Listener): SaxesParser {
  const parser = new SaxesParser()
  // Some writers put a prefix before every name.
  const plain = (name: string) => name.slice(name.indexOf(':') + 1)
  parser.on('error', () => {
    throw new FileTrouble('The workbook is damaged.')
  })
  parser.on('opentag', ({ name, attributes }) => open(plain(name), attributes as Record<string, string>))
  parser.on('text', (more) => text?.(more))
  parser.on('closetag', ({ name }) => close?.(plain(name)))
  return parser
}
