import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { migrate } from '../src/platform/database/migrate.ts'
import { migrateQueue } from '../src/platform/queue/queue.ts'
import { dropOnNodes, listNodes, makeClusterTemplate } from './citus.ts'
import { openThrowawayServer } from './throwaway-server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The server that all test files share; each makes its own database from the template. */
    postgresUrl: string
    /** The nodes of a Citus cluster, if `CITUS_URL` names one; every test's batch tables are spread over them. */
    citusNodes: string[]
  }
}

/** Starts one real PostgreSQL for the whole run, with a migrated template that test files copy in milliseconds. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const citusUrl = process.env['CITUS_URL']
  const nodes = citusUrl ? await listNodes(citusUrl) : []
  project.provide('citusNodes', nodes)
  if (citusUrl) {
    await makeClusterTemplate(nodes, template)
    project.provide('postgresUrl', citusUrl)
    return () => dropOnNodes(nodes, template)
  }
  const server = await openThrowawayServer('test', { max_connections: '400', autovacuum: 'off' })
  try {
    await makeTemplate(server.url)
  } catch (error) {
    await server.close()
    throw error
  }
  project.provide('postgresUrl', server.url)
  return server.close
}

export const template = 'template_rankledger'

async function makeTemplate(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(`create database ${template}`)
  await client.end()
  await migrate(databaseUrl(url, template), { connectTimeoutMs: 60_000 })
  await migrateQueue(databaseUrl(url, template))
}

export function databaseUrl(url: string, database: string): string {
  const named = new URL(url)
  named.pathname = `/${database}`
  return named.toString()
}

/** The same database by way of a port where somebody stands between, and not past it by the server's socket file. */
export function urlThrough(url: string, { port }: { readonly port: number }): string {
  const linked = new URL(url)
  linked.searchParams.delete('host')
  linked.port = String(port)
  return linked.toString()
}
