import { randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { WorkerEvents, WorkerPool } from 'graphile-worker'
import { sql } from 'kysely'
import pg from 'pg'
import type { Fence } from './queue.ts'

export type WorkerLease = {
  readonly fence: Fence
  /** Throws if this worker was taken for dead. */
  confirm(): Promise<void>
  /** Resolves when the session is gone or somebody took this worker for dead. */
  readonly lost: Promise<void>
  /** Tells the queue's pool apart: its id is the name its jobs are locked under. */
  readonly events: WorkerEvents
  end(): Promise<void>
}

/** A settlement came from a worker whose jobs have been given to others. */
export class StaleWorker extends Error {
  override name = 'StaleWorker'
}

const beatEveryMs = 2_000

/**
 * A worker is alive while its session holds an advisory lock and its row gets a heartbeat. The lock tells at once when
 * a process dies; the heartbeat tells when it hangs or its network does.
 */
export async function openLease(sessionUrl: string): Promise<WorkerLease> {
  const session = new pg.Client({
    connectionString: sessionUrl,
    application_name: 'rankledger worker lease',
    keepAlive: true,
    connectionTimeoutMillis: 5_000,
    // A server that vanished answers nothing; the beat must notice before the others take us for dead.
    query_timeout: 6_000,
  })
  let lose: () => void = () => {}
  const lost = new Promise<void>((resolve) => {
    lose = resolve
  })
  session.on('error', () => lose())
  session.on('end', () => lose())
  await session.connect()
  const lockKey = await takeLock(session)
  const row: { id: string | undefined; lease: bigint } = { id: undefined, lease: 0n }

  async function register(pool: WorkerPool): Promise<void> {
    row.id = pool.id
    const made = await session.query(
      'insert into platform.worker (id, lock_key) values ($1, $2) returning lease::text',
      [pool.id, lockKey],
    )
    row.lease = BigInt(made.rows[0].lease)
  }

  async function beat(): Promise<void> {
    if (row.lease === 0n) return
    const alive = await session.query(
      'update platform.worker set beat_at = clock_timestamp() where id = $1 and lease = $2',
      [row.id, row.lease],
    )
    if (alive.rowCount === 0) lose()
  }

  let registered: Promise<void> = Promise.resolve()
  const events = new EventEmitter() as WorkerEvents
  events.on('pool:create', ({ workerPool }) => {
    registered = register(workerPool)
    registered.catch(lose)
  })
  const heart = setInterval(() => beat().catch(lose), beatEveryMs)

  return {
    lost,
    events,
    async fence(tx) {
      await registered
      // Waits for a reaper at work on this row, and makes the next one wait for us.
      const mine =
        await sql`select 1 from platform.worker where id = ${row.id} and lease = ${row.lease} for key share`.execute(
          tx,
        )
      if (mine.rows.length === 0)
        throw new StaleWorker('Another worker has taken over; this settlement is void.')
    },
    async confirm() {
      await registered
      const mine = await session.query('select 1 from platform.worker where id = $1 and lease = $2', [
        row.id,
        row.lease,
      ])
      if (mine.rowCount === 0) throw new StaleWorker('Another worker has taken over; this job is theirs.')
    },
    async end() {
      clearInterval(heart)
      await registered.catch(() => {})
      await session
        .query('delete from platform.worker where id = $1 and lease = $2', [row.id, row.lease])
        .catch(() => {})
      await session.end().catch(() => {})
    },
  }
}

/** Whoever does not get the lock asks again within a second, so a session that goes without is not left open. */
async function takeLock(session: pg.Client): Promise<bigint> {
  const key = randomBytes(8).readBigInt64BE()
  try {
    // A machine that vanishes without a word is noticed by the server within about ten seconds.
    await session.query(
      'set tcp_keepalives_idle = 4; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3; set statement_timeout = 5000',
    )
    await session.query('select pg_advisory_lock($1)', [key])
    return key
  } catch (error) {
    // Not waited for: a server that has fallen silent says nothing to this either.
    session.end().catch(() => {})
    throw error
  }
}
