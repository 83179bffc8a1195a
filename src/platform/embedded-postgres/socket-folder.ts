import { rm } from 'node:fs/promises'
import { makeFolderFor } from './account.ts'
import type { Cluster } from './cluster.ts'

/** What systems take as the path of a socket, with room for the shortest of them (macOS). */
const longestPath = 103

/** Where the cluster's socket file lies while it is served. Null if a data dir is so deep that the path is too long. */
export function socketFolderOf(pgdata: string): string | null {
  const folder = `${pgdata}-socket`
  return Buffer.byteLength(`${folder}/.s.PGSQL.65535`) <= longestPath ? folder : null
}

/**
 * Makes the folder empty, for the account alone. What a killed server left in it names a process, and in a new container
 * that number may belong to anyone: PostgreSQL would refuse to start. Call it only while nobody serves the cluster.
 */
export async function makeSocketFolder({ account }: Cluster, folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await makeFolderFor(account, folder)
}
