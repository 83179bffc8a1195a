import type { Config } from './config.ts'
import { explainConnecting } from './platform/database/database-errors.ts'
import type { PoolLimits } from './platform/database/db.ts'
import {
  type FoundSchema,
  findSchema,
  type Migrated,
  migrate,
  SchemaRefused,
} from './platform/database/migrate.ts'
import { type Connection, lookAtConnection, sharesSessions } from './platform/database/pooler.ts'
import { openEmbeddedPostgres } from './platform/embedded-postgres/embedded-postgres.ts'
import { findEmbeddedPostgres } from './platform/embedded-postgres/find-embedded-postgres.ts'
import type { SecretSet } from './platform/log/secret-set.ts'
import { queueSchema } from './platform/queue/queue-schema.ts'
import type { ServiceLog } from './service-log.ts'

export type Database = {
  readonly url: string
  /** Direct, for what lives as long as a session: locks and announcements. */
  readonly sessionUrl: string
  readonly limits: PoolLimits
  close(): Promise<void>
}

export async function openDatabase(
  config: Config,
  {
    keepAlive = false,
    log,
    secrets,
    onRestart = () => {},
  }: { keepAlive?: boolean; log: ServiceLog; secrets: SecretSet; onRestart?: () => void },
): Promise<Database> {
  if (config.databaseUrl) {
    return {
      url: config.databaseUrl,
      sessionUrl: config.databaseUrlSession ?? config.databaseUrl,
      limits: await limitsFor(config, { keepAlive }),
      close: async () => {},
    }
  }
  const embedded = await openEmbeddedPostgres({
    dataDir: config.dataDir,
    keepAlive,
    onRestart: (attempt) => {
      onRestart()
      log.warn('database.restarted', { attempt })
    },
  })
  secrets.add(embedded.password)
  return servedHere(config, embedded.url, () => embedded.close())
}

/** The same for whoever only looks: an embedded database is joined where it runs, and neither made, started nor stopped. */
export async function findDatabase(
  config: Config,
  { log, secrets }: { log: ServiceLog; secrets: SecretSet },
): Promise<Database | 'none' | 'stopped'> {
  if (config.databaseUrl) return openDatabase(config, { log, secrets })
  const found = await findEmbeddedPostgres(config.dataDir)
  if (found.state !== 'running') return found.state
  secrets.add(found.password)
  return servedHere(config, found.url, async () => {})
}

function servedHere(config: Config, url: string, close: Database['close']): Database {
  return { url, sessionUrl: url, limits: { ...config.database, serverLimits: true }, close }
}

/** Brings the database to this release, over the direct connection: a pooler may hand it to others in between. */
export async function migrateDatabase(
  config: Config,
  database: Database,
  onApply: (name: string) => void = () => {},
): Promise<Migrated> {
  const { connectTimeoutMs, migrationLockTimeoutMs } = config.database
  const done = await migrate(database.sessionUrl, {
    onApply,
    setting: sessionSetting(config),
    connectTimeoutMs,
    lockTimeoutMs: migrationLockTimeoutMs,
  })
  // Loaded here only: a command that may not migrate need not wait for the queue to be loaded.
  const { migrateQueue } = await import('./platform/queue/queue.ts')
  await migrateQueue(database.sessionUrl, connectTimeoutMs)
  return done
}

/**
 * For a process that is no service: an operator's newer or older command line must neither alter nor misread what a
 * service runs on. The sandbox boots from nothing, so there an empty database is made by whoever comes first.
 */
export async function requireSchema(config: Config, database: Database): Promise<void> {
  const found = await schemaOf(config, database)
  const complaint = schemaComplaint(found)
  if (complaint === undefined) return
  if (found.present === 0 && config.mode === 'sandbox') await migrateDatabase(config, database)
  else throw new SchemaRefused(complaint)
}

/** Why a command of this release would refuse the schema, if it would. */
export async function findSchemaComplaint(config: Config, database: Database): Promise<string | undefined> {
  return schemaComplaint(await schemaOf(config, database))
}

function schemaOf(config: Config, { sessionUrl }: Database): Promise<FoundSchema> {
  const { connectTimeoutMs } = config.database
  return findSchema(sessionUrl, { setting: sessionSetting(config), connectTimeoutMs })
}

function schemaComplaint({ present, missing, queue }: FoundSchema): string | undefined {
  if (missing.length === 0 && queue === queueSchema) return undefined
  if (present === 0)
    return 'The database is empty; run `rankledger migrate`, or start the service, and then this command again.'
  if (queue > queueSchema)
    return `The queue's tables were made by a newer release than this one (${queue}, not ${queueSchema}); use the command line of that release.`
  const lacks =
    missing.length > 0
      ? `migrations of this release (${missing.join(', ')})`
      : "this release's tables of the queue"
  return `The database was made by an older release and lacks ${lacks}; update the service or run \`rankledger migrate\`, or use the command line of the release that runs.`
}

function sessionSetting(config: Config): string {
  return config.databaseUrlSession ? 'DATABASE_URL_SESSION' : 'DATABASE_URL'
}

/** Looks once at what stands behind both URLs. A process that lives long must have its sessions to itself. */
async function limitsFor(config: Config, { keepAlive }: { keepAlive: boolean }): Promise<PoolLimits> {
  const { databaseUrl: url, databaseUrlSession: sessionUrl } = config
  const found = await lookBehind(config, 'DATABASE_URL', url!)
  if (found.pooling === 'statement')
    throw new Error(
      'DATABASE_URL goes through a pooler that refuses transactions; set pool_mode = transaction in PgBouncer.',
    )
  if (keepAlive) {
    const session = sessionUrl ? await lookBehind(config, 'DATABASE_URL_SESSION', sessionUrl) : found
    if (sharesSessions(session)) {
      const setting = sessionUrl ? 'DATABASE_URL_SESSION' : 'DATABASE_URL'
      throw new Error(
        `${setting} goes through a pooler that shares sessions, and workers need one of their own; set DATABASE_URL_SESSION to the PostgreSQL behind it.`,
      )
    }
  }
  return { ...config.database, serverLimits: found.takesSettings }
}

async function lookBehind(config: Config, setting: string, url: string): Promise<Connection> {
  return lookAtConnection(url, config.database).catch((error) => {
    throw explainConnecting(error, { setting, url, timeoutMs: config.database.connectTimeoutMs })
  })
}
