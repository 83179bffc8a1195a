import { isDatabaseUnavailable } from '../../platform/database/database-errors.ts'
import { StaleWorker } from '../../platform/queue/worker-lease.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import { RunFailed } from './run.ts'
import { endRun, giveRunBack, lockRun, type RunEnd, renewRun, takeRun } from './run-rows.ts'

/** A run in a worker's hands. */
export type RunInHand = {
  readonly id: string
  /** Counts the workers that were in charge of it. What is written for the run is written by the last of them. */
  readonly take: number
  /** Says how far the work is; written down about once a second. */
  report(fraction: number): void
  /** Aborted when the work should end early: another worker took over, or this process stops. */
  readonly signal: AbortSignal
}

/** What the run came to. It is written in the transaction that ends the run. */
export type Settle = (tx: BatchTx) => Promise<Pick<RunEnd, 'modelId' | 'metrics'>>

const mostTakes = 3
const renewEveryMs = 1_000

/**
 * Works a run and ends it. If this worker dies, the queue hands the job on and the next worker starts over; a run that
 * loses every worker ends as failed. Only the worker in charge can settle, whoever wakes up late.
 */
export async function workRun(
  app: BatchApp,
  runId: string,
  work: (run: RunInHand) => Promise<Settle>,
): Promise<void> {
  const take = await takeRun(app.db, runId, app.clock())
  if (take === undefined) return
  if (take > mostTakes) {
    await settleRun(app, runId, take, async () => ({ status: 'failed', error: 'worker_lost' }))
    return
  }
  const watch = watchRun(app, runId, take)
  try {
    const settle = await work(watch)
    await settleRun(app, runId, take, async (tx) => ({ status: 'succeeded', ...(await settle(tx)) }))
  } catch (error) {
    await settleFailure(app, runId, take, watch.signal, error)
  } finally {
    watch.end()
  }
}

/** Lets a transaction pass only while this worker is in charge of the run. */
export function fenceOfRun({ id, take }: Pick<RunInHand, 'id' | 'take'>): BatchApp['fence'] {
  return async (tx) => {
    if (!(await lockRun(tx, id, take))) throw new RunTaken('Another worker is in charge of this run.')
  }
}

/** Another worker is in charge of this run. */
class RunTaken extends Error {
  override readonly name = 'RunTaken'
}

/** This process stops; the run waits for another worker. */
class RunGivenBack extends Error {
  override readonly name = 'RunGivenBack'
}

async function settleRun(
  app: BatchApp,
  runId: string,
  take: number,
  endOf: (tx: BatchTx) => Promise<RunEnd>,
): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    await app.fence(tx)
    await fenceOfRun({ id: runId, take })(tx)
    await endRun(tx, runId, await endOf(tx), app.clock())
  })
}

/** A failure that a retry cannot mend ends the run. One of the surroundings leaves it to the next attempt. */
async function settleFailure(
  app: BatchApp,
  runId: string,
  take: number,
  signal: AbortSignal,
  error: unknown,
): Promise<void> {
  if (error instanceof RunTaken || signal.reason instanceof RunTaken) return
  if (app.stopping?.aborted) {
    await giveRunBack(app.db, runId, take)
    throw new RunGivenBack('This process stops; the run goes back to the queue.')
  }
  if (error instanceof StaleWorker || isDatabaseUnavailable(error)) throw error
  const code = error instanceof RunFailed ? error.code : 'internal_error'
  await settleRun(app, runId, take, async () => ({ status: 'failed', error: code }))
  // The queue logs what it is thrown. The next attempt finds the run ended and does nothing.
  if (!(error instanceof RunFailed)) throw error
}

function watchRun(app: BatchApp, id: string, take: number): RunInHand & { end(): void } {
  const taken = new AbortController()
  const signal = app.stopping ? AbortSignal.any([taken.signal, app.stopping]) : taken.signal
  let progress = 0
  let renewing = false
  async function renew(): Promise<void> {
    if (renewing) return
    renewing = true
    try {
      if (!(await renewRun(app.db, id, take, progress)))
        taken.abort(new RunTaken('Another worker resumed this run.'))
    } catch {
      // The database is away; the lease lasts longer than a hiccup, and settling finds out the rest.
    } finally {
      renewing = false
    }
  }
  const heart = setInterval(() => void renew(), renewEveryMs)
  return {
    id,
    take,
    signal,
    report: (fraction) => {
      progress = Math.min(1, Math.max(progress, fraction))
    },
    end: () => clearInterval(heart),
  }
}
