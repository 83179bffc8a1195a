import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import pg from 'pg'
import { packageFile } from '../package-files.ts'
import { findQueueSchema } from '../queue/queue-schema.ts'
import { explainConnecting, isLockTimeout } from './database-errors.ts'

const folder = packageFile('migrations/')

// One number for the whole service: two processes that start at once migrate one after the other.
const migrationLock = 7_236_501

export type Migrated = { applied: string[]; present: number }

export type MigrateOptions = {
  onApply?: (name: string) => void
  /** Which setting the URL comes from, for the sentence that says what to change. */
  setting?: string
  connectTimeoutMs?: number
  /** How long to wait while another process migrates. */
  lockTimeoutMs?: number
}

type Migration = { name: string; text: string; sha256: string }

/** The schema is not this release's, and this process may not or must not make it so; the sentence says what to do. */
export class SchemaRefused extends Error {
  override name = 'SchemaRefused'
}

/**
 * Brings the database to this release's schema: plain SQL files, in the order of their names, each in its own
 * transaction and never twice. A database that is there already is only read. The lock lives and dies with each
 * transaction, so that neither a pooler nor a killed process can leave it behind.
 */
export async function migrate(url: string, options: MigrateOptions = {}): Promise<Migrated> {
  const { onApply, setting = 'DATABASE_URL', connectTimeoutMs = 5_000, lockTimeoutMs = 60_000 } = options
  const migrations = await readMigrations()
  return onFitServer(url, setting, connectTimeoutMs, async (client) => {
    let done = await within(connectTimeoutMs, setting, client, () => readDone(client))
    const applied: string[] = []
    for (let next = nextOf(migrations, done); next; next = nextOf(migrations, done)) {
      if (applied.length === 0) await requireOwner(client, migrations.length - done.size)
      if (await apply(client, next, lockTimeoutMs)) {
        onApply?.(next.name)
        applied.push(next.name)
      }
      done = await readDone(client)
    }
    return { applied, present: done.size }
  })
}

export type FoundSchema = {
  /** How many migrations the database holds. */
  readonly present: number
  /** Those of this release that it lacks. */
  readonly missing: readonly string[]
  /** The last migration of the queue's own tables; 0 without any. */
  readonly queue: number
}

/** Looks what a database holds and changes nothing. One that does not fit, or is newer than we, is refused as at a start. */
export async function findSchema(
  url: string,
  { setting, connectTimeoutMs }: { setting: string; connectTimeoutMs: number },
): Promise<FoundSchema> {
  const migrations = await readMigrations()
  return onFitServer(url, setting, connectTimeoutMs, (client) =>
    within(connectTimeoutMs, setting, client, async () => {
      const done = await readDone(client)
      nextOf(migrations, done)
      const missing = migrations.filter(({ name }) => !done.has(name)).map(({ name }) => name)
      return { present: done.size, missing, queue: await findQueueSchema(client) }
    }),
  )
}

