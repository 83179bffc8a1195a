import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const src = fileURLToPath(new URL('../src', import.meta.url))

const order: Readonly<Record<string, readonly string[]>> = {
  billing: [
    'audit',
    'events',
    'sweeps',
    'accounts',
    'ledger',
    'providers',
    'plans',
    'payments',
    'invoices',
    'refunds',
    'subscriptions',
    'collection',
    'lifecycle',
    'reconciliation',
    'webhooks',
    'summary',
  ],
  batch: [
    'keywords',
    'ranks',
    'volumes',
    'trends',
    'retention',
    'sources',
    'runs',
    'tracking',
    'models',
    'dataset',
    'learning',
    'training',
    'predictions',
    'scheduling',
    'summary',
    'distribution',
  ],
}
const schemas = ['platform', 'billing', 'batch', 'sandbox'] as const

type Source = { path: string; text: string; imports: string[] }

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => /\.\w+$/.test(path))
const sources: Source[] = files
  .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
  .map((path) => {
    const text = readFileSync(join(src, path), 'utf8')
    const imports = [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map((match) =>
      relative(src, resolve(dirname(join(src, path)), match[1]!)),
    )
    return { path, text, imports }
  })

/** Pairs of file and import that break a rule. */
function broken(rule: (from: string, to: string) => boolean): string[] {
  return sources.flatMap(({ path, imports }) =>
    imports.filter((to) => rule(path, to)).map((to) => `${path} imports ${to}`),
  )
}

test('this test reads the code it judges', () => {
  expect(sources.length).toBeGreaterThan(50)
  expect(sources.flatMap(({ imports }) => imports).length).toBeGreaterThan(150)
})

test.each(Object.entries(order))('in %s a slice imports only what stands before it', (area, slices) => {
  const rankOf = (path: string) => {
    const [first, slice, file] = path.split('/')
    return first === area && file !== undefined ? slices.indexOf(slice!) : undefined
  }
  const unknown = sources.filter(({ path }) => rankOf(path) === -1).map(({ path }) => path)
  expect(unknown).toEqual([])
  expect(broken((from, to) => (rankOf(from) ?? -2) >= 0 && (rankOf(to) ?? -2) > (rankOf(from) ?? 0))).toEqual(
    [],
  )
})

test.each(['billing', 'batch'])('the slices of %s do not reach up to its lists', (area) => {
  const lists = [`${area}/routes.ts`, `${area}/jobs.ts`, `${area}/due.ts`]
  expect(
    broken((from, to) => from.split('/').length > 2 && from.startsWith(`${area}/`) && lists.includes(to)),
  ).toEqual([])
})

test('areas, sandbox and platform keep to themselves', () => {
  const may: Record<string, readonly string[]> = {
    platform: ['platform'],
    billing: ['platform', 'billing'],
    batch: ['platform', 'batch'],
    sandbox: ['platform', 'sandbox'],
  }
  const area = (path: string) => path.split('/')[0]!
  expect(
    broken(
      (from, to) =>
        from.includes('/') && may[area(from)] !== undefined && !may[area(from)]!.includes(area(to)),
    ),
  ).toEqual([])
})

test('commands are a door: nothing but the executable imports them', () => {
  const outside = (path: string) => path !== 'main.ts' && !path.startsWith('cli/')
  expect(sources.filter(({ path }) => path.startsWith('cli/')).length).toBeGreaterThan(20)
  expect(broken((from, to) => outside(from) && to.startsWith('cli/'))).toEqual([])
})

test('the SQL of rows stands in rows files', () => {
  const statement =
    /\.(?:selectFrom|insertInto|updateTable|deleteFrom|query)(?:<[^(]*>)?\(|(?<![.\w])send(?:<[^(]*>)?\(|sql(?:<[^`]*>)?`/
  const outside = sources
    .filter(({ path }) => /^(?:billing|batch|cli|demo)\//.test(path) && !path.endsWith('-rows.ts'))
    .filter(({ text }) => statement.test(text))
    .map(({ path }) => path)
  expect(outside.sort()).toEqual([
    'batch/copy-in.ts', // COPY
    'batch/distribution/distribute.ts', // moves whole tables to other machines
    'batch/import.ts', // the transaction around COPY
    // Whole months are read out.
    'batch/retention/archive.ts',
    'batch/retention/rank-archive.ts',
    'batch/retention/volume-archive.ts',
    'batch/statement.ts', // sends what rows files write
    // Whole tables again: what is due anywhere, every sum of the ledger, every sealed value.
    'billing/due.ts',
    'billing/ledger/check-ledger.ts',
    'billing/reseal.ts',
    'cli/doctor-database.ts', // tries out whether a pooler keeps prepared statements
  ])
})

test('what an open payment is stands in one place', () => {
  const pair = /'(?:sending|unknown)',\s*'(?:sending|unknown)'/g
  const places = sources.flatMap(({ path, text }) => [...text.matchAll(pair)].map(() => path))
  expect(places.sort()).toEqual([
    'billing/refunds/refund-turn-rows.ts', // the step of a refund
    'billing/unsettled-rows.ts',
  ])
})

test('what a column of billing may hold is written down beside its table and once more', () => {
  const listed = /'\w+'(?:\s*[|,]\s*'\w+')+/g
  const listsIn = (text: string) =>
    [...text.matchAll(listed)].map(([list]) => [...list.matchAll(/\w+/g)].sort().join(' '))
  const tables = sources.find(({ path }) => path === 'billing/tables.ts')!
  const held = new Set(listsIn(tables.text))
  expect(held.size).toBeGreaterThan(12)
  // Providers have words of their own, which may be the same ones.
  const places = sources
    .filter(({ path }) => /^(?:billing|cli|demo)\//.test(path) && path !== tables.path)
    .filter(({ path }) => !path.startsWith('billing/providers/'))
    .flatMap(({ path, text }) => listsIn(text).map((list) => ({ path, list })))
    .filter(({ list }) => held.has(list))
  expect(places.length).toBeGreaterThan(8)
  const again = places.filter(({ list }, at) => places.findIndex((one) => one.list === list) < at)
  expect(again.map(({ path, list }) => `${path}: ${list}`)).toEqual([])
})

test('no file names the Postgres schema of another area', () => {
  const foreign = sources
    .filter(({ path }) => path.includes('/'))
    .flatMap(({ path, text }) => {
      const own = path.split('/')[0]!
      return schemas
        .filter((schema) => schema !== own && schema !== 'platform' && own !== 'cli')
        .filter((schema) =>
          new RegExp(
            `\\b(?:from|join|into|update|table|delete from)\\s+${schema}\\.\\w|'${schema}\\.\\w+( as \\w+)?'\\s*[),]`,
          ).test(text),
        )
        .map((schema) => `${path} names ${schema}`)
    })
  expect(foreign).toEqual([])
})

test('only the configuration reads the environment', () => {
  const readers = sources.filter(({ text }) => /process\.env/.test(text)).map(({ path }) => path)
  expect(readers.filter((path) => path !== 'config.ts')).toEqual([])
})

test('no file is longer than a reader follows in one go', () => {
  const long = files
    .map((path) => ({ path, lines: readFileSync(join(src, path), 'utf8').split('\n').length - 1 }))
    .filter(({ lines }) => lines > 400)
  expect(long.map(({ path }) => path)).toEqual([
    'batch/learning/kernel.wat', // one WebAssembly module, which cannot be written in parts
  ])
})

test('no folder but that of commands holds more files than a newcomer reads the names of', () => {
  const counts = new Map<string, number>()
  for (const { path } of sources) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1)
  expect(counts.get('cli')).toBeGreaterThan(21)
  expect([...counts].filter(([folder, files]) => folder !== 'cli' && files > 21)).toEqual([])
})

test('what takes `db` opens no transaction that writes', () => {
  // A use-case opens its own by way of `app.db`; whoever is handed a bare `db` may only read in one.
  const opened = /(?<![.\w])(?:db|pool)\s*\.transaction\(\)((?:\s*\.set\w+\([^)]*\))*)\s*\.execute/g
  const transactions = sources.flatMap(({ path, text }) =>
    [...text.matchAll(opened)].map(([, settings]) => ({ path, settings })),
  )
  expect(transactions.length).toBeGreaterThan(1)
  expect(transactions.filter(({ settings }) => !settings!.includes("setAccessMode('read only')"))).toEqual([])
})

test('what writes by way of a bare `db` or `pool` sends one statement', () => {
  // Two could be parted by a death of the process, and each would see what others did in between.
  const taking = /^(?:export )?(?:async )?function\*? (\w+)(?:<[^(]*>)?\(\s*(?:db|pool): [\s\S]*?\n\}\n/gm
  const writing = /\b(?:insert into|delete from|update \w+\.\w+)\b|\.(?:insertInto|deleteFrom|updateTable)\(/
  const sending = /\.execute\w*\(|\.query(?:<[^(]*>)?\(|(?<![.\w])send(?:<[^(]*>)?\(/g
  const writers = sources
    .filter(({ path }) => /^(?:billing|batch|cli|demo)\/|-rows\.ts$/.test(path))
    .flatMap(({ path, text }) =>
      [...text.matchAll(taking)].map(([body, name]) => ({ at: `${path} ${name}`, body })),
    )
    .filter(({ body }) => writing.test(body))
  expect(writers.length).toBeGreaterThan(50)
  const more = writers.filter(({ body }) => body.match(sending)?.length !== 1)
  expect(more.map(({ at }) => at)).toEqual([
    // The second statement must see what others wrote during the first; whoever dies between leaves one session too many.
    'platform/access/session-rows.ts insertSession',
    // Each portion is whole by itself.
    'platform/access/session-rows.ts forgetOldSessions',
  ])
})

test('no function takes an app beside a transaction', () => {
  // A step that is handed the whole app could open a second transaction, or ask a provider while the first holds its locks.
  const lists = sources.flatMap(({ path, text }) =>
    parameterLists(text).map(({ name, list }) => ({ at: `${path} ${name}`, list })),
  )
  const takes = (type: string) => new RegExp(`: (?:\\w+ \\| )*${type} *(?:[,;}=]|$)`, 'm')
  const withApp = lists.filter(({ list }) => takes('\\w*App').test(list))
  const withTx = lists.filter(({ list }) => takes('\\w*Tx(?:<\\w+>)?').test(list))
  expect(Math.min(withApp.length, withTx.length)).toBeGreaterThan(150)
  expect(withApp.filter((one) => withTx.includes(one)).map(({ at }) => at)).toEqual([])
})

/** What stands between parentheses, from the inside out: a list does not show those of the functions that it takes. */
function parameterLists(text: string): { name: string; list: string }[] {
  const lists: { name: string; list: string }[] = []
  for (let rest = text, before = ''; rest !== before; ) {
    before = rest
    rest = rest.replace(/(\w*)(?:<[^<>()]*>)?\(([^()]*)\)/g, (_, name: string, list: string) => {
      lists.push({ name, list })
      return `${name}…`
    })
  }
  return lists
}
