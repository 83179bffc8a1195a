import { type LevelWithSilent, pino } from 'pino'
import { admission } from './1-admit.ts'
import { maskNamedResult, maskNames } from './2-mask-names.ts'
import { maskText, maskValues } from './3-mask-values.ts'
import { type Destination, guardBytes, withheldLine } from './4-guard-bytes.ts'
import { type EventSpec, type FieldsOf, platformEvents } from './events.ts'
import { type PlainRecord, toPlain } from './plain.ts'
import type { SecretSet } from './secret-set.ts'

type Write<E extends EventSpec> = <N extends keyof E & string>(event: N, fields?: FieldsOf<E[N]>) => void

/** JSON lines of registered events. A line never throws and never carries a secret or personal data. */
export type Log<E extends EventSpec = typeof platformEvents> = {
  readonly debug: Write<E>
  readonly info: Write<E>
  readonly warn: Write<E>
  readonly error: Write<E>
  /** Takes what a command prints through names, values and bytes. It is no event, so admission has no say. */
  sanitize(text: string): Uint8Array
}

export type LogOptions = {
  readonly level: LevelWithSilent
  /** The exact values that stage 4 covers; the owner goes on adding to it. */
  readonly secrets: SecretSet
  readonly destination?: Destination
  /** For tests: what each stage does is shown by switching it or the others off. */
  readonly stages?: Partial<Stages>
}

export type Stages = {
  readonly admit: boolean
  readonly maskNames: boolean
  readonly maskValues: boolean
  readonly guardBytes: boolean
}

/** Every line takes four stages, for four reasons: admission, names, values, and bytes at the sink. */
export function createLog<E extends EventSpec>(
  events: E,
  options: LogOptions,
): Log<E & typeof platformEvents> {
  const { level, secrets, destination = outputTo('stdout') } = options
  const on: Stages = { admit: true, maskNames: true, maskValues: true, guardBytes: true, ...options.stages }

  const admit = admission({ ...platformEvents, ...events })
  const record = (event: string, fields: unknown): PlainRecord => {
    const admitted = on.admit ? admit(event, fields) : { event, ...(toPlain(fields) as PlainRecord) }
    const named = on.maskNames ? maskNames(admitted) : admitted
    return (on.maskValues ? maskValues(named) : named) as PlainRecord
  }

  const guarded = guardBytes(secrets, destination)
  const put = on.guardBytes ? guarded : (line: string) => destination.write(Buffer.from(line))
  const least = level === 'silent' ? Number.POSITIVE_INFINITY : pino.levels.values[level]!

  const write = (of: 'debug' | 'info' | 'warn' | 'error') => {
    if (pino.levels.values[of]! < least) return () => {}
    return (event: string, fields?: unknown) => {
      try {
        const line = JSON.stringify(record(event, fields))
        put(`{"level":"${of}",${timeOfLine()},${line.slice(1)}\n`)
      } catch {
        destination.write(withheldLine)
      }
    }
  }
  const sanitize = (text: string): Uint8Array => {
    try {
      const named = on.maskNames ? maskNamedResult(text) : text
      const bytes = Buffer.from(on.maskValues ? maskText(named) : named)
      return on.guardBytes ? secrets.cover(bytes) : bytes
    } catch {
      return withheldLine
    }
  }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error'), sanitize }
}

/** The file descriptor itself, so that guarding the process's streams does not lead back into the log. */
export function outputTo(name: 'stdout' | 'stderr'): Destination {
  const stream = pino.destination({ dest: name === 'stdout' ? 1 : 2, sync: true })
  return {
    write: (bytes) => stream.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()),
  }
}

let writtenMs = Number.NaN
let written = ''

/** Times in the log end in an offset like all others this service writes. Many lines share their millisecond. */
function timeOfLine(): string {
  const now = Date.now()
  if (now !== writtenMs) {
    writtenMs = now
    written = `"time":"${new Date(now).toISOString().slice(0, -1)}+00:00"`
  }
  return written
}
