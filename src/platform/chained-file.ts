import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { createInterface } from 'node:readline'

/** One line of a chained file, without its hash. */
export type ChainedLine = Readonly<Record<string, unknown>>

/** The file is not what was written: a line was changed or lost, or it is no such file at all. The message says where. */
export class ChainBroken extends Error {
  override name = 'ChainBroken'
}

/** What is whole of a file. One that is not closed was cut off in the line behind it. */
export type ChainEnd = { readonly lines: number; readonly hash: string; readonly closed: boolean }

const start: ChainEnd = { lines: 0, hash: '0'.repeat(64), closed: true }

/**
 * Reads a file of JSON lines in which each line carries the hash of itself and of all before it, and calls `onLine` with
 * each. What is not closed by a last line of kind `end` was cut off, and half a line at its end belongs to nothing.
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
  let isHalf = false
  for await (const text of lines) {
    const place = `line ${end.lines + 1}`
    if (isHalf) throw new ChainBroken(unreadable(place))
    const parsed = parse(text)
    isHalf = parsed === undefined
    if (parsed === undefined) continue
    const { hash, ...line } = parsed
    if (hash !== hashOf(end.hash, line))
      throw new ChainBroken(
        `The file was changed at ${place}: its hash does not follow from the lines before. ${onlyBefore}`,
      )
    end = { lines: end.lines + 1, hash, closed: line['kind'] === 'end' }
    onLine(line)
  }
  return isHalf ? { ...end, closed: false } : end
}

const onlyBefore = 'Use a whole copy; the lines before that one alone are a file that was cut off.'

function unreadable(place: string): string {
  return `The file was changed or is another kind of file: ${place} cannot be read. ${onlyBefore}`
}

/**
 * Appends lines to a chained file and closes them off with one of kind `end`, which is on the disk when this returns. Should
 * that fail, on a full disk for one, the file is left as it was: only a process that dies leaves one that is cut off.
 */
export async function appendChain(
  path: string,
  after: ChainEnd,
  lines: AsyncIterable<ChainedLine> | Iterable<ChainedLine>,
  closing: ChainedLine,
): Promise<ChainEnd> {
  const file = await open(path, 'a+', 0o600)
  const { size } = await file.stat()
  try {
    let end = after
    let waiting = (await endsInLine(file, size)) ? '\n' : ''
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
  } catch (error) {
    await file.truncate(size)
    throw error
  } finally {
    await file.close()
  }
}

/** A last line may have lost no more than its end. */
async function endsInLine(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return false
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1)
  return buffer.toString() !== '\n'
}

async function written(file: FileHandle, text: string): Promise<''> {
  await file.appendFile(text)
  return ''
}

/** Undefined: this is no such line, or not all of one. */
function parse(text: string): (ChainedLine & { hash: string }) | undefined {
  try {
    const line = JSON.parse(text)
    return typeof line === 'object' && line !== null && typeof line.hash === 'string' ? line : undefined
  } catch {
    return undefined
  }
}

function hashOf(before: string, line: ChainedLine): string {
  return createHash('sha256')
    .update(`${before}\n${JSON.stringify(line)}`)
    .digest('hex')
}
