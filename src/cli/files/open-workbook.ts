import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { FileTrouble, type Table, type Workbook } from './table.ts'
import { openTextTable } from './text.ts'
import { openSheet } from './xlsx.ts'
import { openZip, type ZipEntry } from './zip.ts'

/** Opens a file as tables, whatever it is packed in; what it is, its first bytes tell and not its name. */
export async function openWorkbook(path: string): Promise<Workbook> {
  const { start, size } = await peek(path)
  const tables = await tablesOf(path, start, size)
  const isPlain = !isZip(start) && tables.every(({ encoding }) => encoding === 'utf-8')
  return { fileName: basename(path), tables, isPlain }
}

async function tablesOf(path: string, start: Buffer, size: number): Promise<Table[]> {
  if (start.subarray(0, 4).equals(oldWorkbook))
    throw new FileTrouble('This is a workbook of Excel before 2007. Save it as .xlsx or CSV.')
  if (!isZip(start))
    return [await openTextTable({ name: basename(path), size, open: async () => createReadStream(path) })]
  const entries = await openZip(path)
  if (entries.some(({ name }) => name === 'xl/workbook.xml'))
    return [await openSheet(basename(path), entries)]
  const texts = entries.filter(({ name }) => /\.(csv|tsv|txt)$/i.test(name) && !name.startsWith('__MACOSX/'))
  if (texts.length === 0) throw new FileTrouble('The zip holds no CSV file.')
  return Promise.all(texts.map(openPacked))
}

const oldWorkbook = Buffer.from([0xd0, 0xcf, 0x11, 0xe0])

function isZip(start: Buffer): boolean {
  return start.subarray(0, 4).equals(Buffer.from('PK\x03\x04', 'latin1'))
}

function openPacked({ name, size, open }: ZipEntry): Promise<Table> {
  return openTextTable({ name: basename(name), size, open })
}

async function peek(path: string): Promise<{ start: Buffer; size: number }> {
  const file = await open(path).catch(() => {
    throw new FileTrouble(`${path} cannot be read.`)
  })
  try {
    const { size } = await file.stat()
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(8), position: 0 })
    return { start: buffer.subarray(0, bytesRead), size }
  } finally {
    await file.close()
  }
}
