import { copyFile, type FileHandle, open, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { giveToFolderOwner } from './private-file.ts'

/** PostgreSQL's own log, `<data dir>/postgres.log`, opened to append so that it can be cut while it is written. */
export async function openServerLog(dataDir: string): Promise<FileHandle> {
  const log = await open(pathOf(dataDir), 'a', 0o600)
  await giveToFolderOwner(pathOf(dataDir))
  return log
}

/** Keeps the log within twice the limit: what is too much moves to `postgres.log.1` and replaces what was there. */
export async function boundServerLog(dataDir: string, limitBytes = 4 * 1024 * 1024): Promise<void> {
  const path = pathOf(dataDir)
  const size = await stat(path).then(
    (found) => found.size,
    () => 0,
  )
  if (size <= limitBytes) return
  await copyFile(path, `${path}.1`)
  await truncate(path)
}

export async function readServerLog(dataDir: string, from: number): Promise<string> {
  const log = await open(pathOf(dataDir), 'r')
  try {
    const { buffer, bytesRead } = await log.read({ buffer: Buffer.alloc(64 * 1024), position: from })
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await log.close()
  }
}

function pathOf(dataDir: string): string {
  return join(dataDir, 'postgres.log')
}
