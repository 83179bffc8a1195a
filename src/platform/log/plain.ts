/** What a JSON line can hold. */
export type Plain = null | boolean | number | string | readonly Plain[] | { readonly [key: string]: Plain }
export type PlainRecord = { readonly [key: string]: Plain }

export function isList(value: Plain): value is readonly Plain[] {
  return Array.isArray(value)
}

const maxDepth = 8
const maxItems = 200

/**
 * Turns any value into plain data, messages and all. This is what a line carries while admission is switched off,
 * so that tests can show what the stages behind it do on their own.
 */
export function toPlain(value: unknown, depth = 0): Plain {
  if (value === null || value === undefined) return null
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (typeof value !== 'object') return typeof value === 'bigint' ? String(value) : `[${typeof value}]`
  if (depth >= maxDepth) return '[deep]'
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8')
  if (value instanceof Map) return entriesToPlain([...value], depth)
  if (value instanceof Set) return toPlain([...value], depth)
  if (Array.isArray(value)) return value.slice(0, maxItems).map((item) => toPlain(item, depth + 1))
  if (value instanceof Error) return errorToPlain(value, depth)
  return entriesToPlain(Object.entries(value), depth)
}

function entriesToPlain(entries: readonly (readonly [unknown, unknown])[], depth: number): PlainRecord {
  const plain: Record<string, Plain> = {}
  for (const [key, value] of entries.slice(0, maxItems)) plain[String(key)] = toPlain(value, depth + 1)
  return plain
}

function errorToPlain(error: Error, depth: number): PlainRecord {
  const { message, stack, cause } = error
  return entriesToPlain(
    Object.entries({ ...error, type: error.constructor.name, message, stack, cause }),
    depth,
  )
}
