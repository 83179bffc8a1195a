import { setTimeout as sleep } from 'node:timers/promises'
import { type Runner, run, type TaskList } from 'graphile-worker'
import type pg from 'pg'
import { openPool } from '../database/db.ts'
import { storedReason } from '../log/describe-error.ts'
import { type Fence, PoisonedJob, quiet } from './queue.ts'
import { giveUpJob } from './queue-schema.ts'
import { openLease, type WorkerLease } from './worker-lease.ts'

export type JobEvents = {
  onDone(name: string, ms: number): void
  onFailed(name: string, jobId: string, attempt: number, error: unknown): void
  /** It ran out of attempts and waits for an operator. */
  onDead(name: string, jobId: string, error: unknown): void
  /** This worker was taken for dead, or lost its session; it starts over with a new lease. */
  onLeaseLost(): void
}

export type WorkerOptions = {
  url: string
  /** A direct connection, not through a transaction pooler: the session lock lives on it. */
  sessionUrl: string
  jobs: Readonly<Record<string, (payload: unknown, fence: Fence) => Promise<unknown>>>
  concurrency: number
  events: JobEvents
}

export type QueueWorker = { stop(): Promise<void> }

/** Works jobs until stopped. A lost lease is answered with a fresh one, never with silence. */
export function startQueueWorker(options: WorkerOptions): QueueWorker {
  const stopping = new AbortController()
  // The queue's library cannot read bigint ids, so it has connections of its own.
  const pool = releasingOnce(
    openPool({ url: options.url, max: 4, name: 'rankledger queue', plainTypes: true, onError() {} }),
  )
  const running = (async () => {
    while (!stopping.signal.aborted) {
      try {
        await workOneLease(options, pool, stopping.signal)
      } catch {
        // The database is away; the loop is the retry, and readiness already tells.
      }
      if (!stopping.signal.aborted) {
        options.events.onLeaseLost()
        await sleep(1_000, undefined, { signal: stopping.signal }).catch(() => {})
      }
    }
  })()
  return {
    async stop() {
      stopping.abort()
      await running
      await pool.end()
    },
  }
}

/**
 * The library gives the connection it listens on back twice when that breaks while it stops. The pool throws at the
 * second time, where nobody catches it, and the process would end; here the second time counts for nothing.
 */
export function releasingOnce(pool: pg.Pool): pg.Pool {
  const connect = pool.connect.bind(pool)
  const connectOnce = (callback?: Connected) => {
    if (callback === undefined) return connect()
    return connect((error, client, release) => {
      if (!client) return callback(error, client, release)
      let released = false
      callback(error, client, (reason) => {
        if (released) return
        released = true
        release(reason)
      })
    })
  }
  return Object.assign(pool, { connect: connectOnce as typeof pool.connect })
}

type Connected = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  release: (reason?: Error | boolean) => void,
) => void

/** From taking the session lock to losing it, or to being asked to stop. */
async function workOneLease(options: WorkerOptions, pool: pg.Pool, stopping: AbortSignal): Promise<void> {
  const lease = await openLease(options.sessionUrl)
  let runner: Runner | undefined
  try {
    runner = await run({
      pgPool: pool,
      taskList: tasksOf(options, lease),
      concurrency: options.concurrency,
      noHandleSignals: true,
      // New jobs are announced; polling only finds what was announced while nobody listened.
      pollInterval: 2_000,
      logger: quiet,
      preset: {
        worker: {
          gracefulShutdownAbortTimeout: 15_000,
          // How a job ended is written down by a batcher, here of what ends in the same moment. Without one the library waits for
          // nobody: a connection that breaks just then is a rejection that nobody handles, which ends the process, and the job
          // would stay locked. The batcher ends the runner, and with it the lease.
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
      events: lease.events,
    })
    runner.promise.catch(() => {})
    await Promise.race([lease.lost, runner.promise, aborted(stopping)])
  } finally {
    await Promise.race([runner?.stop().catch(() => {}), sleep(16_000, undefined, { ref: false })])
    await lease.end()
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

function tasksOf(options: WorkerOptions, lease: WorkerLease): TaskList {
  const { events } = options
  return Object.fromEntries(
    Object.entries(options.jobs).map(([name, work]) => [
      name,
      async (payload, { job, query }) => {
        const startedAt = performance.now()
        try {
          await work(payload, lease.fence)
          // A worker that slept through its lease must not delete a job that someone else has begun since.
          await lease.confirm()
          events.onDone(name, performance.now() - startedAt)
        } catch (error) {
          if (error instanceof PoisonedJob) {
            await giveUpJob(query, job.id)
          }
          if (error instanceof PoisonedJob || job.attempts >= job.max_attempts)
            events.onDead(name, job.id, error)
          else events.onFailed(name, job.id, job.attempts, error)
          throw new Error(storedReason(error))
        }
      },
    ]),
  )
}
