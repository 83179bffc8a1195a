import { readFileSync } from 'node:fs'

/**
 * What a provider publishes about its answers, in `schemas/`: types by their fields, and which type each call is answered
 * with at each status. A field with a `?` may be missing. Its words are `string`, `string(6..64)`, `integer`, `number`,
 * `boolean`, `instant`, `{string}` (any names with texts), `'a text'`, `null`, `any`, `nothing` (not a byte), the name
 * of a type, a list `…[]`, and several of them with ` | ` between.
 */
export type Description = {
  readonly notification: string
  /** By method and route, then by status; `*` stands for every call, and for every status from 400. */
  readonly answers: Readonly<Record<string, Readonly<Record<string, string>>>>
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>
}

export function readDescription(name: string): Description {
  return JSON.parse(readFileSync(new URL(`./schemas/${name}.json`, import.meta.url), 'utf8'))
}

/** What a call may be answered with at a status; undefined: nobody describes that. */
export function typeOfAnswer({ answers }: Description, call: string, status: number): string | undefined {
  const types = [
    answers[call]?.[status],
    answers['*']?.[status],
    status >= 400 ? answers['*']?.['*'] : undefined,
  ]
  return types.filter((type) => type !== undefined).join(' | ') || undefined
}

/** Where a value is not of its type, and how: too little, too much, or something else. */
export function faultsIn(description: Description, type: string, value: unknown, at = ''): string[] {
  const tries = split(type).map((one) => faultsOfOne(description, one, value, at))
  return tries.reduce((least, faults) => (faults.length < least.length ? faults : least))
}

function faultsOfOne(description: Description, type: string, value: unknown, at: string): string[] {
  if (type.endsWith('[]')) {
    if (!Array.isArray(value)) return [fault(at, type, value)]
    const inner = type.slice(0, -2).replace(/^\((.*)\)$/, '$1')
    return value.flatMap((item, n) => faultsIn(description, inner, item, `${at}[${n}]`))
  }
  const fields = description.types[type]
  if (!fields) return isOf(type, value) ? [] : [fault(at, type, value)]
  if (!isObject(value)) return [fault(at, type, value)]
  const known = new Map(Object.entries(fields).map(([name, of]) => [name.replace('?', ''), { name, of }]))
  const missing = [...known].filter(([name, field]) => !field.name.endsWith('?') && !(name in value))
  return [
    ...missing.map(([name]) => `${at}.${name} is missing`),
    ...Object.entries(value).flatMap(([name, inner]) => {
      const field = known.get(name)
      return field
        ? faultsIn(description, field.of, inner, `${at}.${name}`)
        : [`${at}.${name} is unknown to ${type}`]
    }),
  ]
}

function isOf(type: string, value: unknown): boolean {
  switch (type) {
    case 'any':
      return true
    case 'null':
      return value === null
    case 'true':
      return value === true
    case 'integer':
      return Number.isSafeInteger(value)
    case 'instant':
      return typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value)
    case '{string}':
      return isObject(value) && Object.values(value).every((text) => typeof text === 'string')
    case 'string':
    case 'number':
    case 'boolean':
      return typeof value === type
  }
  const [, least, most] = /^string\((\d+)\.\.(\d+)\)$/.exec(type) ?? []
  if (least !== undefined)
    return typeof value === 'string' && value.length >= Number(least) && value.length <= Number(most)
  if (type.startsWith("'")) return value === type.slice(1, -1)
  throw new Error(`${type} is no word of a description.`)
}

/** The alternatives of a type; what stands in brackets is one. */
function split(type: string): string[] {
  return type.split(/ \| (?![^()]*\)\[\])/)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function fault(at: string, type: string, value: unknown): string {
  return `${at || '.'} is no ${type}: ${JSON.stringify(value)?.slice(0, 80)}`
}
