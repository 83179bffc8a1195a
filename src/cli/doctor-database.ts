import pg from 'pg'
import type { Config } from '../config.ts'
import { type Database, findDatabase, findSchemaComplaint } from '../database.ts'
import { explainConnecting, troubleOf } from '../platform/database/database-errors.ts'
import { isOnThisMachine, readDatabaseUrl, serverOf } from '../platform/database/database-url.ts'
import { lookAtRole } from '../platform/database/grants.ts'
import { pendingMigrations } from '../platform/database/migrate.ts'
import { type Connection, lookAtConnection, sharesSessions } from '../platform/database/pooler.ts'
import { openReplica, type ReplicaState } from '../platform/database/replica.ts'
import { openLog } from '../service-log.ts'
import { readServerState } from './server-rows.ts'

export type Finding = { check: string; state: 'ok' | 'note' | 'fault'; message: string }
export type Tell = (check: string, state: Finding['state'], message: string) => void

/** Gives back the database if the service could start on it. */
export async function lookAtDatabase(config: Config, tell: Tell): Promise<Database | undefined> {
  const timeoutMs = config.database.connectTimeoutMs
  if (config.databaseUrl) {
    const pooled = await reach('DATABASE_URL', config.databaseUrl, config, tell)
    const { databaseUrlSession: session } = config
    const direct = session ? await reach('DATABASE_URL_SESSION', session, config, tell) : pooled
    if (!pooled || !direct) return undefined
    if (!(await lookAtPooler(config, pooled, direct, tell))) return undefined
    if (config.databaseUrlRead) await lookAtReplica(config, config.databaseUrlRead, tell)
  }
  const database = await findDatabase(config, openLog(config))
  if (typeof database === 'string') {
    tell('database', 'note', notServed[database])
    return undefined
  }
  const setting = config.databaseUrlSession ? 'DATABASE_URL_SESSION' : 'DATABASE_URL'
  const client = new pg.Client({
    connectionString: database.sessionUrl,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: 10_000,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await lookInside(client, setting, { config, database }, tell)) ? database : undefined
  } catch (error) {
    tell('database', 'fault', sentenceOf(error))
    return undefined
  } finally {
    await client.end().catch(() => {})
  }
}

const notServed = {
  none: 'none is here yet; `rankledger serve` makes it',
  stopped: 'is not running; look again while `rankledger serve` runs on it',
}

async function reach(
  setting: string,
  url: string,
  { database }: Config,
  tell: Tell,
): Promise<Connection | undefined> {
  try {
    const found = await lookAtConnection(url, database)
    const how = {
      none: 'direct',
      session: 'pooled, one session each',
      transaction: 'pooled, shared sessions',
      statement: 'pooled, no transactions',
    }
    tell('database', 'ok', `${setting} reaches ${serverOf(url)} (${how[found.pooling]})`)
    return found
  } catch (error) {
    tell(
      'database',
      'fault',
      sentenceOf(explainConnecting(error, { setting, url, timeoutMs: database.connectTimeoutMs })),
    )
    return undefined
  }
}

/** The service works without it; whoever set it wants it read. */
async function lookAtReplica(config: Config, url: string, tell: Tell): Promise<void> {
  const { connectTimeoutMs, readLagMs: mostLagMs } = config.database
  if (!(await reach('DATABASE_URL_READ', url, config, tell))) return
  const open = (connectionString: string) =>
    new pg.Pool({ connectionString, max: 1, connectionTimeoutMillis: connectTimeoutMs }).on('error', () => {})
  const primary = open(config.databaseUrl!)
  const state = await new Promise<ReplicaState>((resolve) => {
    const found = openReplica({ primary, pool: open(url), mostLagMs, onState: (state) => end(state) })
    const late = setTimeout(() => end('unknown'), connectTimeoutMs)
    const end = (state: ReplicaState) => {
      clearTimeout(late)
      void found.close().then(() => resolve(state))
    }
  })
  await primary.end()
  if (state === 'ready') tell('replica', 'ok', 'replays what DATABASE_URL writes')
  else if (state === 'foreign')
    tell('replica', 'fault', 'DATABASE_URL_READ is no streaming replica of DATABASE_URL; the primary is read')
  else tell('replica', 'note', `is ${state}; the primary is read until it is back`)
}

async function lookAtPooler(
  config: Config,
  pooled: Connection,
  direct: Connection,
  tell: Tell,
): Promise<boolean> {
  if (sharesSessions(direct)) {
    const setting = config.databaseUrlSession ? 'DATABASE_URL_SESSION' : 'DATABASE_URL'
    tell(
      'pooler',
      'fault',
      `${setting} shares its sessions; set DATABASE_URL_SESSION to the PostgreSQL behind the pooler`,
    )
    return false
  }
  if (pooled.pooling === 'statement') {
    tell('pooler', 'fault', 'the pooler refuses transactions; set pool_mode = transaction in PgBouncer')
    return false
  }
  if (!sharesSessions(pooled)) {
    tell('pooler', 'ok', 'sessions are not shared')
    return true
  }
  if (config.database.preparedStatements && !(await keepsPreparedStatements(config))) {
    tell(
      'pooler',
      'fault',
      'the pooler loses prepared statements; set PREPARED_STATEMENTS=off, or max_prepared_statements in PgBouncer 1.21 or later',
    )
    return false
  }
  if (!pooled.takesSettings)
    tell(
      'pooler',
      'note',
      'the pooler refuses statement_timeout at sign-in; give the role one: alter role … set statement_timeout',
    )
  else
    tell(
      'pooler',
      'ok',
      `shared sessions, prepared statements ${config.database.preparedStatements ? 'kept' : 'off'}`,
    )
  return true
}

