import type { RefusalDetail } from '../refusal.ts'
import { fieldName, fieldPath, rememberFieldNames } from './field-path.ts'

type Schema = {
  readonly type?: unknown
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly maxItems?: number
  readonly anyOf?: readonly Schema[]
  readonly 'x-codes'?: Readonly<Record<string, string>>
}

/** The lists that are longer than their schema allows. Nothing inside of them is looked at. */
export function listsTooLong(schema: Schema, value: unknown, pointer = ''): RefusalDetail[] {
  if (!holdsList(schema) || typeof value !== 'object' || value === null) return none
  if (!Array.isArray(value)) {
    return Object.entries(schema.properties ?? {}).flatMap(([name, part]) =>
      Object.hasOwn(value, name)
        ? listsTooLong(part, (value as Record<string, unknown>)[name], `${pointer}/${name}`)
        : none,
    )
  }
  const list = listIn(schema)
  if (!list) return none
  if (value.length > list.maxItems!) {
    const code = list['x-codes']?.['maxItems'] ?? 'too_many'
    const message = `This value must not have more than ${list.maxItems} items.`
    return [{ path: fieldPath(pointer) || 'body', code, message }]
  }
  const { items } = list
  if (!items || !holdsList(items)) return none
  return value.flatMap((item, at) => listsTooLong(items, item, `${pointer}/${at}`))
}

const none: RefusalDetail[] = []
const mostUnknown = 20

/**
 * As much of a value as may be walked error by error: a list that is too long is emptied, and of the fields that no
 * schema knows only the first few are kept.
 */
export function boundedPart(schema: Schema, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const list = listIn(schema)
    if (!list) return value
    if (value.length > list.maxItems!) return []
    const { items } = list
    return items ? value.map((item) => boundedPart(items, item)) : value
  }
  const { properties } = schema
  if (!properties) return value
  let unknown = 0
  const kept = Object.keys(value).filter(
    (name) => Object.hasOwn(properties, name) || ++unknown <= mostUnknown,
  )
  return Object.fromEntries(
    kept.map((name) => {
      const part = (value as Record<string, unknown>)[name]
      const known = Object.hasOwn(properties, name) ? properties[name] : undefined
      return [name, known ? boundedPart(known, part) : part]
    }),
  )
}

/** The schema itself, or the one choice of it, that takes a list. */
function listIn(schema: Schema): Schema | undefined {
  return [schema, ...(schema.anyOf ?? [])].find(({ maxItems }) => maxItems !== undefined)
}

const withList = new WeakMap<Schema, boolean>()

function holdsList(schema: Schema): boolean {
  let holds = withList.get(schema)
  if (holds === undefined) {
    holds = listIn(schema) !== undefined || Object.values(schema.properties ?? {}).some(holdsList)
    withList.set(schema, holds)
  }
  return holds
}

/** Refuses the start when a body may hold a list of any length, and learns the names of our fields. */
export function requireBounds(schema: Schema, path = ''): void {
  if (schema.type === 'array' && schema.maxItems === undefined)
    throw new Error(`The list ${path || 'body'} has no maxItems; say how long it may be.`)
  if (schema.properties) {
    rememberFieldNames(Object.keys(schema.properties))
    for (const [name, part] of Object.entries(schema.properties)) requireBounds(part, fieldName(path, name))
  }
  if (schema.items) requireBounds(schema.items, path)
  for (const choice of schema.anyOf ?? []) requireBounds(choice, path)
}
