import type { platformEvents } from './events.ts'
import type { Log } from './log.ts'

export type OutputGuard = { uninstall(): void }

export type OutputGuardOptions = {
  /**
   * `events`: nothing but the log may write, so text on stdout or stderr becomes an event that tells where it was
   * written and how long it is. `results`: stdout is what the operator asked a command for; its lines are sanitized
   * and go out.
   */
  readonly stdout?: 'events' | 'results'
  readonly exit?: (code: number) => void
}

/** Takes over whatever else the process says: console, stdout, stderr, warnings, uncaught errors. */
export function guardProcessOutput(
  log: Log<typeof platformEvents>,
  options: OutputGuardOptions = {},
): OutputGuard {
  const { stdout = 'events', exit = (code) => process.exit(code) } = options
  const restore = [
    guardStream(log, process.stdout, stdout),
    guardStream(log, process.stderr, stdout),
    guardWarnings(log),
    guardCrashes(log, exit),
  ]
  return {
    uninstall() {
      for (const undo of restore.splice(0)) undo()
    },
  }
}

type Undo = () => void

function guardStream(
  log: Log<typeof platformEvents>,
  stream: NodeJS.WriteStream,
  mode: 'events' | 'results',
): Undo {
  const original = stream.write
  const name = stream === process.stderr ? 'stderr' : 'stdout'
  const lines = wholeLines((text) => original.call(stream, log.sanitize(text)))
  const write = (chunk: string | Uint8Array, encoding?: unknown, done?: unknown): boolean => {
    const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')
    if (mode === 'results') lines.take(text)
    else log.warn('process.wrote', { stream: name, text, at: new Error() })
    const callback = typeof encoding === 'function' ? encoding : done
    if (typeof callback === 'function') process.nextTick(callback as () => void)
    return true
  }
  stream.write = write as typeof stream.write
  process.on('exit', lines.flush)
  return () => {
    lines.flush()
    process.off('exit', lines.flush)
    stream.write = original
  }
}

const pemStart = '-----BEGIN '
const pemEnd = '-----END '
const maxHeld = 65_536

/** Collects text until its line ends, and a PEM block until it does, so that nothing is judged in parts. */
function wholeLines(emit: (text: string) => void): { take(text: string): void; flush(): void } {
  let held = ''
  const flush = () => {
    const text = held
    held = ''
    if (text !== '') emit(text)
  }
  const take = (text: string) => {
    held += text
    const isInsidePem = held.lastIndexOf(pemStart) > held.lastIndexOf(pemEnd)
    if (isInsidePem && held.length < maxHeld) return
    const end = Math.max(held.lastIndexOf('\n'), held.lastIndexOf('\r')) + 1
    const rest = held.slice(end)
    held = held.slice(0, end)
    flush()
    held = rest
    if (held.length >= maxHeld) flush()
  }
  return { take, flush }
}

/** Node's own listener prints a warning's text straight to the file descriptor, so it has to go. */
function guardWarnings(log: Log<typeof platformEvents>): Undo {
  const before = process.listeners('warning')
  const listener = (warning: Error) => log.warn('process.warned', { warning })
  process.removeAllListeners('warning')
  process.on('warning', listener)
  return () => {
    process.off('warning', listener)
    for (const listener of before) process.on('warning', listener)
  }
}

/** An error nobody caught leaves the process in a state nobody knows: it is logged and the process ends. */
function guardCrashes(log: Log<typeof platformEvents>, exit: (code: number) => void): Undo {
  const crash = (reason: string) => (error: unknown) => {
    log.error('process.crashed', { reason, error })
    exit(1)
  }
  const onException = crash('uncaught_exception')
  const onRejection = crash('unhandled_rejection')
  process.on('uncaughtException', onException)
  process.on('unhandledRejection', onRejection)
  return () => {
    process.off('uncaughtException', onException)
    process.off('unhandledRejection', onRejection)
  }
}
