import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
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
  return {
    url: server.url,
    async close() {
      await server.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
