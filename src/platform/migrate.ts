import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'

const folder = fileURLToPath(new URL('../../migrations/', import.meta.url))

// One number for the whole service: two processes that start at once migrate one after the other.
const migrationLock = 7_236_501

export type Migrated = { applied: string[]; present: number }

/**
 * Brings the database to this release's schema: plain SQL files, in the order of their names, each in its own
 * transaction and never twice. A file that changed after it ran is refused, because the database would lie about it.
 */
export async function migrate(url: string, onApply: (name: string) => void = () => {}): Promise<Migrated> {
  const client = new pg.Client({ connectionString: url, application_name: 'rankledger migrate' })
  client.on('error', () => {})
  await client.connect()
  try {
    await requireSupportedVersion(client)
    await client.query('select pg_advisory_lock($1)', [migrationLock])
    await client.query('create schema if not exists platform')
    await client.query(
      'create table if not exists platform.migration (name text primary key, sha256 text not null, applied_at timestamptz not null default now())',
    )
    const done = new Map(
      (await client.query('select name, sha256 from platform.migration')).rows.map((row) => [
        row.name,
        row.sha256,
      ]),
    )
    const applied: string[] = []
    for (const { name, text, sha256 } of await readMigrations()) {
      const known = done.get(name)
      if (known === sha256) continue
      if (known)
        throw new Error(`Migration ${name} changed after it was applied; restore the file and add a new one.`)
      await apply(client, name, text, sha256)
      onApply(name)
      applied.push(name)
    }
    return { applied, present: done.size + applied.length }
  } finally {
    await client.end()
  }
}

async function apply(client: pg.Client, name: string, text: string, sha256: string): Promise<void> {
  await client.query('begin')
  try {
    await client.query(text)
    await client.query('insert into platform.migration (name, sha256) values ($1, $2)', [name, sha256])
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw new Error(`Migration ${name} failed: ${(error as Error).message}`, { cause: error })
  }
}

async function readMigrations(): Promise<{ name: string; text: string; sha256: string }[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(folder + name, 'utf8')
      return { name, text, sha256: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

async function requireSupportedVersion(client: pg.Client): Promise<void> {
  const version = Number((await client.query('show server_version_num')).rows[0].server_version_num)
  if (version < 150_000) {
    throw new Error(
      'DATABASE_URL points to a PostgreSQL older than 15; Rankledger needs PostgreSQL 15 to 18.',
    )
  }
}
