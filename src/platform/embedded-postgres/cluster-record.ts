import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { explainDenied } from './data-dir.ts'
import { writePrivateFile } from './private-file.ts'

/**
 * What `<data dir>/postgres.json` says: how every later command finds the database again. It is written before the
 * files it speaks of, so that a first start may be interrupted anywhere and tried again.
 */
export type ClusterRecord = {
  /** Relative when inside the data dir, so that the data dir can be moved. */
  readonly pgdata: string
  readonly password: string
  /** Where the database was served last. */
  readonly port: number | null
  /** True once the files were complete. From then on their absence is a loss to report, not a first start. */
  readonly created: boolean
}

export function recordPath(dataDir: string): string {
  return join(dataDir, 'postgres.json')
}

export async function findRecord(dataDir: string): Promise<ClusterRecord | null> {
  try {
    return JSON.parse(await readFile(recordPath(dataDir), 'utf8')) as ClusterRecord
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    if (error instanceof SyntaxError) {
      throw new Error(`${recordPath(dataDir)} is damaged: put it back from a backup, or set DATABASE_URL.`)
    }
    throw explainDenied(error, recordPath(dataDir))
  }
}

export async function writeRecord(dataDir: string, record: ClusterRecord): Promise<void> {
  await writePrivateFile(recordPath(dataDir), `${JSON.stringify(record, null, 2)}\n`)
}
