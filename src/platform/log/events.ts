/**
 * What may be logged: event names, and the typed fields of each. Every part of the program declares its own list
 * (`const billingEvents = {…} as const satisfies EventSpec`) and the lists are joined where the log is made.
 */
export type EventSpec = Readonly<Record<string, Readonly<Record<string, FieldKind>>>>

/**
 * - `text`: a word, a code or a route pattern; no spaces, at most 200 characters
 * - `id`: an id of ours or of the caller's, `ids`: up to 20 of them
 * - `hash`: a Git or SHA-256 hash in lower-case hex
 * - `int`, `number`: below 100,000,000,000 either way; a `number` is rounded to thousandths
 * - `error`: becomes type, code and frames
 * - `withheld`: only its length is written
 */
export type FieldKind =
  | 'text'
  | 'id'
  | 'ids'
  | 'hash'
  | 'int'
  | 'number'
  | 'bool'
  | 'time'
  | 'error'
  | 'withheld'

type FieldValue = {
  text: string
  id: string
  ids: readonly string[]
  hash: string
  int: number
  number: number
  bool: boolean
  time: Date
  error: unknown
  withheld: string
}

/** The fields a line of this event may carry. Each may be left out; null is written as null. */
export type FieldsOf<S extends Readonly<Record<string, FieldKind>>> = {
  readonly [F in keyof S]?: FieldValue[S[F]] | null | undefined
}

/** What the log and the guard of the process's output say themselves. */
export const platformEvents = {
  'log.refused': { of: 'text', fields: 'int' },
  'process.wrote': { stream: 'text', text: 'withheld', at: 'error' },
  'process.warned': { warning: 'error' },
  'process.crashed': { reason: 'text', error: 'error' },
} as const satisfies EventSpec
