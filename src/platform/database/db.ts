import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, PostgresDialect, type Transaction, type TransactionBuilder } from 'kysely'
import pg from 'pg'
import { isStaleConnection, troubleOf } from './database-errors.ts'
import { preparing } from './prepared-statements.ts'

/** What every area sees of the database: typed tables, and transactions that the compiler tells from a pool. */
export type Db<Tables> = Kysely<Tables>
export type Tx<Tables> = Transaction<Tables>

// Money and counters are exact: int8 arrives as bigint. A calendar day is text, never a Date at midnight.
const types = new pg.TypeOverrides()
types.setTypeParser(pg.types.builtins.INT8, BigInt)
types.setTypeParser(pg.types.builtins.DATE, (day: string) => day)

export type PoolLimits = {
  /** How long a connection may take to open. */
  readonly connectTimeoutMs: number
  /** How long a statement may take. The server ends it then; a server that vanished is given up on a little later. */
  readonly queryTimeoutMs: number
  /** Off behind a pooler that does not keep prepared statements. */
  readonly preparedStatements: boolean
  /** Off behind a pooler that refuses settings at sign-in; the role's own settings hold then. */
  readonly serverLimits: boolean
}

const defaultLimits: PoolLimits = {
  connectTimeoutMs: 5_000,
  queryTimeoutMs: 30_000,
  preparedStatements: true,
  serverLimits: true,
}

export type PoolOptions = Partial<PoolLimits> & {
  url: string
  max: number
  /** Shown in pg_stat_activity, so that an operator can tell who holds a lock. */
  name: string
  /** How much longer than the server's own limit an answer is waited for: more where this thread may get no core for minutes. */
  patienceMs?: number
  /** Leave types as the driver has them, for a library that brings its own queries. */
  plainTypes?: true
  onError: (error: Error) => void
}

/** What a connection of a pool asks for at sign-in. Whoever looks at what stands behind a URL asks for the same. */
export function signInOf(
  url: string,
  name: string,
  limits: Omit<PoolLimits, 'preparedStatements'>,
): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: name,
    // An idle connection whose peer vanished is noticed by the system within about half a minute.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: limits.connectTimeoutMs,
    ...(limits.serverLimits && {
      statement_timeout: limits.queryTimeoutMs,
      idle_in_transaction_session_timeout: 60_000,
    }),
  }
}

/** A pool whose lost connections are reported and replaced instead of ending the process. */
export function openPool(options: PoolOptions): pg.Pool {
  const limits = { ...defaultLimits, ...options }
  const pool = new pg.Pool({
    Client: limits.preparedStatements ? CarefulClient : UnpreparedClient,
    ...signInOf(options.url, options.name, limits),
    max: options.max,
    ...(options.plainTypes ? {} : { types }),
    idleTimeoutMillis: 30_000,
    // A busy one is not: the system would send again for a quarter of an hour.
    query_timeout: limits.queryTimeoutMs + (options.patienceMs ?? Math.min(2_000, limits.queryTimeoutMs / 2)),
  })
  pool.on('error', options.onError)
  pool.on('connect', (client) => client.on('error', options.onError))
  return pool
}

/**
 * A typed view of a pool. Several areas share one pool, each with its own tables. `byKey`: its transactions find every row by
 * an index. Statements are planned once per connection, and what was planned while the tables were empty reads them whole,
 * row by row, until the server counts them again.
 */
export function openDb<Tables>(pool: pg.Pool, { byKey = false } = {}): Db<Tables> {
  const begin = byKey ? 'begin; set local enable_seqscan = off' : 'begin'
  return new PatientDb<Tables>({ dialect: new PostgresDialect({ pool: preparing(pool, begin) }) })
}

/** A transaction that lost to another one (a deadlock, or a server that serialises) did nothing and is run again. */
class PatientDb<Tables> extends Kysely<Tables> {
  override transaction(): TransactionBuilder<Tables> {
    const builder = super.transaction()
    const once = builder.execute.bind(builder)
    builder.execute = async (work) => {
      for (let lost = 0; ; lost++) {
        try {
          return await once(work)
        } catch (error) {
          if (lost === 2 || troubleOf(error) !== 'conflict') throw error
          await sleep(Math.random() * 20 * (lost + 1))
        }
      }
    }
    return builder
  }
}

type Settled = (error: Error | null, result?: unknown) => void

