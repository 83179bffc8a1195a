import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { createInterface } from 'node:readline'

/** One line of a chained file, without its hash. */
export type ChainedLine = Readonly<Record<string, unknown>>

/** The file is not what was written: cut off, changed, or no such file at all. The message says which, and where. */
export class ChainBroken extends Error {
  override name = 'ChainBroken'
}

export type ChainEnd = { readonly lines: number; readonly hash: string; readonly closed: boolean }

const start: ChainEnd = { lines: 0, hash: '0'.repeat(64), closed: true }

/**
 * Reads a file of JSON lines in which each line carries the hash of itself and of all before it, and calls `onLine` with
 * each. What is not closed by a last line of kind `end` was cut off.
 */
export async function readChain(
  path: string,
  onLine: (line: ChainedLine) => void = () => {},
): Promise<ChainEnd> {
  if (!existsSync(path)) return start
  let end = start
  const lines = createInterface({
    input: createReadStream(path, 'utf8'),
    crlfDelay: Number.POSITIVE_INFINITY,
  })
  for await (const text of lines) {
    const place = `line ${end.lines + 1}`
    const { hash, ...line } = parse(text, place)
    if (hash !== hashOf(end.hash, line))
      throw new ChainBroken(
        `The file was changed or cut at ${place}: its hash does not follow from the lines before.`,
      )
    end = { lines: end.lines + 1, hash, closed: line['kind'] === 'end' }
    onLine(line)
  }
  return end
}

/** Appends lines to a chained file and closes them off with one of kind `end`, which is on the disk when this returns. */
export async function appendChain(
  path: string,
  after: ChainEnd,
  lines: AsyncIterable<ChainedLine> | Iterable<ChainedLine>,
  closing: ChainedLine,
): Promise<ChainEnd> {
  const file = await open(path, 'a', 0o600)
  try {
    let end = after
    let waiting = ''
    const add = (line: ChainedLine) => {
      const hash = hashOf(end.hash, line)
      waiting += `${JSON.stringify({ ...line, hash })}\n`
      end = { lines: end.lines + 1, hash, closed: line['kind'] === 'end' }
    }
    for await (const line of lines) {
      add(line)
      if (waiting.length > 65_536) waiting = await written(file, waiting)
    }
    add({ kind: 'end', ...closing, lines: end.lines + 1 })
    await written(file, waiting)
    await file.sync()
    return end
  } finally {
    await file.close()
  }
}

async function written(file: FileHandle, text: string): Promise<''> {
  await file.appendFile(text)
  return ''
}

function parse(text: string, place: string): ChainedLine & { hash: string } {
  try {
    const line = JSON.parse(text)
    if (typeof line === 'object' && line !== null && typeof line.hash === 'string') return line
  } catch {
    // Told below, without the text.
  }
  throw new ChainBroken(`The file was cut or is another kind of file: ${place} cannot be read.`)
}

function hashOf(before: string, line: ChainedLine): string {
  return createHash('sha256')
    .update(`${before}\n${JSON.stringify(line)}`)
    .digest('hex')
}
