import { packageFolder } from '../package-files.ts'
import type { Plain, PlainRecord } from './plain.ts'
import { isPlainWord } from './plain-word.ts'
import { sourcePlace } from './source-place.ts'

/**
 * An error as it may be logged: its type, its SQLSTATE or errno, and where it happened; never its message, because
 * messages quote what was sent. Causes and the parts of an AggregateError are described likewise.
 */
export function describeError(error: unknown, depth = 0): PlainRecord {
  if (!(error instanceof Error)) return { type: `thrown_${typeof error}` }
  const described: Record<string, Plain> = { type: typeOf(error) }
  const code = codeOf(error)
  if (code) described['code'] = code
  described['frames'] = framesOf(error)
  if (depth >= maxDepth) return described
  if (error.cause !== undefined) described['cause'] = describeError(error.cause, depth + 1)
  if (error instanceof AggregateError && Array.isArray(error.errors)) {
    described['errors'] = error.errors.slice(0, maxParts).map((part) => describeError(part, depth + 1))
  }
  return described
}

/** Why something failed, as a table keeps it: type and code, and never the words, which may quote what nobody should read. */
export function storedReason(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const code = (error as { code?: unknown }).code
  return typeof code === 'string' ? `${error.constructor.name} ${code}` : error.constructor.name
}

const maxDepth = 4
const maxParts = 5
const maxFrames = 10

/** A name is what programmers call a class; someone's data put there falls back to the class itself. */
function typeOf(error: Error): string {
  for (const name of [error.name, error.constructor?.name]) {
    if (typeof name === 'string' && /^[A-Z][A-Za-z]{0,59}$/.test(name) && isPlainWord(name)) return name
  }
  return 'Error'
}

function codeOf(error: Error): string | undefined {
  const code = (error as { code?: unknown }).code
  if (typeof code !== 'string') return undefined
  const isSqlState = /^[0-9A-Z]{5}$/.test(code)
  const isErrno = /^[A-Z][A-Z_]{2,59}$/.test(code) || /^E[A-Z0-9]{2,15}$/.test(code)
  return (isSqlState || isErrno) && isPlainWord(code) ? code : undefined
}

const repository = `${packageFolder.replaceAll('\\', '/')}/`

/** Files of the repository with line and column. Function names are left out: they can be computed from data. */
function framesOf(error: Error): string[] {
  const frames: string[] = []
  for (const line of stackBelowMessage(error).split('\n')) {
    const frame = frameOf(line)
    if (frame) frames.push(frame)
    if (frames.length === maxFrames) break
  }
  return frames
}

/** The stack begins with the message, which may itself look like frames. */
function stackBelowMessage(error: Error): string {
  const stack = typeof error.stack === 'string' ? error.stack.slice(0, maxStack) : ''
  const message = typeof error.message === 'string' ? error.message : ''
  const at = message === '' ? -1 : stack.indexOf(message)
  if (at >= 0) return stack.slice(at + message.length)
  // Without its message in front, a stack can only be trusted if nothing stands before the first frame.
  return /^[A-Za-z]*(?:: )?\n {4}at /.test(stack) ? stack : ''
}

const maxStack = 20_000

/** The places where errors arise are few and come again. Null is a line that gives no frame. */
const knownFrames = new Map<string, string | null>()
const maxKnownFrames = 2000

function frameOf(line: string): string | null {
  const known = knownFrames.get(line)
  if (known !== undefined) return known
  const frame = readFrame(line) ?? null
  if (knownFrames.size >= maxKnownFrames) knownFrames.clear()
  knownFrames.set(line, frame)
  return frame
}

function readFrame(line: string): string | undefined {
  if (!line.startsWith('    at ')) return undefined
  const place = line.replaceAll('\\', '/').replace('file://', '')
  const start = place.indexOf(repository)
  if (start < 0) return undefined
  const built = /^[A-Za-z0-9_./@-]+\.[cm]?[jt]sx?:\d{1,6}:\d{1,6}/.exec(
    place.slice(start + repository.length),
  )?.[0]
  const frame = built && sourcePlace(built, packageFolder)
  return frame?.split(/[/:@]/).every(isPlainWord) ? frame : undefined
}
