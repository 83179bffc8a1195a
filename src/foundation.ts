import { join } from 'node:path'
import type pg from 'pg'
import type { BatchApp } from './batch/app.ts'
import { openSources } from './batch/sources/registry.ts'
import type { BillingStore } from './billing/app.ts'
import { builtInSource } from './built-in-source.ts'
import type { Config } from './config.ts'
import { type Database, migrateDatabase, openDatabase, requireSchema } from './database.ts'
import { type Clock, movableClock, realClock } from './platform/clock.ts'
import { openDb, openPool } from './platform/database/db.ts'
import type { SecretSet } from './platform/log/secret-set.ts'
import type { Fence } from './platform/queue/queue.ts'
import { openLog, type ServiceLog } from './service-log.ts'

/**
 * What every process of the service reads and writes with: the log, the database, the clock. Most commands need no more;
 * `openApp` builds keys, providers and the sandbox on top.
 */
export type Foundation = {
  readonly config: Config
  readonly log: ServiceLog
  readonly secrets: SecretSet
  readonly database: Database
  readonly pool: pg.Pool
  readonly clock: Clock
  readonly billing: BillingStore
  readonly batch: BatchApp
  close(): Promise<void>
}

export type FoundationOptions = {
  /** Shown by the database beside each session. */
  name: string
  /** A service brings the schema to its release; a command refuses any other, and leaves the installation as it is. */
  role: 'service' | 'command'
  /** For processes that live long enough to restart a dead database. */
  keepAlive?: boolean
  onRestart?: () => void
  poolSize?: number
}

export async function openFoundation(config: Config, options: FoundationOptions): Promise<Foundation> {
  const { log, secrets } = openLog(config)
  const database = await openDatabase(config, { ...options, log, secrets })
  try {
    if (options.role === 'command') await requireSchema(config, database)
    else await migrateDatabase(config, database, (migration) => log.info('database.migrated', { migration }))

    return await foundationOn(config, database, options)
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Builds on a database that is open and fit, and writes nothing to it. Closing closes that as well. */
export async function foundationOn(
  config: Config,
  database: Database,
  { name, poolSize = config.database.poolSize }: Pick<FoundationOptions, 'name' | 'poolSize'>,
): Promise<Foundation> {
  const { log, secrets } = openLog(config)
  const connection = { ...database.limits, url: database.url }
  const pool = openPool({
    ...connection,
    max: poolSize,
    name: `rankledger ${name}`,
    onError: (error) => log.warn('database.lost', { error }),
  })
  try {
    const clock = config.mode === 'sandbox' ? await movableClock(pool) : realClock()
    const sources = new Map(openSources(config.sources))
    if (config.mode === 'sandbox') sources.set('sandbox', builtInSource(clock))
    return {
      config,
      log,
      secrets,
      database,
      pool,
      clock,
      billing: { db: openDb(pool, { byKey: true }), pool, clock },
      batch: {
        db: openDb(pool),
        pool,
        connection,
        clock,
        timeZone: config.timeZone,
        fence: unfenced,
        schedule: config.schedule,
        modelCacheDir: join(config.dataDir, 'models'),
        sources,
      },
      async close() {
        for (const source of sources.values()) source.close()
        await pool.end()
        await database.close()
      },
    }
  } catch (error) {
    await pool.end()
    throw error
  }
}

/** A request is no worker: nobody takes its work over while it lives. */
const unfenced: Fence = async () => {}
