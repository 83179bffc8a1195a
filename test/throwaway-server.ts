import { accessSync, constants, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEmbeddedPostgres } from '../src/platform/embedded-postgres/embedded-postgres.ts'

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

const memory = '/dev/shm'
// Several times what the data of a whole run grows to.
const roomBytes = 4 * 2 ** 30

/**
 * Memory, where the system offers it as a folder with enough room: a database is hundreds of small files, and each test makes
 * one. On a disk that takes ten times as long.
 */
function quickestFolder(): string {
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    if (Math.min(bavail * bsize, freemem()) >= roomBytes) return memory
  } catch {
    // There is none, or it is not ours to write to.
  }
  return tmpdir()
}
