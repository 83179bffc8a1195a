import { readFileSync } from 'node:fs'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { createDatabase, dropDatabase } from './world.ts'

type Field = { name: string; type: string }
type Column = {
  table: string
  name: string
  type: string
  nullable: boolean
  generated: boolean
  checks: string[]
}

const files = [
  'billing/tables.ts',
  'batch/tables.ts',
  'platform/access/audit-rows.ts',
  'platform/idempotency.ts',
]
const declared = files.flatMap((path) => {
  const file = new URL(`../src/${path}`, import.meta.url)
  return tablesIn(readFileSync(file, 'utf8')).map((one) => ({ ...one, file }))
})

let columns: Column[]

beforeAll(async () => {
  const url = await createDatabase()
  const session = new pg.Client({ connectionString: url })
  await session.connect()
  const { rows } = await session.query<Column>(`
    select format('%s.%s', n.nspname, c.relname) as table, a.attname as name, format_type(a.atttypid, null) as type,
      not a.attnotnull as nullable, a.atthasdef or a.attidentity <> '' as generated,
      array(select pg_get_constraintdef(k.oid) from pg_constraint k
            where k.conrelid = c.oid and k.contype = 'c' and k.conkey = array[a.attnum]) as checks
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p') and not c.relispartition
      and n.nspname in ('billing', 'batch', 'platform')`)
  columns = rows
  await session.end()
  await dropDatabase(url)
})

test('every table that the code names is looked at', () => {
  expect(declared.length).toBeGreaterThan(30)
})

test.each(declared)('$table is in the database as its type says', ({ table, fields, file }) => {
  const real = columns.filter((column) => column.table === table)
  expect(fields.map(({ name }) => name).sort()).toEqual(real.map(({ name }) => name).sort())
  for (const { name, type } of fields) {
    const column = real.find((one) => one.name === name)!
    const inner = /^(?:Generated|GeneratedAlways)<(.*)>$/.exec(type)?.[1] ?? type
    const parts = inner.split('|').map((part) => part.trim())
    expect([name, parts.includes('null')]).toEqual([name, column.nullable])
    // What nobody need write has a default; null needs none.
    if (inner !== type && !column.nullable) expect([name, column.generated]).toEqual([name, true])
    const family = families[column.type]
    expect(family, `${name} is ${column.type}`).toBeDefined()
    for (const part of parts.filter((one) => one !== 'null'))
      expect([name, part, column.type, family!.test(part)]).toEqual([name, part, column.type, true])
    const allowed = literalsIn(column.checks)
    const said = parts.filter((part) => part !== 'null').flatMap((part) => valuesOf(part, file) ?? part)
    if (allowed) expect([name, said.sort()]).toEqual([name, allowed.sort()])
  }
})

/** How the driver hands over each type of a column, and what stands for it in TypeScript. */
const text = /^(?:string|'[^']*'|[A-Z]\w+|ColumnType<string.*>)$/
const json = /^(?:unknown|[A-Z]\w*(?:<.*>)?)$/
const families: Readonly<Record<string, RegExp>> = {
  text,
  character: text,
  date: text,
  uuid: text,
  smallint: /^number$/,
  integer: /^number$/,
  'double precision': /^number$/,
  real: /^number$/,
  bigint: /^bigint$/,
  boolean: /^boolean$/,
  'timestamp with time zone': /^Date$/,
  bytea: /^Buffer$/,
  jsonb: json,
  json,
  'text[]': /^string\[\]$/,
  'double precision[]': /^number\[\]$/,
}

/** The values that a check lets into a column, if that is all it says. */
function literalsIn(checks: readonly string[]): string[] | undefined {
  for (const check of checks) {
    const list = /^CHECK \(\(\w+ = ANY \(ARRAY\[([^\]]*)\]\)\)\)$/.exec(check)?.[1]
    if (list) return textsIn(list)
  }
  return undefined
}

/** The texts that a type stands for: itself, or a list or union of that name, of its own file or of one that it comes from. */
function valuesOf(type: string, file: URL): string[] | undefined {
  if (type.startsWith("'")) return [type.slice(1, -1)]
  const source = readFileSync(file, 'utf8')
  const named = new RegExp(`type ${type} =([^=]*?)\\n(?=\\n|\\w|$)`).exec(source)?.[1]
  const list = /^ \(typeof (\w+)\)\[number\]$/.exec(named ?? '')?.[1]
  if (list) return textsIn(new RegExp(`const ${list} = \\[([^\\]]*)\\] as const`).exec(source)?.[1])
  if (named) return /^(?:[\s|]*'[^']*')+$/.test(named) ? textsIn(named) : undefined
  const from = new RegExp(`import (?:type )?\\{[^}]*\\b${type}\\b[^}]*\\} from '(\\.[^']*)'`).exec(
    source,
  )?.[1]
  return from === undefined ? undefined : valuesOf(type, new URL(from, file))
}

function textsIn(text: string | undefined): string[] {
  return [...(text ?? '').matchAll(/'([^']*)'/g)].map(([, value]) => value!)
}

/** Each `'schema.table': { … }` of a file, with its fields. */
function tablesIn(source: string): { table: string; fields: Field[] }[] {
  const plain = source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
  return [...plain.matchAll(/'((?:billing|batch|platform)\.\w+)': \{/g)].map((match) => {
    const body = blockAt(plain, match.index + match[0].length)
    return { table: match[1]!, fields: fieldsOf(body) }
  })
}

function blockAt(source: string, start: number): string {
  let depth = 1
  let at = start
  for (; depth > 0; at++) depth += source[at] === '{' ? 1 : source[at] === '}' ? -1 : 0
  return source.slice(start, at - 1)
}

/** Fields stand one a line, or between semicolons; a type may go on over several lines and hold braces. */
function fieldsOf(body: string): Field[] {
  const fields: Field[] = []
  let depth = 0
  let current = ''
  const end = () => {
    const field = /^(\w+): ([\s\S]+)$/.exec(current.trim().replace(/\s+/g, ' '))
    if (field) fields.push({ name: field[1]!, type: field[2]!.replace(/^\| /, '') })
    current = ''
  }
  for (const [at, char] of [...body].entries()) {
    depth += '{<(['.includes(char) ? 1 : '}>)]'.includes(char) ? -1 : 0
    const goesOn = char === '\n' && (/^\s*[|&]/.test(body.slice(at + 1)) || /:\s*$/.test(current))
    if (depth === 0 && (char === ';' || (char === '\n' && !goesOn))) end()
    else current += char
  }
  end()
  return fields
}
