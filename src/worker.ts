import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from './app.ts'
import { runDue as runBatchDue } from './batch/due.ts'
import { batchJobs } from './batch/jobs.ts'
import { openModelFiles } from './batch/models/model-files.ts'
import { type DueTurn, listDueTurns, runTurn } from './billing/due.ts'
import { billingJobs } from './billing/jobs.ts'
import { rollUpDays } from './billing/summary/roll-up-days.ts'
import { isMoving } from './installation/clock-move-rows.ts'
import { forgetQuietBuckets } from './platform/access/rate-limit.ts'
import { forgetOldSessions } from './platform/access/session-rows.ts'
import { claimUnlogged } from './platform/alarm.ts'
import { troubleOf } from './platform/database/database-errors.ts'
import { openDb } from './platform/database/db.ts'
import { forgetOldKeys } from './platform/idempotency.ts'
import type { Fence, Job } from './platform/queue/queue.ts'
import { forgetFreedJobs, freeDeadWorkers } from './platform/queue/queue-schema.ts'
import { type QueueWorker, startQueueWorker } from './platform/queue/queue-worker.ts'

export type Worker = { stop(): Promise<void> }

/** Works both areas' jobs and looks regularly for what has fallen due. */
export function startWorker(app: App): Worker {
  const stopping = new AbortController()
  const queue: QueueWorker = startQueueWorker({
    // It listens for announcements, and a pooler would hand its session to others.
    url: app.database.sessionUrl,
    sessionUrl: app.database.sessionUrl,
    concurrency: 8,
    jobs: {
      ...jobsOf(app, billingJobs, () => ({ ...app.billingFor.refunds, stopping: stopping.signal })),
      ...jobsOf(app, batchJobs, (fence) => ({ ...app.batch, stopping: stopping.signal, fence })),
    },
    events: {
      onDone: (job, ms) => {
        app.metrics.jobs.inc({ job, outcome: 'done' })
        app.log.debug('job.done', { job, ms })
      },
      onFailed: (job, job_id, attempt, error) => {
        app.metrics.jobs.inc({ job, outcome: 'failed' })
        app.log.warn('job.failed', { job, job_id, attempt, error })
      },
      onDead: (job, job_id, error) => {
        app.metrics.jobs.inc({ job, outcome: 'dead' })
        app.log.error('job.dead', { job, job_id, error })
      },
      onLeaseLost: () => app.log.warn('worker.lease-lost', {}),
    },
  })
  const sweeps = startSweeps(app, [
    { name: 'batch-due', everyMs: 1_000, run: () => unlessMoving(app, () => runBatchDue(app.batch)) },
    {
      name: 'housekeeping',
      everyMs: 60_000,
      run: async () => {
        await forgetQuietBuckets(app.pool)
        await forgetOldSessions(app.pool)
        await rollUpDays(app.billing)
        await forgetOldKeys(openDb(app.pool), app.clock())
        await forgetFreedJobs(app.pool)
      },
    },
  ])
  const turns = startBillingTurns(app, stopping.signal)
  return {
    async stop() {
      stopping.abort()
      await Promise.all([sweeps.stop(), turns, queue.stop()])
    },
  }
}

const lookEveryMs = 1_000

/**
 * Asks every second in which of billing's turns something is due and starts those that are not under way: a wave of
 * renewals that takes an hour keeps no lookup, refund, cancellation or notification waiting.
 */
async function startBillingTurns(app: App, stopping: AbortSignal): Promise<void> {
  const running = new Map<DueTurn, Promise<void>>()
  let pausing = new AbortController()
  const start = (turn: DueTurn) => {
    const signal = AbortSignal.any([stopping, pausing.signal])
    const ran = runTurn((use) => ({ ...app.billingFor[use], stopping: signal }), turn)
      .catch((error: unknown) => noteFailedRound(app, `billing-${turn}`, error))
      .finally(() => running.delete(turn))
    running.set(turn, ran)
  }
  while (!stopping.aborted) {
    try {
      if (app.config.mode === 'sandbox' && (await isMoving(app.pool))) {
        // The mover does what falls due, in order; turns under way claim nothing more.
        pausing.abort()
      } else {
        if (pausing.signal.aborted) pausing = new AbortController()
        await app.clock.sync()
        for (const turn of await listDueTurns(app.billing)) if (!running.has(turn)) start(turn)
      }
    } catch (error) {
      noteFailedRound(app, 'billing-due', error)
    }
    await sleep(lookEveryMs, undefined, { signal: stopping }).catch(() => {})
  }
  await Promise.all(running.values())
}

type JobWork = (payload: unknown, fence: Fence) => Promise<unknown>

/** An area's jobs, each run at the time all processes agree on. Batch settles them behind this worker's fence. */
function jobsOf<A>(
  app: App,
  jobs: Readonly<Record<string, Job<A>>>,
  areaBehind: (fence: Fence) => A,
): Record<string, JobWork> {
  return Object.fromEntries(
    Object.entries(jobs).map(([name, job]) => [
      name,
      async (payload: unknown, fence: Fence) => {
        await app.clock.sync()
        return job.run(areaBehind(fence), payload)
      },
    ]),
  )
}

/** While the sandbox clock is moved, the mover does what falls due, in order. */
async function unlessMoving(app: App, run: () => Promise<unknown>): Promise<void> {
  if (app.config.mode === 'sandbox' && (await isMoving(app.pool))) return
  await app.clock.sync()
  await run()
}

/** What every process does, worker or not: notice the dead, and follow the shared clock. */
export function startUpkeep(app: App): Worker {
  return startSweeps(app, [
    {
      name: 'free-dead-workers',
      everyMs: 2_000,
      run: async () => {
        const count = await freeDeadWorkers(app.pool)
        if (count > 0) app.log.warn('worker.jobs-freed', { count })
      },
    },
    {
      name: 'log-alarms',
      everyMs: 2_000,
      run: async () => {
        for (const alarm of await claimUnlogged(openDb(app.pool))) app.log.error('alarm.raised', alarm)
      },
    },
    { name: 'follow-clock', everyMs: 1_000, run: () => app.clock.sync() },
    { name: 'model-files', everyMs: 2_000, run: openModelFiles(app.batch) },
  ])
}

type Sweep = { name: string; everyMs: number; run: () => Promise<unknown> }

/** Runs each sweep again and again, never twice at once. A failure is logged and the next round tries again. */
function startSweeps(app: App, sweeps: readonly Sweep[]): Worker {
  const stopping = new AbortController()
  const loops = sweeps.map(async ({ name, everyMs, run }) => {
    while (!stopping.signal.aborted) {
      try {
        await run()
      } catch (error) {
        noteFailedRound(app, name, error)
      }
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
  })
  return {
    async stop() {
      stopping.abort()
      await Promise.all(loops)
    },
  }
}

/** A round that failed as a whole, whoever's it was: counted, logged, and a lesson about the database. */
function noteFailedRound(app: App, sweep: string, error: unknown): void {
  app.metrics.sweepRoundsFailed.inc({ sweep })
  const trouble = troubleOf(error)
  if (trouble) app.health.note(trouble)
  app.log.warn('sweep.failed', { sweep, error })
}
