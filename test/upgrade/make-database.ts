import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import pg from 'pg'
import { newToken } from '../../src/platform/access/token.ts'
import { runCommand, type ServiceProcess, startService } from '../processes/service-process.ts'
import { openAsker } from './asker.ts'
import { databaseFile, type Recorded, recordedFile } from './former-release.ts'
import { liveTwoMonths, names, readAll, workspace_id } from './two-months.ts'

/**
 * `npm run upgrade-fixture -- --release DIR --server postgres://…`: lets a former release, checked out and built in DIR, live
 * through two months by its own API, and keeps its database and what it answered. The server is a PostgreSQL that the
 * `pg_dump` of the PATH can read; test/fixtures/upgrade/README.md has the commands.
 */
const { values } = parseArgs({ options: { release: { type: 'string' }, server: { type: 'string' } } })
if (values.release === undefined || values.server === undefined)
  throw new Error('Name the former release and a PostgreSQL server: --release DIR --server postgres://…')
const executable = join(values.release, 'dist/main.js')
const { version } = JSON.parse(readFileSync(join(values.release, 'package.json'), 'utf8')) as {
  version: string
}
const serverUrl = values.server
const folder = mkdtempSync(join(tmpdir(), 'rankledger-former-'))
const database = `former_${randomBytes(4).toString('hex')}`
const databaseUrl = Object.assign(new URL(serverUrl), { pathname: `/${database}` }).toString()
const running: ServiceProcess[] = []

/** The database opens with these alone, so they are kept beside it; nothing else uses them. */
const keys = {
  VAULT_KEYS: `1:${createHash('sha256').update('the vault of a former release').digest('base64')}`,
  WEBHOOK_SECRETS: `whsec_${createHash('sha256').update('its notifications').digest('base64')}`,
  BOOTSTRAP_TOKEN: newToken('test'),
}

try {
  await onServer(serverUrl, `create database ${database}`)
  const source = await start(['sandbox', '--as', 'serpapi', '--port', '0'], {})
  const environment = {
    ...keys,
    DATABASE_URL: databaseUrl,
    RANKLEDGER_DATA: folder,
    PORT: '0',
    SELLER_NAME: 'Former Goods',
    SERPAPI_BASE_URL: source,
    SERPAPI_API_KEY: 'made-up',
  }
  const ask = openAsker(await start(['serve'], environment), keys.BOOTSTRAP_TOKEN)
  const kept = await liveTwoMonths(ask, keys.BOOTSTRAP_TOKEN)
  await importRanks(environment)
  const now = String((await ask.get('/api/sandbox/clock')).data['now'])
  const answers = await readAll(ask)
  for (const process of running.splice(0)) await process.stop()
  // It takes a provider some hours of refusals to raise this one.
  await onServer(
    databaseUrl,
    `insert into platform.alarm (kind, subject, note, raised_at, last_at) values
       ('card_not_deleted', 'pm_of_the_former_release', 'sandbox does not delete a card that is no longer used.', now(), now())`,
  )
  const recorded: Recorded = { version, now, environment: keys, kept, answers }
  writeFileSync(recordedFile, gzipSync(JSON.stringify(recorded), { level: 9 }))
  writeFileSync(databaseFile, gzipSync(await dump(), { level: 9 }))
} finally {
  for (const process of running) await process.stop('SIGKILL')
  await onServer(serverUrl, `drop database if exists ${database} with (force)`)
  rmSync(folder, { recursive: true, force: true })
}

async function importRanks(environment: Record<string, string>): Promise<void> {
  const file = join(folder, 'ranks.csv')
  writeFileSync(
    file,
    `keyword,day,status,position\n${names[0]},2026-01-05,ranked,3\n${names[1]},2026-01-05,ranked,4\n`,
  )
  const { code, output } = await runCommand(
    ['import', 'ranks', file, '--workspace', workspace_id],
    environment,
    executable,
  )
  if (code !== 0) throw new Error(output)
}

async function start(args: string[], environment: Record<string, string>): Promise<string> {
  const process = startService(args, environment, executable)
  running.push(process)
  return process.url()
}

/** As text that a client can send statement by statement: no COPY, and none of psql's own commands. */
async function dump(): Promise<string> {
  const child = spawn('pg_dump', ['--no-owner', '--no-privileges', '--rows-per-insert=200', databaseUrl])
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  child.stderr.pipe(process.stderr)
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`pg_dump ended with ${code}`)
  return text.replaceAll(/^(--.*|\\.*|)\n/gm, '')
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(statement).finally(() => client.end())
}
