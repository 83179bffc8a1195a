import { Kysely, PostgresDialect, type Transaction } from 'kysely'
import pg from 'pg'
import { preparing } from './prepared-statements.ts'

/** What every area sees of the database: typed tables, and transactions that the compiler tells from a pool. */
export type Db<Tables> = Kysely<Tables>
export type Tx<Tables> = Transaction<Tables>

// Money and counters are exact: int8 arrives as bigint. A calendar day is text, never a Date at midnight.
const types = new pg.TypeOverrides()
types.setTypeParser(pg.types.builtins.INT8, BigInt)
types.setTypeParser(pg.types.builtins.DATE, (day: string) => day)

export type PoolOptions = {
  url: string
  max: number
  /** Shown in pg_stat_activity, so that an operator can tell who holds a lock. */
  name: string
  statementTimeoutMs?: number
  /** Leave types as the driver has them, for a library that brings its own queries. */
  plainTypes?: true
  onError: (error: Error) => void
}

/** A pool whose lost connections are reported and replaced instead of ending the process. */
export function openPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.name,
    max: options.max,
    ...(options.plainTypes ? {} : { types }),
    keepAlive: true,
    connectionTimeoutMillis: 5_000,
    idleTimeoutMillis: 30_000,
    statement_timeout: options.statementTimeoutMs ?? 30_000,
    idle_in_transaction_session_timeout: 60_000,
  })
  pool.on('error', options.onError)
  pool.on('connect', (client) => client.on('error', options.onError))
  return pool
}

/** A typed view of a pool. Several areas share one pool, each with its own tables. */
export function openDb<Tables>(pool: pg.Pool): Db<Tables> {
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: preparing(pool) }) })
}

const connectionTrouble = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  '57P01', // admin shutdown
  '57P02', // crash shutdown
  '57P03', // starting up
  '53300', // too many connections
  '08000',
  '08003',
  '08006',
])

/** Whether an error says "the database cannot be reached" rather than "the statement was wrong". */
export function isDatabaseUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = (error as { code?: unknown }).code
  if (typeof code === 'string' && connectionTrouble.has(code)) return true
  return /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error)/.test(
    error.message,
  )
}
