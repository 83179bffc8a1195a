import { createHash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { doctor } from '../../src/cli/doctor.ts'
import { provider } from '../../src/cli/provider.ts'
import { findEmbeddedPostgres } from '../../src/platform/embedded-postgres/find-embedded-postgres.ts'
import { runCommand } from '../billing/run-command.ts'
import { patience } from '../patience.ts'
import { createDatabase, dropDatabase, openWorld } from '../world.ts'
import { startService } from './service-process.ts'

let folder: string
let dataDir: string
const undo: (() => unknown)[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rankledger-doctor-'))
  // Accounts of PostgreSQL have to pass through.
  chmodSync(folder, 0o755)
  dataDir = join(folder, 'data')
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
  rmSync(folder, { recursive: true, force: true })
})

async function examine(environment: Record<string, string>) {
  const { code, output } = await runCommand(doctor, ['--json'], {
    RANKLEDGER_DATA: dataDir,
    DATABASE_URL: '',
    ...patience,
    ...environment,
  })
  const { findings } = JSON.parse(output) as { findings: { check: string; state: string; message: string }[] }
  return { code, output, told: (check: string) => findings.filter((one) => one.check === check) }
}

/** Every file below, with its rights, owner, time of change and content. */
function filesBelow(path: string, except: readonly string[] = []): string[] {
  return readdirSync(path, { withFileTypes: true })
    .filter(({ name }) => !except.includes(name))
    .flatMap((entry) => {
      const here = join(path, entry.name)
      const { mode, uid, gid, mtimeMs } = lstatSync(here)
      const content = entry.isFile() ? createHash('sha256').update(readFileSync(here)).digest('hex') : ''
      const line = [here, mode, uid, gid, mtimeMs, content].join(' ')
      return entry.isDirectory() ? [line, ...filesBelow(here)] : [line]
    })
}

