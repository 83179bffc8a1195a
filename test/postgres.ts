import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { openEmbeddedPostgres } from '../src/platform/embedded-postgres/embedded-postgres.ts'
import { migrate } from '../src/platform/migrate.ts'
import { migrateQueue } from '../src/platform/queue.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The server that all test files share; each makes its own database from the template. */
    postgresUrl: string
  }
}

/** Starts one real PostgreSQL for the whole run, with a migrated template that test files copy in milliseconds. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-test-'))
  const server = await openEmbeddedPostgres({
    dataDir,
    // Nothing here outlives the run, so nothing here waits for the disk.
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '400' },
  })
  const stop = async () => {
    await server.close()
    rmSync(dataDir, { recursive: true, force: true })
  }
  try {
    await makeTemplate(server.url)
  } catch (error) {
    await stop()
    throw error
  }
  project.provide('postgresUrl', server.url)
  return stop
}

async function makeTemplate(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('create database template_rankledger')
  await client.end()
  const template = databaseUrl(url, 'template_rankledger')
  await migrate(template)
  await migrateQueue(template)
}

export function databaseUrl(url: string, database: string): string {
  const named = new URL(url)
  named.pathname = `/${database}`
  return named.toString()
}
