import { join } from 'node:path'
import { findPlatformPackage } from './binaries.ts'
import type { Cluster } from './cluster.ts'
import { findRecord, writeRecord } from './cluster-record.ts'
import { makeDataDir } from './data-dir.ts'
import { withLock } from './lock.ts'
import { openCluster } from './open-cluster.ts'
import { ensurePostmaster, type Postmaster, type StartOptions, stopPostmaster } from './postmaster.ts'
import { urlFor } from './sign-in.ts'
import { countUsers, enrolUser } from './users.ts'
import { watchPostmaster } from './watch-postmaster.ts'

export type EmbeddedPostgres = {
  /** For this data dir, with the password. It stays the same for as long as anyone uses the database. */
  readonly url: string
  /** On its own, so that the log can be told to mask it. */
  readonly password: string
  /** Leaves the database and stops it if nobody else uses it. Calling it again is harmless. */
  close(): Promise<void>
}

export type EmbeddedPostgresOptions = {
  readonly dataDir: string
  /** Start the database again, on the same port, when it dies while this process uses it. */
  readonly keepAlive?: boolean
  /** The database has died and this process sets out to start it; `attempt` counts from 1 until it serves again. */
  readonly onRestart?: (attempt: number) => void
  /** A sentence for the operator about something that works but should not stay so. */
  readonly onWarning?: (sentence: string) => void
  /** PostgreSQL settings on top of ours. They hold for a start; joining a running database changes nothing. */
  readonly settings?: Readonly<Record<string, string>>
}

/**
 * Opens the PostgreSQL that lives in a data dir: joins it if another process serves it, else starts it, and makes it
 * first if there is none. The last process to leave stops it; one that was killed counts as having left.
 */
export async function openEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { settings = {}, onWarning: warn = (sentence) => process.emitWarning(sentence) } = options
  const platformPackage = await findPlatformPackage()
  const dataDir = await makeDataDir(options.dataDir)
  const lock = join(dataDir, 'postgres.lock')
  const users = join(dataDir, 'postgres-users')

  const { cluster, postmaster, leave } = await withLock(lock, async () => {
    const durable = settings['fsync'] !== 'off'
    const cluster = await openCluster(dataDir, { platformPackage, durable, warn })
    const postmaster = await serve(cluster, { settings, mustKeepPort: (await countUsers(users)) > 0 })
    return { cluster, postmaster, leave: await enrolUser(users) }
  })

  const restart = (onStart: () => void) =>
    withLock(lock, () => serve(cluster, { settings, mustKeepPort: true, onStart }))
  const { keepAlive = false, onRestart = () => {} } = options
  const watch = keepAlive ? watchPostmaster(postmaster, { dataDir, restart, onRestart, warn }) : null

  const close = async () => {
    await watch?.stop()
    await withLock(lock, async () => {
      await leave()
      if ((await countUsers(users)) === 0) await stopPostmaster(cluster.pgdata)
    })
  }
  let closing: Promise<void> | undefined
  return {
    url: urlFor(postmaster.port, cluster.password, postmaster.socketFolder),
    password: cluster.password,
    close: () => {
      closing ??= close()
      return closing
    },
  }
}

/** The port is remembered, so that a restart under connected users comes back where they look for it. */
async function serve(cluster: Cluster, options: Omit<StartOptions, 'port'>): Promise<Postmaster> {
  const record = await findRecord(cluster.dataDir)
  const postmaster = await ensurePostmaster(cluster, { ...options, port: record?.port ?? null })
  if (record && record.port !== postmaster.port) {
    await writeRecord(cluster.dataDir, { ...record, port: postmaster.port })
  }
  return postmaster
}