/** Every row of every table as one number, or how many there are where a service goes on writing. */
async function rowsOf(
  url: string,
  what = 'sum(hashtextextended(t::text, 0))',
): Promise<Record<string, string>> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables
       where schemaname not in ('pg_catalog', 'information_schema') order by 1`,
    )
    expect(tables.length).toBeGreaterThan(30)
    const found: Record<string, string> = {}
    for (const { name } of tables)
      found[name] = String((await client.query(`select ${what} as all from ${name} t`)).rows[0].all)
    return found
  } finally {
    await client.end()
  }
}

/** What a service that has just started makes ready goes on for a moment. */
async function whenSettled<T>(look: () => Promise<T>): Promise<T> {
  for (let found = await look(); ; ) {
    await sleep(2_000)
    const next = await look()
    if (isDeepStrictEqual(next, found)) return next
    found = next
  }
}

describe('an embedded database', () => {
  test('that is not there yet is not made, and neither is its data dir', async () => {
    const noted = [{ check: 'database', state: 'note', message: expect.stringMatching(/^none is here yet/) }]
    const before = await examine({})
    expect([before.code, before.told('database')]).toEqual([0, noted])
    expect(existsSync(dataDir)).toBe(false)
    mkdirSync(dataDir, { mode: 0o700 })
    expect((await examine({})).told('database')).toEqual(noted)
    expect(readdirSync(dataDir)).toEqual([])
  })

  test('is looked into while it is served, and not started where it is not', async () => {
    const service = startService(['serve'], {
      RANKLEDGER_DATA: dataDir,
      PORT: '0',
      MODE: 'sandbox',
      ...patience,
    })
    undo.push(() => service.stop())
    await service.url()
    const served = await findEmbeddedPostgres(dataDir)
    if (served.state !== 'running') throw new Error(served.state)

    const lives = ['pgdata', 'postgres.log']
    const rows = await whenSettled(() => rowsOf(served.url, 'count(*)'))
    const files = filesBelow(dataDir, lives)
    const { code, told, output } = await examine({})
    expect([code, told('keys'), told('provider'), told('workers')]).toEqual([
      0,
      ...['keys', 'provider', 'workers'].map((check) => [expect.objectContaining({ check, state: 'ok' })]),
    ])
    expect(output).not.toContain(served.password)
    expect(filesBelow(dataDir, lives)).toEqual(files)
    expect(await rowsOf(served.url, 'count(*)')).toEqual(rows)

    expect(await service.stop()).toBe(0)
    const left = filesBelow(dataDir)
    const stopped = await examine({})
    expect([stopped.code, stopped.told('database')]).toEqual([
      0,
      [{ check: 'database', state: 'note', message: expect.stringMatching(/^is not running/) }],
    ])
    expect(filesBelow(dataDir)).toEqual(left)
  })
})

const secrets = () => ({
  VAULT_KEYS: `1:${randomBytes(32).toString('base64')}`,
  WEBHOOK_SECRETS: `whsec_${randomBytes(32).toString('base64')}`,
})

test('a database without an installation key gets none, and the data dir no secret', async () => {
  const url = await createDatabase()
  undo.push(() => dropDatabase(url))
  const before = await rowsOf(url)
  const { code, told } = await examine({ DATABASE_URL: url, ...secrets() })
  expect([code, told('keys')]).toEqual([
    0,
    [{ check: 'keys', state: 'note', message: expect.stringMatching(/^no installation key yet/) }],
  ])
  expect(await rowsOf(url)).toEqual(before)
  expect(existsSync(dataDir)).toBe(false)
})

test('a key that is new, one that is out of use and the webhook secret of a shell change nothing where a service works', async () => {
  const world = await openWorld()
  undo.push(() => world.close())
  const { VAULT_KEYS, RANKLEDGER_DATA } = world.environment as Record<string, string>
  await world.query("insert into platform.vault_key (version, probe) values (9, '\\x00')")
  const shell = {
    ...world.environment,
    VAULT_KEYS: `${VAULT_KEYS},2:${randomBytes(32).toString('base64')}`,
    WEBHOOK_SECRETS: secrets().WEBHOOK_SECRETS,
  }
  const [files, rows] = [filesBelow(RANKLEDGER_DATA!), await rowsOf(world.databaseUrl)]
  const { code, told } = await examine(shell)
  expect([code, told('keys')]).toEqual([0, [expect.objectContaining({ state: 'ok' })]])
  expect(await rowsOf(world.databaseUrl)).toEqual(rows)
  expect(filesBelow(RANKLEDGER_DATA!)).toEqual(files)

  // Other commands do take keys up, and leave the service's secret alone all the same.
  expect((await runCommand(provider, ['check'], shell)).code).toBe(0)
  expect(filesBelow(RANKLEDGER_DATA!)).toEqual(files)
})

test('what a refused key would have done is not done', async () => {
  const world = await openWorld()
  undo.push(() => world.close())
  const rows = await rowsOf(world.databaseUrl)
  const wrong = { ...world.environment, VAULT_KEYS: `2:${randomBytes(32).toString('base64')}` }
  const { told } = await examine(wrong)
  expect(told('keys')).toEqual([
    expect.objectContaining({ state: 'fault', message: expect.stringMatching(/lacks key 1/) }),
  ])
  await expect(runCommand(provider, ['check'], wrong)).rejects.toThrow(/lacks key 1/)
  expect(await rowsOf(world.databaseUrl)).toEqual(rows)
})

test('no secret is said, in lines or as JSON', async () => {
  const HINT_SECRET = `a-word-${'of-its-own-'.repeat(4)}end`
  dataDir = join(folder, HINT_SECRET, 'data')
  for (const args of [[], ['--json']]) {
    const { output } = await runCommand(doctor, args, {
      RANKLEDGER_DATA: dataDir,
      DATABASE_URL: '',
      HINT_SECRET,
    })
    expect(output).toContain('is not there yet')
    expect(output).not.toContain(HINT_SECRET)
  }
})
