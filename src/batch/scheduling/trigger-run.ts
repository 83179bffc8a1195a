import { newId } from '../../platform/id.ts'
import { enqueue } from '../../platform/queue/queue.ts'
import { type RefusalDetail, refuseRequest } from '../../platform/refusal.ts'
import type { BatchApp, BatchDb, BatchTx } from '../app.ts'
import { findActive } from '../models/model-rows.ts'
import { countRanks, type RankCounts } from '../ranks/rank-count-rows.ts'
import { refuse } from '../refusals.ts'
import { type RunTask, type RunTrigger, runErrors, taskNamed } from '../runs/run.ts'
import {
  claimAbandonedRuns,
  findRunInProgress,
  insertQueuedRun,
  insertSkippedRun,
  lockTenantRuns,
} from '../runs/run-rows.ts'
import type { SourceKind, Sources } from '../sources/port.ts'
import { anyTracker } from '../tracking/tracker-rows.ts'

export const rankRowsRequired = 1000

export type Preconditions = RankCounts & { unmet: 'not_enough_rows' | 'no_active_model' | 'no_source' | null }
export type TriggeredRun = { runId: string; task: RunTask; preconditions: Preconditions }

/**
 * Starts a run at someone's word. It and its job come into being together. Models belong to everybody: a tenant, that is
 * a token that is not for all workspaces, may start a training only if no tenant has done so for an hour.
 */
export async function triggerRun(
  app: BatchApp,
  name: string,
  { byTenant }: { byTenant: boolean },
): Promise<TriggeredRun> {
  const task = taskNamed(name)
  if (task === undefined) throw refuse('unknown_task')
  return app.db.transaction().execute(async (tx) => {
    const outcome = await queueRun(tx, app.sources, task, 'manual', app.clock(), byTenant)
    if ('waitSeconds' in outcome) throw tooSoon(outcome.waitSeconds)
    if ('inProgress' in outcome) throw inProgress(outcome.inProgress)
    if (!('runId' in outcome)) throw unmet(outcome.preconditions)
    return { ...outcome, task }
  })
}

/** Starts a run because its time has come. One that cannot start is stored as skipped, with the reason. */
export async function triggerScheduledRun(
  tx: BatchTx,
  sources: Sources,
  task: RunTask,
  now: Date,
): Promise<'queued' | 'skipped'> {
  const outcome = await queueRun(tx, sources, task, 'schedule', now)
  if ('runId' in outcome) return 'queued'
  const reason = 'preconditions' in outcome ? outcome.preconditions.unmet! : 'run_in_progress'
  await insertSkippedRun(tx, { id: newId('run_', now), task, trigger: 'schedule', queuedAt: now }, reason)
  return 'skipped'
}

/** Starts a run for checks that somebody asked for by hand, should theirs have ended a moment too early to see them. */
export async function startCheckRun(app: BatchApp, now: Date): Promise<boolean> {
  return app.db.transaction().execute(async (tx) => {
    const outcome = await queueRun(tx, app.sources, 'collect_ranks', 'manual', now)
    return 'runId' in outcome
  })
}

/** Puts runs that nobody works any more back into the queue, whatever became of their jobs. */
export async function requeueAbandonedRuns(app: BatchApp): Promise<number> {
  return app.db.transaction().execute(async (tx) => {
    const abandoned = await claimAbandonedRuns(tx)
    for (const { id, task } of abandoned) await enqueueRun(tx, id, task)
    return abandoned.length
  })
}

type Queued =
  | { inProgress: string }
  | { waitSeconds: number }
  | { preconditions: Preconditions }
  | { runId: string; preconditions: Preconditions }

