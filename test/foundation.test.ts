import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { openApp } from '../src/app.ts'
import { readConfig } from '../src/config.ts'
import { openFoundation } from '../src/foundation.ts'
import { queueSchema } from '../src/platform/queue/queue-schema.ts'
import { patience } from './patience.ts'
import { databaseUrl } from './postgres.ts'
import { runCommand } from './processes/service-process.ts'
import { createDatabase, dropDatabase } from './world.ts'

let url: string
let dataDir: string
beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'rankledger-foundation-'))
  url = await createDatabase()
})
afterEach(async () => {
  await dropDatabase(url)
  rmSync(dataDir, { recursive: true })
})

const vaultKeys = `1:${randomBytes(32).toString('base64')}`
const webhookSecrets = `whsec_${randomBytes(32).toString('base64')}`
const environment = () => ({
  DATABASE_URL: url,
  RANKLEDGER_DATA: dataDir,
  LOG_LEVEL: 'silent',
  ...patience,
  VAULT_KEYS: vaultKeys,
  WEBHOOK_SECRETS: webhookSecrets,
})
const openForCommand = (more: Record<string, string> = {}) =>
  openFoundation(readConfig({ ...environment(), ...more }), { name: 'test', role: 'command', poolSize: 2 })

async function query(text: string): Promise<pg.QueryResultRow[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

const migrationsThere = () => query('select name from platform.migration order by name')
const live = {
  MODE: 'live',
  PAYMENT_PROVIDER: 'toss',
  PROVIDER_SECRET_KEY: 'live_sk_0123456789abcdef',
  SELLER_NAME: 'Seller',
}

test('a command refuses a database of an older release, says what to do, and alters nothing', async () => {
  const [newest] = await query(
    'delete from platform.migration where name = (select max(name) from platform.migration) returning name',
  )
  const before = await migrationsThere()
  await expect(openForCommand()).rejects.toThrow(
    new RegExp(`made by an older release and lacks .*${newest!['name']}.*run \`rankledger migrate\``),
  )
  const told = await runCommand(['token', 'list'], environment())
  expect([told.code, told.output]).toEqual([
    1,
    expect.stringMatching(/older release .* run `rankledger migrate`/),
  ])
  expect(told.output.trim().split('\n')).toHaveLength(1)
  expect(await migrationsThere()).toEqual(before)
})

test('a command refuses a database of a newer release, says what to do, and alters nothing', async () => {
  await query("insert into platform.migration (name, sha256) values ('29990101T0000-later.sql', 'x')")
  await expect(openForCommand()).rejects.toThrow(/newer release than this one .*29990101T0000-later\.sql/)
  const told = await runCommand(['db', 'status'], environment())
  expect([told.code, told.output]).toEqual([1, expect.stringMatching(/newer release .* start that release/)])
  expect(told.output.trim().split('\n')).toHaveLength(1)
})

test.each([
  [queueSchema - 1, /older release and lacks this release's tables of the queue/],
  [queueSchema + 1, /queue's tables were made by a newer release/],
])('so it does with tables of the queue at %i', async (id, sentence) => {
  await query(`delete from graphile_worker.migrations where id = ${queueSchema}`)
  await query(`insert into graphile_worker.migrations (id) values (${id}) on conflict do nothing`)
  await expect(openForCommand()).rejects.toThrow(sentence)
})

test('an empty database is made by whoever comes first to a sandbox, and by no command with MODE=live', async () => {
  const client = new pg.Client({ connectionString: inject('postgresUrl') })
  await client.connect()
  await client.query(`drop database ${new URL(url).pathname.slice(1)}`)
  await client.query(`create database ${new URL(url).pathname.slice(1)}`)
  await client.end()
  url = databaseUrl(inject('postgresUrl'), new URL(url).pathname.slice(1))

  await expect(openForCommand(live)).rejects.toThrow(/^The database is empty; run `rankledger migrate`/)
  expect(await query("select 1 from pg_namespace where nspname in ('platform', 'graphile_worker')")).toEqual(
    [],
  )
  await (await openForCommand()).close()
  await (await openForCommand(live)).close()
})

test('a command that only reads and writes leaves no trace: no key, no alarm, no file', async () => {
  const command = await openForCommand()
  expect(await command.pool.query('select from platform.vault_key')).toMatchObject({ rowCount: 0 })
  expect(readdirSync(dataDir)).toEqual([])
  await command.close()

  await query(
    "insert into platform.alarm (kind, subject, note, raised_at, last_at, count) values ('provider_missing', 'sandbox', 'x', now(), now(), 1)",
  )
  const alarms = () => query("select 1 from platform.alarm where kind = 'provider_missing'")
  const config = readConfig(environment())
  await (await openApp(config, { name: 'test', role: 'command' })).close()
  expect(await alarms()).toHaveLength(1)
  await (await openApp(config, { name: 'test', role: 'service' })).close()
  expect(await alarms()).toHaveLength(0)
})

test('graphile-worker is the version whose private tables we know', async () => {
  expect(await query('select max(id) as id from graphile_worker.migrations')).toEqual([{ id: queueSchema }])
})

test('the source over a made-up web exists in sandbox mode only', async () => {
  const here = await openForCommand()
  expect([...here.batch.sources.keys()]).toEqual(['sandbox'])
  await here.close()
  const there = await openForCommand(live)
  expect([...there.batch.sources.keys()]).toEqual([])
  await there.close()
})
