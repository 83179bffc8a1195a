import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { openEmbeddedPostgres } from '../src/platform/embedded-postgres/embedded-postgres.ts'
import { quickestFolder } from './quickest-folder.ts'

/** A PostgreSQL for one run. Nothing in it outlives the run, so nothing in it waits for the disk. */
export async function openThrowawayServer(
  purpose: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<{ url: string; close(): Promise<void> }> {
  const dataDir = mkdtempSync(join(quickestFolder(), `rankledger-${purpose}-`))
  const server = await openEmbeddedPostgres({
    dataDir,
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', ...settings },
  })
  try {
    await easeSignIn(server.url)
  } catch (error) {
    await server.close()
    throw error
  }
  return {
    url: server.url,
    async close() {
      await server.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** A run signs in some thousand times, and half of what that costs is the hashing that slows down who guesses. */
async function easeSignIn(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('set scram_iterations = 1')
  const { username, password } = new URL(url)
  await client.query(
    `alter role ${client.escapeIdentifier(username)} password ${client.escapeLiteral(decodeURIComponent(password))}`,
  )
  await client.end()
}