async function queueRun(
  tx: BatchTx,
  sources: Sources,
  task: RunTask,
  trigger: RunTrigger,
  now: Date,
  byTenant = false,
): Promise<Queued> {
  const before = await findRunInProgress(tx, task)
  if (before !== undefined) return { inProgress: before }

  if (byTenant && task === 'train_classifier') {
    const last = await lockTenantRuns(tx, task)
    const waitMs = last === undefined ? 0 : last.getTime() + tenantPauseMs - now.getTime()
    if (waitMs > 0) return { waitSeconds: Math.ceil(waitMs / 1000) }
  }
  const preconditions = await preconditionsOf(tx, sources, task)
  if (preconditions.unmet !== null) return { preconditions }

  const runId = newId('run_', now)
  const queued = await insertQueuedRun(tx, { id: runId, task, trigger, queuedAt: now, byTenant })
  // Somebody else was quicker since we looked, and may even have finished.
  if (!queued) return queueRun(tx, sources, task, trigger, now, byTenant)
  await enqueueRun(tx, runId, task)
  return { runId, preconditions }
}

const jobOf: Record<RunTask, string> = {
  train_classifier: 'batch.train-classifier',
  predict: 'batch.predict-ranks',
  aggregate_volumes: 'batch.aggregate-volumes',
  collect_ranks: 'batch.collect-ranks',
  collect_volumes: 'batch.collect-volumes',
}

async function enqueueRun(tx: BatchTx, runId: string, task: RunTask): Promise<void> {
  await enqueue(tx, jobOf[task], { runId }, { key: runId })
}

async function preconditionsOf(tx: BatchTx, sources: Sources, task: RunTask): Promise<Preconditions> {
  const counts = await countRanks(tx)
  if (task === 'train_classifier' && counts.rows < rankRowsRequired)
    return { ...counts, unmet: 'not_enough_rows' }
  if (task === 'predict' && !(await findActive(tx, 'train_classifier')))
    return { ...counts, unmet: 'no_active_model' }
  const lacksSource =
    (task === 'collect_ranks' && !(await collectsRanks(tx, sources))) ||
    (task === 'collect_volumes' && !collectsVolumes(sources))
  if (lacksSource) return { ...counts, unmet: 'no_source' }
  return { ...counts, unmet: null }
}

/** Whether ranks are collected here: by a source that was set up, or by one that came along and is used. */
export async function collectsRanks(db: BatchDb | BatchTx, all: Sources): Promise<boolean> {
  const sources = [...all.values()].filter(({ ranks }) => ranks !== undefined)
  if (sources.some(({ broughtAlong }) => !broughtAlong)) return true
  return sources.length > 0 && (await anyTracker(db))
}

/** Whether anything is asked of every keyword once a month. */
export function collectsVolumes(sources: Sources): boolean {
  return hasSource(sources, 'volumes') || hasSource(sources, 'trends')
}

export function hasSource(sources: Sources, kind: SourceKind): boolean {
  return [...sources.values()].some((source) => source[kind] !== undefined)
}

const tenantPauseMs = 3_600_000

function tooSoon(waitSeconds: number) {
  return refuseRequest('rate_limited', {
    message:
      'Tokens of one workspace may start one training an hour, all of them together; wait for Retry-After.',
    headers: { 'retry-after': String(waitSeconds) },
  })
}

function inProgress(runId: string) {
  const message = 'This run has to end first.'
  return refuse('run_in_progress', {
    details: [{ path: 'task', code: 'run_in_progress', message, run_id: runId }],
  })
}

function unmet({ unmet, rows, days }: Preconditions) {
  const detail: RefusalDetail =
    unmet === 'no_active_model'
      ? { path: 'model', code: unmet, message: runErrors.no_active_model }
      : unmet === 'no_source'
        ? { path: 'source', code: unmet, message: runErrors.no_source }
        : {
            path: 'rank_history',
            code: 'not_enough_rows',
            message: `Training needs ${rankRowsRequired} rows in the rank history; there are ${rows}.`,
            required: rankRowsRequired,
            actual: rows,
            days,
          }
  return refuse('preconditions_unmet', { details: [detail] })
}
