import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { migrate } from '../src/platform/database/migrate.ts'
import { migrateQueue } from '../src/platform/queue/queue.ts'
import { openThrowawayServer } from './throwaway-server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The server that all test files share; each makes its own database from the template. */
    postgresUrl: string
  }
}

/** Starts one real PostgreSQL for the whole run, with a migrated template that test files copy in milliseconds. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await openThrowawayServer('test', { max_connections: '400' })
  try {
    await makeTemplate(server.url)
  } catch (error) {
    await server.close()
    throw error
  }
  project.provide('postgresUrl', server.url)
  return server.close
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
