import { type Selectable, sql } from 'kysely'
import type { BatchDb, BatchTx } from '../app.ts'
import type { BatchTables } from '../tables.ts'
import type { Run, RunError, RunTask, RunTrigger } from './run.ts'

/** How long a worker may be silent before its run is put into the queue again. The queue itself is quicker. */
const lease = sql<Date>`clock_timestamp() + interval '60 seconds'`

/** As the unique index says it, so that PostgreSQL finds the index. */
const inProgress = sql<boolean>`status in ('queued', 'running')`

export type NewRun = { id: string; task: RunTask; trigger: RunTrigger; queuedAt: Date; byTenant?: boolean }

/** Adds a run that waits for a worker. False: one of this task is queued or running. */
export async function insertQueuedRun(tx: BatchTx, run: NewRun): Promise<boolean> {
  const inserted = await tx
    .insertInto('batch.run')
    .values({ ...baseOf(run), status: 'queued', leased_until: lease })
    .onConflict((conflict) => conflict.column('task').where(inProgress).doNothing())
    .returning('id')
    .executeTakeFirst()
  return inserted !== undefined
}

/** Adds a run that could not start, with the reason. */
export async function insertSkippedRun(tx: BatchTx, run: NewRun, reason: RunError): Promise<void> {
  await tx
    .insertInto('batch.run')
    .values({
      ...baseOf(run),
      status: 'skipped',
      error_code: reason,
      finished_at: run.queuedAt,
      leased_until: lease,
    })
    .execute()
}

function baseOf({ id, task, trigger, queuedAt, byTenant = false }: NewRun) {
  return { id, task, trigger, queued_at: queuedAt, by_tenant: byTenant }
}

/** When tenants last started a run of a task; they do so one by one. */
export async function lockTenantRuns(tx: BatchTx, task: RunTask): Promise<Date | undefined> {
  await sql`select pg_advisory_xact_lock(hashtext(${`batch.run by tenant ${task}`}))`.execute(tx)
  const row = await tx
    .selectFrom('batch.run')
    .select('queued_at')
    .where('task', '=', task)
    .where('by_tenant', '=', true)
    .orderBy('queued_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.queued_at
}

export async function findRunInProgress(db: BatchDb | BatchTx, task: RunTask): Promise<string | undefined> {
  const row = await db
    .selectFrom('batch.run')
    .select('id')
    .where('task', '=', task)
    .where('status', 'in', ['queued', 'running'])
    .executeTakeFirst()
  return row?.id
}

/** Puts a worker in charge of a run and counts it. Undefined: the run has ended. */
export async function takeRun(db: BatchDb, id: string, now: Date): Promise<number | undefined> {
  const row = await db
    .updateTable('batch.run')
    .set((e) => ({
      status: 'running',
      started_at: e.fn.coalesce('started_at', e.val(now)),
      progress: 0,
      takes: e('takes', '+', 1),
      leased_until: lease,
    }))
    .where('id', '=', id)
    .where('status', 'in', ['queued', 'running'])
    .returning('takes')
    .executeTakeFirst()
  return row?.takes
}

/** Says that the work goes on, and how far it is. False: another worker is in charge, or the run has ended. */
export async function renewRun(db: BatchDb, id: string, take: number, progress: number): Promise<boolean> {
  const row = await db
    .updateTable('batch.run')
    .set({ progress, leased_until: lease })
    .where('id', '=', id)
    .where('status', '=', 'running')
    .where('takes', '=', take)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Gives a run back to the queue as if this worker had never had it. */
export async function giveRunBack(db: BatchDb, id: string, take: number): Promise<void> {
  await db
    .updateTable('batch.run')
    .set({ status: 'queued', progress: 0, takes: take - 1, leased_until: lease })
    .where('id', '=', id)
    .where('status', '=', 'running')
    .where('takes', '=', take)
    .execute()
}

/** Locks a run that this worker is in charge of. False: it no longer is. */
export async function lockRun(tx: BatchTx, id: string, take: number): Promise<boolean> {
  const row = await tx
    .selectFrom('batch.run')
    .select('id')
    .where('id', '=', id)
    .where('status', '=', 'running')
    .where('takes', '=', take)
    .forUpdate()
    .executeTakeFirst()
  return row !== undefined
}

export type RunEnd = { modelId?: string | undefined; metrics?: Record<string, unknown> | undefined } & (
  | { status: 'succeeded' }
  | { status: 'failed'; error: RunError }
)

export async function endRun(tx: BatchTx, id: string, end: RunEnd, now: Date): Promise<void> {
  await tx
    .updateTable('batch.run')
    .set({
      status: end.status,
      finished_at: now,
      model_id: end.modelId ?? null,
      metrics: end.metrics ? sql`${JSON.stringify(end.metrics)}::jsonb` : null,
      ...(end.status === 'failed' ? { error_code: end.error } : { progress: 1 }),
    })
    .where('id', '=', id)
    .execute()
}

/** Runs under way that nobody has renewed; each is claimed by whoever lists it. */
export async function claimAbandonedRuns(tx: BatchTx): Promise<{ id: string; task: RunTask }[]> {
  return tx
    .updateTable('batch.run')
    .set({ leased_until: lease })
    .where('status', 'in', ['queued', 'running'])
    .where('leased_until', '<', sql<Date>`clock_timestamp()`)
    .returning(['id', 'task'])
    .execute()
}

/** Whether nobody works a run that is under way. */
export async function isAbandoned(db: BatchDb, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('batch.run')
    .select('id')
    .where('id', '=', id)
    .where('status', 'in', ['queued', 'running'])
    .where('leased_until', '<', sql<Date>`clock_timestamp()`)
    .executeTakeFirst()
  return row !== undefined
}

export async function findRun(db: BatchDb, id: string): Promise<Run | undefined> {
  const row = await db.selectFrom('batch.run').selectAll().where('id', '=', id).executeTakeFirst()
  return row && toRun(row)
}

/** Runs, newest first: ids are in the order of their making. */
export async function listRuns(
  db: BatchDb,
  filter: { task: RunTask | undefined; before: string | undefined; limit: number },
): Promise<Run[]> {
  let query = db.selectFrom('batch.run').selectAll().orderBy('id', 'desc').limit(filter.limit)
  if (filter.task !== undefined) query = query.where('task', '=', filter.task)
  if (filter.before !== undefined) query = query.where('id', '<', filter.before)
  return (await query.execute()).map(toRun)
}

function toRun(row: Selectable<BatchTables['batch.run']>): Run {
  return {
    id: row.id,
    task: row.task,
    trigger: row.trigger,
    status: row.status,
    queuedAt: row.queued_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
    progress: row.progress,
    error: row.error_code as RunError | null,
    modelId: row.model_id,
    metrics: row.metrics,
  }
}
