import { sql } from 'kysely'
import type pg from 'pg'
import type { Db } from '../database/db.ts'

/**
 * graphile-worker calls some of its tables private and may change them with any release. All that reaches into them
 * stands here, written for this migration of theirs, and a test says when an update brings another.
 */
export const queueSchema = 19

/** The last of graphile-worker's migrations that a database holds; 0 without any. */
export async function findQueueSchema(client: pg.Client): Promise<number> {
  const { rows } = await client.query("select to_regclass('graphile_worker.migrations') is not null as made")
  if (!rows[0].made) return 0
  const found = await client.query('select coalesce(max(id), 0)::int as id from graphile_worker.migrations')
  return found.rows[0].id
}

/** Gives a dead job its attempts back. */
export async function reviveDeadJob<T>(db: Db<T>, id: string): Promise<boolean> {
  const revived = await sql`
    update graphile_worker._private_jobs set attempts = 0, run_at = now(), last_error = null
    where id = ${id}::bigint and attempts >= max_attempts and locked_at is null
    returning 1`.execute(db)
  return revived.rows.length === 1
}

/** Takes a dead job out of the queue for good; what it was for is found again from its own row, or was given up. */
export async function discardDeadJob<T>(db: Db<T>, id: string): Promise<boolean> {
  const discarded = await sql`
    delete from graphile_worker._private_jobs
    where id = ${id}::bigint and attempts >= max_attempts and locked_at is null
    returning 1`.execute(db)
  return discarded.rows.length === 1
}

/** A job that can never succeed has had its last attempt. */
export async function giveUpJob(
  query: (text: string, values: unknown[]) => Promise<unknown>,
  id: string,
): Promise<void> {
  await query('update graphile_worker._private_jobs set max_attempts = attempts where id = $1', [id])
}

const beatLimitSeconds = 10

/**
 * Takes dead workers off the list and frees their jobs, with the attempt they cost. A job freed five times is thought
 * to kill its workers and keeps its count, so that it ends as a dead job instead of going round for ever.
 */
export async function freeDeadWorkers(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query<{ freed: number }>({
    name: 'free-dead-workers',
    text: `
    with dead as (
      delete from platform.worker w
      where w.beat_at < clock_timestamp() - make_interval(secs => $1)
        or not exists (
          select 1 from pg_locks l
          where l.locktype = 'advisory' and l.granted and l.objsubid = 1
            and l.database = (select oid from pg_database where datname = current_database())
            and ((l.classid::bigint << 32) | l.objid::bigint) = w.lock_key)
      returning w.id
    ),
    -- Also jobs of a worker that died before it stood on the list, or whose row went in an earlier round.
    orphaned as (
      select j.id from graphile_worker._private_jobs j
      where j.locked_by is not null
        and (j.locked_by in (select id from dead)
          or (j.locked_at < clock_timestamp() - interval '5 seconds'
            and not exists (select 1 from platform.worker w where w.id = j.locked_by)))
      for update skip locked
    ),
    counted as (
      insert into platform.freed_job as f (job_id, times)
      select id, 1 from orphaned
      on conflict (job_id) do update set times = f.times + 1
      returning f.job_id, f.times
    ),
    freed as (
      update graphile_worker._private_jobs j
      set locked_by = null, locked_at = null, run_at = least(j.run_at, now()),
          attempts = case when c.times <= 5 then greatest(j.attempts - 1, 0) else j.attempts end
      from counted c where c.job_id = j.id
      returning j.id
    ),
    queues as (
      update graphile_worker._private_job_queues q set locked_by = null, locked_at = null
      where q.locked_by in (select id from dead)
    )
    select count(*)::int as freed from freed`,
    values: [beatLimitSeconds],
  })
  const freed = rows[0]!.freed
  if (freed > 0) await pool.query(`select pg_notify('jobs:insert', '{"count":${freed}}')`)
  return freed
}

/** Stops counting for jobs that are gone. */
export async function forgetFreedJobs(pool: pg.Pool): Promise<void> {
  await pool.query(`
    delete from platform.freed_job f
    where not exists (select 1 from graphile_worker._private_jobs j where j.id = f.job_id)`)
}
