import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32, deflateRawSync } from 'node:zlib'
import { onTestFinished } from 'vitest'
import type { ImportRecord } from '../../src/batch/import.ts'
import { openCp949Decoder } from '../../src/cli/files/cp949.ts'
import type { FileFormat, Said } from '../../src/cli/files/format.ts'
import { openForeignFile } from '../../src/cli/files/open-foreign-file.ts'

export function writeSample(name: string, content: string | Buffer): string {
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-files-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

/** What is understood of a file: its observations, and the lines that are rejected. */
export async function understood(
  path: string,
  what: FileFormat['tells'],
  {
    format,
    said = {},
    from = { bytes: 0, lines: 0 },
  }: { format?: string; said?: Said; from?: { bytes: number; lines: number } } = {},
) {
  const file = await openForeignFile(path, 'id', what, format, said)
  if (!file) return undefined
  const records: ImportRecord[] = []
  const ends: { bytes: number; lines: number }[] = []
  for await (const chunk of file.read(from)) {
    records.push(...chunk.records())
    ends.push(chunk.end)
  }
  return {
    format: file.format.name,
    notes: file.notes,
    unknownColumns: file.unknownColumns,
    ends,
    records,
    fields: records.flatMap(({ fields }): Record<string, unknown>[] => (fields ? [fields] : [])),
    rejected: records.flatMap(({ line, code }) => (code === undefined ? [] : [[line, code]])),
  }
}

/** A zip, packed the way exports are. */
export function zipOf(files: Readonly<Record<string, string | Buffer>>): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [name, content] of Object.entries(files)) {
    const bytes = Buffer.from(content)
    const packed = deflateRawSync(bytes)
    const title = Buffer.from(name)
    const about = Buffer.alloc(26)
    about.writeUInt16LE(20, 0)
    about.writeUInt16LE(0x0800, 2)
    about.writeUInt16LE(8, 4)
    about.writeUInt32LE(crc32(bytes), 10)
    about.writeUInt32LE(packed.length, 14)
    about.writeUInt32LE(bytes.length, 18)
    about.writeUInt16LE(title.length, 22)
    parts.push(Buffer.from('PK\x03\x04', 'latin1'), about, title, packed)
    const place = Buffer.alloc(14)
    place.writeUInt32LE(offset, 10)
    directory.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), about, place, title)
    offset += 30 + title.length + packed.length
  }
  const list = Buffer.concat(directory)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  const count = Object.keys(files).length
  end.writeUInt16LE(count, 8)
  end.writeUInt16LE(count, 10)
  end.writeUInt32LE(list.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...parts, list, end])
}

const xml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')

/** A workbook with one sheet: texts shared as Excel writes them, numbers as numbers, empty cells left out. */
export function workbookOf(rows: readonly (readonly (string | number)[])[]): Buffer {
  const texts: string[] = []
  const cell = (value: string | number, at: number, line: number) => {
    const place = `${String.fromCharCode(65 + at)}${line}`
    if (value === '') return ''
    if (typeof value === 'number') return `<c r="${place}"><v>${value}</v></c>`
    return `<c r="${place}" t="s"><v>${texts.push(value) - 1}</v></c>`
  }
  const lines = rows.map(
    (row, at) => `<row r="${at + 1}">${row.map((value, n) => cell(value, n, at + 1)).join('')}</row>`,
  )
  const head = '<?xml version="1.0" encoding="UTF-8"?>'
  return zipOf({
    'xl/workbook.xml': `${head}<workbook xmlns:r="r"><sheets><sheet name="sheet" sheetId="1" r:id="rId7"/></sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': `${head}<Relationships><Relationship Id="rId7" Target="worksheets/list.xml"/></Relationships>`,
    'xl/worksheets/list.xml': `${head}<worksheet><sheetData>${lines.join('')}</sheetData></worksheet>`,
    'xl/sharedStrings.xml': `${head}<sst>${texts.map((text) => `<si><t>${xml(text)}</t></si>`).join('')}</sst>`,
  })
}

/** Text in CP949, by turning round what the decoder knows; that it knows the right letters has a test of its own. */
export function cp949(text: string): Buffer {
  const decoder = openCp949Decoder()
  const bytesOf = new Map<string, number[]>()
  for (let lead = 0x81; lead <= 0xfe; lead++)
    for (let trail = 0x41; trail <= 0xfe; trail++) {
      const letter = decoder.decode(Buffer.from([lead, trail]))
      if (letter.length === 1 && letter !== '\ufffd') bytesOf.set(letter, [lead, trail])
    }
  return Buffer.from([...text].flatMap((letter) => bytesOf.get(letter) ?? [letter.charCodeAt(0)]))
}

export function utf16(text: string, order: 'le' | 'be', { mark = true } = {}): Buffer {
  const bytes = Buffer.from((mark ? '\ufeff' : '') + text, 'utf16le')
  return order === 'le' ? bytes : bytes.swap16()
}
