import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import { findRecord } from './cluster-record.ts'
import { joinPostmaster } from './postmaster.ts'
import { urlFor } from './sign-in.ts'

export type FoundPostgres =
  | { readonly state: 'none' | 'stopped' }
  | { readonly state: 'running'; readonly url: string; readonly password: string }

/** What there is of the PostgreSQL of a data dir, for whoever only looks: nothing is made, started, kept running or stopped. */
export async function findEmbeddedPostgres(path: string): Promise<FoundPostgres> {
  const record = await findRecord(path)
  if (!record?.created) return { state: 'none' }
  const dataDir = await realpath(path)
  const { password } = record
  const running = await joinPostmaster({ dataDir, pgdata: resolve(dataDir, record.pgdata), password })
  if (!running) return { state: 'stopped' }
  return { state: 'running', url: urlFor(running.port, password, running.socketFolder), password }
}
