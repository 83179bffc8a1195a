import type { Readable } from 'node:stream'
import { type Entry, openPromise, type ZipFile } from 'yauzl'
import { FileTrouble } from './table.ts'

export type ZipEntry = {
  /** With its folders, as the zip names it. */
  readonly name: string
  /** Unpacked. */
  readonly size: number
  open(): Promise<Readable>
}

// No export that people download has more, and a zip that was made to hurt may have millions.
const mostEntries = 200

/** The files in a zip. They are unpacked while they are read, one after the other. */
export async function openZip(path: string): Promise<ZipEntry[]> {
  const zip = await openOrTell(path)
  try {
    const entries: ZipEntry[] = []
    for await (const entry of zip.eachEntry()) {
      if (entries.length === mostEntries)
        throw new FileTrouble(
          `The zip holds more than ${mostEntries} files: it is no export of ranks or volumes.`,
        )
      if (!entry.fileName.endsWith('/')) entries.push(entryOf(path, entry))
    }
    return entries
  } catch (error) {
    throw error instanceof FileTrouble ? error : new FileTrouble('The zip is damaged.')
  } finally {
    zip.close()
  }
}

async function openOrTell(path: string): Promise<ZipFile> {
  try {
    return await openPromise(path, { autoClose: false })
  } catch {
    throw new FileTrouble('The file begins like a zip or a workbook, and is damaged or cut off.')
  }
}

function entryOf(path: string, entry: Entry): ZipEntry {
  return {
    name: entry.fileName,
    size: entry.uncompressedSize,
    async open() {
      if (entry.isEncrypted()) throw new FileTrouble('The zip asks for a password: unpack it first.')
      const zip = await openOrTell(path)
      const stream = await zip.openReadStreamPromise(entry).catch((error: unknown) => {
        zip.close()
        throw error
      })
      return stream.once('close', () => zip.close())
    },
  }
}
