import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEmbeddedPostgres } from '../../src/platform/embedded-postgres/embedded-postgres.ts'

/** A PostgreSQL that is thrown away: nothing waits for the disk, and nobody tidies up behind a run's back. */
export async function openServer(): Promise<{ url: string; close(): Promise<void> }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rankledger-simulation-'))
  const embedded = await openEmbeddedPostgres({
    dataDir,
    settings: {
      fsync: 'off',
      synchronous_commit: 'off',
      full_page_writes: 'off',
      wal_level: 'minimal',
      max_wal_senders: '0',
      autovacuum: 'off',
      track_activities: 'off',
      track_counts: 'off',
      jit: 'off',
    },
  })
  return {
    url: embedded.url,
    async close() {
      await embedded.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
