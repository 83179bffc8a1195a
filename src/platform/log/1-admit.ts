import { describeError } from './describe-error.ts'
import type { EventSpec, FieldKind } from './events.ts'
import type { Plain, PlainRecord } from './plain.ts'
import { isPlainWord } from './plain-word.ts'
import { isSensitiveName } from './sensitive-names.ts'

type Admit = (event: string, fields: unknown) => PlainRecord

/**
 * Stage 1, admission: a line is a registered event with typed fields or it is not written. What does not fit is
 * left out and counted under `refused`; an unknown event leaves only a line that says so.
 */
export function admission(events: EventSpec): Admit {
  const registered = new Map(Object.entries(events).map(([event, spec]) => [event, compile(event, spec)]))

  return (event, fields) => {
    const kinds = registered.get(event)
    const given = typeof fields === 'object' && fields !== null ? (fields as Record<string, unknown>) : {}
    if (!kinds) return { event: 'log.refused', of: admitName(event), fields: Object.keys(given).length }

    const line: Record<string, Plain> = { event }
    let refused = 0
    for (const field of Object.keys(given)) {
      const value = given[field]
      if (value === undefined) continue
      const kind = kinds.get(field)
      const admitted = kind === undefined ? undefined : value === null ? null : admitValue(kind, value)
      if (admitted === undefined) refused++
      else line[field] = admitted
    }
    if (refused > 0) line['refused'] = refused
    return line
  }
}

/** A name that could carry a secret cannot be registered, so no line has one, whatever its value. */
function compile(event: string, spec: Readonly<Record<string, FieldKind>>): ReadonlyMap<string, FieldKind> {
  if (!eventName.test(event)) throw new Error('an event is named area.happened in lower case')
  for (const field of Object.keys(spec)) {
    if (!fieldName.test(field) || reserved.has(field)) throw new Error(`${event}: ${field} cannot be a field`)
    if (isSensitiveName(field)) throw new Error(`${event}: ${field} names something that is never logged`)
  }
  return new Map(Object.entries(spec))
}

const eventName = /^[a-z][a-z0-9_-]{0,30}(?:\.[a-z][a-z0-9_-]{0,40}){1,3}$/
const fieldName = /^[a-z][a-z0-9_]{0,40}$/
const reserved = new Set(['level', 'time', 'event', 'refused', 'msg', 'err'])

function admitName(event: unknown): string {
  return typeof event === 'string' && eventName.test(event) && isPlainWord(event) ? event : '[unnamed]'
}

/** Undefined is a refusal. */
function admitValue(kind: FieldKind, value: unknown): Plain | undefined {
  switch (kind) {
    case 'text':
      return typeof value === 'string' && isText(value) ? value : undefined
    case 'id':
      return typeof value === 'string' && isId(value) ? value : undefined
    case 'ids':
      return Array.isArray(value) && value.length <= 20 && value.every(isId) ? [...value] : undefined
    case 'hash':
      return typeof value === 'string' && isHash(value) ? value : undefined
    case 'int':
      return Number.isInteger(value) && isSmall(value as number) ? (value as number) : undefined
    case 'number':
      return typeof value === 'number' && isSmall(value) ? Math.round(value * 1000) / 1000 : undefined
    case 'bool':
      return typeof value === 'boolean' ? value : undefined
    case 'time':
      return value instanceof Date && !Number.isNaN(value.getTime()) ? value.toISOString() : undefined
    case 'error':
      return describeError(value)
    case 'withheld':
      return typeof value === 'string' ? `[${value.length} characters]` : undefined
  }
}

// A colon only begins a route parameter: anywhere else it would join a name to its value.
const textAlphabet = /^(?:\/:|[A-Za-z0-9_./*{}+-])*$/
const idAlphabet = /^[A-Za-z0-9_.:-]+$/

function isText(value: string): boolean {
  return value.length <= 200 && textAlphabet.test(value) && isPlainWord(value)
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && value.length <= 64 && idAlphabet.test(value) && isPlainWord(value)
}

/** A hash has letters, and bytes that are not text. A number or a text in hexadecimal is none. */
function isHash(value: string): boolean {
  if (!/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(value) || !/[a-f]/.test(value)) return false
  return !/^[ -~\t\r\n]+$/.test(Buffer.from(value, 'hex').toString('latin1'))
}

/** The shortest card number has twelve digits. */
function isSmall(value: number): boolean {
  return Math.abs(value) < 1e11
}
