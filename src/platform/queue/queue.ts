import { Logger, runMigrations } from 'graphile-worker'
import { sql } from 'kysely'
import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { type Db, openPool, type Tx } from '../database/db.ts'

/** Throws unless this worker is still alive in the eyes of the others. Called in the transaction that settles work. */
// biome-ignore lint/suspicious/noExplicitAny: any area's transaction may be fenced
export type Fence = (tx: Tx<any>) => Promise<void>

export type Job<App> = { run(app: App, payload: unknown): Promise<unknown> }

/** One line of an area's table of jobs: what the payload holds (ids, never copies) and the use-case that takes it. */
export function job<App, S extends TSchema>(
  payload: S,
  useCase: (app: App, payload: Static<S>) => Promise<unknown>,
): Job<App> {
  const check = Compile(payload)
  return {
    run(app, given) {
      if (!check.Check(given)) throw new PoisonedJob('The payload does not fit the job.')
      return useCase(app, given as Static<S>)
    },
  }
}

/** A job that can never succeed, however often it is tried. */
export class PoisonedJob extends Error {
  override name = 'PoisonedJob'
}

export type EnqueueOptions = {
  /** A job with this key that still waits is not doubled. */
  key?: string
  maxAttempts?: number
}

// Business work is found again from its own rows, so a job need not try for ever; about 50 minutes of growing waits.
const defaultAttempts = 8

/** Puts a job into the queue as part of the caller's transaction: it exists exactly if the intent does. */
export async function enqueue<T>(
  tx: Tx<T>,
  name: string,
  payload: Record<string, string | number>,
  { key, maxAttempts = defaultAttempts }: EnqueueOptions = {},
): Promise<void> {
  await sql`
    select graphile_worker.add_job(${name}, ${JSON.stringify(payload)}::json, job_key => ${key ?? null}, max_attempts => ${maxAttempts})
  `.execute(tx)
}

/** Creates or updates the queue's own tables. Where they are this release's already, it only reads. */
export async function migrateQueue(url: string, connectTimeoutMs = 5_000): Promise<void> {
  const pgPool = openPool({
    url,
    max: 2,
    name: 'rankledger migrate',
    plainTypes: true,
    connectTimeoutMs,
    serverLimits: false,
    onError() {},
  })
  try {
    await runMigrations({ pgPool, logger: quiet })
  } catch (error) {
    if ((error as { code?: string }).code !== '42501') throw error
    throw new Error(
      "This role may not make the queue's tables; run `rankledger migrate` as the role that owns the schema.",
    )
  } finally {
    await pgPool.end()
  }
}

/** The queue's own chatter may quote payloads, so it goes nowhere; what matters reaches the log as our own events. */
export const quiet = new Logger(() => () => {})

export type DeadJob = { id: string; name: string; attempts: number; last_error: string; since: Date }

/** Jobs that ran out of attempts: nothing waits for them, and an operator decides. */
export async function listDeadJobs<T>(db: Db<T>, limit: number): Promise<DeadJob[]> {
  const found = await sql<DeadJob>`
    select id::text, task_identifier as name, attempts, coalesce(last_error, '') as last_error, updated_at as since
    from graphile_worker.jobs
    where attempts >= max_attempts and locked_at is null
    order by id
    limit ${limit}`.execute(db)
  return found.rows
}

export const jobStatuses = ['waiting', 'running', 'dead'] as const
export type JobStatus = (typeof jobStatuses)[number]

export type ListedJob = {
  id: string
  name: string
  status: JobStatus
  attempts: number
  max_attempts: number
  last_error: string | null
  run_at: Date
  updated_at: Date
}

/** What is in the queue, oldest first, behind the job `after`. */
export async function listJobs<T>(
  db: Db<T>,
  { id, status, after = '0', limit }: { id?: string; status?: JobStatus; after?: string; limit: number },
): Promise<ListedJob[]> {
  const found = await sql<ListedJob>`
    select * from (
      select id::text, task_identifier as name, attempts, max_attempts, last_error, run_at, updated_at, id as place,
        case when locked_at is not null then 'running'
             when attempts >= max_attempts then 'dead'
             else 'waiting' end as status
      from graphile_worker.jobs
    ) as job
    where place > ${after}::bigint
      and (${id ?? null}::text is null or id = ${id ?? null})
      and (${status ?? null}::text is null or status = ${status ?? null})
    order by place
    limit ${limit}`.execute(db)
  return found.rows
}

export type QueueVitals = {
  readonly waiting: number
  readonly dead: number
  /** How long the oldest job that could run has waited. */
  readonly oldestSeconds: number
  readonly workers: number
}

export async function queueVitals<T>(db: Db<T>): Promise<QueueVitals> {
  const found = await sql<QueueVitals>`
    select count(*) filter (where attempts < max_attempts)::int as waiting,
           count(*) filter (where attempts >= max_attempts)::int as dead,
           coalesce(extract(epoch from now() - min(run_at) filter (where attempts < max_attempts and run_at <= now())), 0)::float8
             as "oldestSeconds",
           (select count(*)::int from platform.worker where beat_at > now() - interval '10 seconds') as workers
    from graphile_worker.jobs
    where locked_at is null`.execute(db)
  return found.rows[0]!
}