async function onFitServer<T>(
  url: string,
  setting: string,
  connectTimeoutMs: number,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'rankledger migrate',
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  })
  client.on('error', () => {})
  try {
    await client.connect().catch((error) => {
      throw explainConnecting(error, { setting, url, timeoutMs: connectTimeoutMs })
    })
    await within(connectTimeoutMs, setting, client, () => requireFit(client, setting))
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** What migrating would apply, without applying it. A database that does not fit is refused as at a start. */
export async function pendingMigrations(client: pg.Client, setting: string): Promise<string[]> {
  await requireFit(client, setting)
  const done = await readDone(client)
  const migrations = await readMigrations()
  nextOf(migrations, done)
  return migrations.filter(({ name }) => !done.has(name)).map(({ name }) => name)
}

const doneQuery = 'select name, sha256 from platform.migration'

async function readDone(client: pg.Client): Promise<Map<string, string>> {
  const { rows } = await client.query("select to_regclass('platform.migration') is not null as made")
  if (!rows[0].made) return new Map()
  return new Map((await client.query(doneQuery)).rows.map(({ name, sha256 }) => [name, sha256]))
}

/** The first migration that the database lacks. A database that holds anything we do not know is refused. */
function nextOf(migrations: readonly Migration[], done: ReadonlyMap<string, string>): Migration | undefined {
  const known = new Map(migrations.map(({ name, sha256 }) => [name, sha256]))
  for (const [name, sha256] of done) {
    if (!known.has(name)) {
      throw new SchemaRefused(
        `The database was made by a newer release than this one (it holds migration ${name}); start that release, or restore a backup of this one's.`,
      )
    }
    if (known.get(name) !== sha256) {
      throw new SchemaRefused(
        `The database was made by another text of migration ${name} than this release's; start the release that made it, or begin with an empty database.`,
      )
    }
  }
  return migrations.find(({ name }) => !done.has(name))
}

/** False: another process applied it while we waited. */
async function apply(
  client: pg.Client,
  { name, text, sha256 }: Migration,
  lockTimeoutMs: number,
): Promise<boolean> {
  await client.query('begin')
  try {
    await client.query(`set local statement_timeout = 0; set local lock_timeout = ${lockTimeoutMs}`)
    await lockMigrations(client).catch((error) => {
      throw isLockTimeout(error)
        ? new SchemaRefused(
            `Another process has been migrating the database for more than ${lockTimeoutMs} ms; wait for it, end it, or raise MIGRATION_LOCK_TIMEOUT_MS.`,
          )
        : error
    })
    await client.query(
      'create schema if not exists platform; create table if not exists platform.migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())',
    )
    const there = (await client.query('select 1 from platform.migration where name = $1', [name])).rowCount
    if (!there) {
      // Whoever waits behind us for a table waits for as long as we wait for it.
      await client.query("set local lock_timeout = '15s'")
      await client.query(text)
      await client.query('insert into platform.migration (name, sha256) values ($1, $2)', [name, sha256])
    }
    await client.query('commit')
    return !there
  } catch (error) {
    await client.query('rollback').catch(() => {})
    if (error instanceof SchemaRefused) throw error
    if (isLockTimeout(error)) {
      throw new SchemaRefused(
        `Migration ${name} waited 15 s for a table that a long transaction holds; nothing was changed, so end that transaction and start again.`,
      )
    }
    throw new Error(`Migration ${name} failed: ${(error as Error).message}`, { cause: error })
  }
}

/** Whoever changes tables takes it first, and holds it until the transaction ends. */
export async function lockMigrations(client: pg.Client): Promise<void> {
  await client.query('select pg_advisory_xact_lock($1)', [migrationLock])
}

async function readMigrations(): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(folder + name, 'utf8')
      return { name, text, sha256: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

/** A host that takes connections and says nothing more is given up like one that takes none. */
async function within<T>(ms: number, setting: string, client: pg.Client, work: () => Promise<T>): Promise<T> {
  let silent = false
  const timer = setTimeout(() => {
    silent = true
    // biome-ignore lint/suspicious/noExplicitAny: the driver does not tell types of its inner connection
    ;(client as any).connection.stream.destroy()
  }, ms)
  try {
    return await work()
  } catch (error) {
    if (!silent) throw error
    throw new Error(
      `The PostgreSQL of ${setting} took a connection and did not answer within ${ms} ms; look at it, or raise DATABASE_CONNECT_TIMEOUT_MS.`,
    )
  } finally {
    clearTimeout(timer)
  }
}

async function requireFit(client: pg.Client, setting: string): Promise<void> {
  const { rows } = await client.query(
    "select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding",
  )
  const { version, encoding } = rows[0]
  if (version < 150_000) {
    throw new SchemaRefused(
      `${setting} points to a PostgreSQL older than 15; Rankledger needs PostgreSQL 15 to 18.`,
    )
  }
  if (encoding !== 'UTF8') {
    throw new SchemaRefused(
      `The database of ${setting} is encoded in ${encoding} and cannot hold every text; create one with \`create database … encoding 'UTF8' template template0\`.`,
    )
  }
}

async function requireOwner(client: pg.Client, missing: number): Promise<void> {
  const { rows } = await client.query(
    "select has_database_privilege(current_database(), 'CREATE') as may, current_user as role",
  )
  if (rows[0].may) return
  throw new SchemaRefused(
    `The database lacks ${missing} migrations of this release and role ${rows[0].role} may not make them; run \`rankledger migrate\` as the role that owns the schema.`,
  )
}