/** Two clients take turns on the pooler's sessions: a statement that one prepared is sooner or later asked of the other's. */
async function keepsPreparedStatements(config: Config): Promise<boolean> {
  const clients = [1, 2].map(
    () => new pg.Client({ connectionString: config.databaseUrl!, query_timeout: 5_000 }),
  )
  for (const client of clients) client.on('error', () => {})
  const ask = (client: pg.Client, n: number) =>
    client.query({ name: `doctor_${n}`, text: `select $1::int + ${n} as n`, values: [n] })
  try {
    for (const client of clients) await client.connect()
    const [one, two] = clients as [pg.Client, pg.Client]
    await ask(one, 1)
    // While the first holds its session, the second is given another, where the statement is not known.
    await two.query('begin')
    await ask(two, 2)
    await ask(one, 1)
    await two.query('commit')
    for (let times = 0; times < 5; times++)
      await Promise.all([ask(one, 1), ask(two, 2), ask(one, 2), ask(two, 1)])
    return true
  } catch (error) {
    if (troubleOf(error) === 'prepared_statements_lost') return false
    throw error
  } finally {
    for (const client of clients) await client.end().catch(() => {})
  }
}

async function lookInside(
  client: pg.Client,
  setting: string,
  { config, database }: { config: Config; database: Database },
  tell: Tell,
): Promise<boolean> {
  const sentAt = Date.now()
  const found = await readServerState(client)
  const skewMs = Number(found.now) - (sentAt + Date.now()) / 2
  const megabytes = Math.round(Number(found.bytes) / 1e6)
  tell(
    'database',
    'ok',
    `PostgreSQL ${found.version}, ${megabytes} MB, ${found.used_connections} of ${found.most_connections} connections in use`,
  )
  const free = found.most_connections - found.used_connections
  if (free < config.database.poolSize)
    tell(
      'connections',
      'note',
      `${free} are free and DATABASE_POOL_SIZE is ${config.database.poolSize} for each process; raise max_connections or pool`,
    )
  tell(
    'encoding',
    found.encoding === 'UTF8' ? 'ok' : 'fault',
    found.encoding === 'UTF8'
      ? 'UTF8'
      : `${found.encoding} cannot hold every text; create the database with encoding UTF8`,
  )
  if (found.read_only === 'on')
    tell(
      'database',
      'fault',
      'the server only reads: a standby, or default_transaction_read_only; name the primary',
    )
  if (Math.abs(skewMs) > 30_000)
    tell(
      'clock',
      'fault',
      `this machine and the database differ by ${Math.round(skewMs / 1000)} s; set both clocks by NTP`,
    )
  else if (Math.abs(skewMs) > 2_000)
    tell(
      'clock',
      'note',
      `this machine and the database differ by ${(skewMs / 1000).toFixed(1)} s; set both clocks by NTP`,
    )
  else tell('clock', 'ok', `the database's differs by ${Math.round(Math.abs(skewMs))} ms`)
  const isNear = config.databaseUrl === undefined || isOnThisMachine(readDatabaseUrl(config.databaseUrl))
  if (!found.encrypted && !isNear)
    tell(
      'tls',
      'note',
      'the connection to the database is not encrypted; add ?sslmode=verify-full to the URL',
    )

  const pending = await pendingMigrations(client, setting)
  if (pending.length > 0) {
    tell(
      'schema',
      'fault',
      `${pending.length} migrations are missing; run \`rankledger migrate\` as the role that owns the schema`,
    )
    return false
  }
  const complaint = await findSchemaComplaint(config, database)
  if (complaint !== undefined) {
    tell('schema', 'fault', complaint)
    return false
  }
  tell('schema', 'ok', 'is this release’s')
  return (await lookAtRights(client, config, tell)) && found.encoding === 'UTF8' && found.read_only === 'off'
}

async function lookAtRights(client: pg.Client, config: Config, tell: Tell): Promise<boolean> {
  const { role, superuser, mayChangeSchema, missing } = await lookAtRole(client)
  if (missing.length > 0) {
    const some = missing.slice(0, 3).join(', ')
    tell(
      'rights',
      'fault',
      `role ${role} lacks ${missing.length} rights (${some}${missing.length > 3 ? ', …' : ''}); run \`rankledger db grants --role ${role} --apply\` as the owner`,
    )
    return false
  }
  if (superuser)
    tell('rights', 'note', `role ${role} is a superuser; serve with an ordinary one (docs/production.md)`)
  else if (mayChangeSchema && config.databaseUrl)
    tell(
      'rights',
      'note',
      `role ${role} may also change the schema; serve with one that may not (docs/production.md)`,
    )
  else
    tell(
      'rights',
      'ok',
      `role ${role} may do what it needs${mayChangeSchema ? '' : ', and not change the schema'}`,
    )
  return true
}

export function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