/**
 * A connection that knows when it is of no use any more: after silence, when the server has ended it, or has forgotten its
 * prepared statements. It is closed then, so that nobody waits on it a second time and the pool replaces it. An error that leaves
 * open whether something was written says so.
 */
class CarefulClient extends pg.Client {
  private inDoubt = false
  private readonly ownTimeoutMs = patienceOf(this)

  // biome-ignore lint/suspicious/noExplicitAny: the driver takes a statement in six forms, and all of them pass through
  override query(...args: any[]): any {
    const [statement] = args
    if (typeof statement?.submit === 'function') return this.sendStream(args)
    const text: string = typeof statement === 'string' ? statement : (statement?.text ?? '')
    this.followTimeout(text)
    // biome-ignore lint/suspicious/noExplicitAny: newer than the driver's types
    const inTransaction = (this as any).getTransactionStatus?.() === 'T'
    const callback = args.findIndex((arg) => typeof arg === 'function')
    if (callback === -1) {
      return this.send(args).catch((error: Error) => {
        this.learnFrom(error, text, inTransaction)
        throw error
      })
    }
    const settle: Settled = args[callback]
    args[callback] = (error: Error | null, result: unknown) => {
      if (error) this.learnFrom(error, text, inTransaction)
      settle(error, result)
    }
    return this.send(args)
  }

  private learnFrom(error: Error, text: string, inTransaction: boolean): void {
    if (troubleOf(error) === 'unreachable' && mayWrite(text, inTransaction)) this.inDoubt = true
    // Whoever tries to roll back on the lost connection gets an error of its own, about the same doubt.
    if (this.inDoubt) doubtful.add(error)
    // Ended in the middle of a statement it is cut at once, and the pool does not take it back.
    if (isStaleConnection(error)) this.end().catch(() => {})
  }

  // biome-ignore lint/suspicious/noExplicitAny: as above
  protected send(args: any[]): any {
    // biome-ignore lint/suspicious/noExplicitAny: as above
    return (super.query as any)(...args)
  }

  /** A stream of rows takes as long as its reader or writer does; whoever drives it watches it. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  private sendStream(args: any[]): any {
    const waitMs = patienceOf(this)
    setPatience(this, 0)
    try {
      return this.send(args)
    } finally {
      setPatience(this, waitMs)
    }
  }

  /** A transaction that gave itself more time on the server is waited for as long; the next one is not. */
  private followTimeout(text: string): void {
    // This is asked of every statement, and those that it is about are short.
    if (text.length > longestSetting) return
    const given = /^\s*set local statement_timeout *= *(\d+)/i.exec(text)?.[1]
    if (given !== undefined) setPatience(this, Number(given) === 0 ? 0 : Number(given) + 2_000)
    else if (/^\s*(begin|start transaction|commit|rollback)\b/i.test(text))
      setPatience(this, this.ownTimeoutMs)
  }
}

const longestSetting = 100

/** Inside a transaction nothing is written before the commit. */
function mayWrite(text: string, inTransaction: boolean): boolean {
  return inTransaction
    ? /^\s*commit/i.test(text)
    : !/^\s*(select|begin|start|show|set|rollback)\b/i.test(text)
}

/** Sends every statement whole, whoever named it. */
class UnpreparedClient extends CarefulClient {
  // biome-ignore lint/suspicious/noExplicitAny: as above
  protected override send(args: any[]): any {
    const [statement, ...rest] = args
    if (
      statement &&
      typeof statement === 'object' &&
      typeof statement.submit !== 'function' &&
      statement.name
    ) {
      const { name: _, ...unnamed } = statement
      return super.send([unnamed, ...rest])
    }
    return super.send(args)
  }
}

/** How long the driver waits for an answer, in milliseconds; 0 is for ever. Each connection has its own copy. */
function patienceOf(client: pg.Client): number {
  return Number((client as unknown as DriverInside).connectionParameters.query_timeout)
}

function setPatience(client: pg.Client, waitMs: number): void {
  ;(client as unknown as DriverInside).connectionParameters.query_timeout = waitMs
}

type DriverInside = { connectionParameters: { query_timeout: number | false } }

const doubtful = new WeakSet<Error>()

/** Whether the statement that failed may have been done all the same, because the answer to a write was lost. */
export function mayHaveWritten(error: unknown): boolean {
  return error instanceof Error && doubtful.has(error)
}
