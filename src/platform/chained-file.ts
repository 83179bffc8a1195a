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

/** Somebody else wrote into the file after it was read. */
export class ChainMoved extends Error {
  override name = 'ChainMoved'
}

/** What is whole of a file. One that is not closed was cut off in the line behind it. */
export type ChainEnd = {
  readonly lines: number
  readonly hash: string
  readonly closed: boolean
  /** How long the file is, with what is not whole. */
  readonly bytes: number
}

const start: ChainEnd = { lines: 0, hash: '0'.repeat(64), closed: true, bytes: 0 }

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
  const input = createReadStream(path, 'utf8')
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
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
    end = { ...end, lines: end.lines + 1, hash, closed: line['kind'] === 'end' }
    onLine(line)
  }
  return { ...end, closed: end.closed && !isHalf, bytes: input.bytesRead }
}

const onlyBefore = 'Use a whole copy; the lines before that one alone are a file that was cut off.'

function unreadable(place: string): string {
  return `The file was changed or is another kind of file: ${place} cannot be read. ${onlyBefore}`
}

/**
 * Appends lines to a chained file and closes them off with one of kind `end`, which is on the disk when this returns. Should
 * that fail, on a full disk for one, the file is left as it was: only a process that dies leaves one that is cut off. Nothing
 * is appended to a file that somebody else wrote into since it was read, and what they wrote is never taken away.
 */
export async function appendChain(
  path: string,
  after: ChainEnd,
  lines: AsyncIterable<ChainedLine> | Iterable<ChainedLine>,
  closing: ChainedLine,
): Promise<ChainEnd> {
  const file = openTail(await open(path, 'a+', 0o600), after.bytes)
  try {
    let end = after
    let waiting = (await file.endsInLine()) ? '\n' : ''
    const add = (line: ChainedLine) => {
      const hash = hashOf(end.hash, line)
      waiting += `${JSON.stringify({ ...line, hash })}\n`
      end = { ...end, lines: end.lines + 1, hash, closed: line['kind'] === 'end' }
    }
    for await (const line of lines) {
      add(line)
      if (waiting.length <= 65_536) continue
      await file.append(waiting)
      waiting = ''
    }
    add({ kind: 'end', ...closing, lines: end.lines + 1 })
    const bytes = await file.append(waiting)
    await file.sync()
    return { ...end, bytes }
  } catch (error) {
    await file.takeBack()
    throw error
  } finally {
    await file.close()
  }
}

/** The end of an open file, and how far it is known: what stands behind that is somebody else's. */
function openTail(file: FileHandle, from: number) {
  let known = from
  const sizeNow = async () => (await file.stat()).size
  async function requireOurs(): Promise<void> {
    if ((await sizeNow()) !== known) throw new ChainMoved(known === from ? untouched : mixed)
  }
  return {
    /** A last line may have lost no more than its end. */
    async endsInLine(): Promise<boolean> {
      await requireOurs()
      if (known === 0) return false
      const { buffer } = await file.read(Buffer.alloc(1), 0, 1, known - 1)
      return buffer.toString() !== '\n'
    },
    /** How long the file is then. */
    async append(text: string): Promise<number> {
      await requireOurs()
      // Counted piece by piece, because a disk that fills up takes a part.
      for (let rest = Buffer.from(text); rest.length > 0; ) {
        const { bytesWritten } = await file.write(rest)
        known += bytesWritten
        rest = rest.subarray(bytesWritten)
      }
      return known
    },
    async takeBack(): Promise<void> {
      if (known > from && (await sizeNow()) === known) await file.truncate(from)
    },
    sync: () => file.sync(),
    close: () => file.close(),
  }
}

const untouched =
  'Somebody else wrote into the file since it was read; nothing was appended, so run this again.'
const mixed =
  'Somebody else wrote into the file between these lines, so that it is whole no more; export into a new file and keep both.'

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
