import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../../platform/id.ts'
import { dayOf, instantAt } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { findRun, findRunInProgress, insertQueuedRun, isAbandoned } from '../runs/run-rows.ts'
import { anyCheckDue, nextCheckInstant } from '../tracking/check-rows.ts'
import { collectRanks } from '../tracking/collect-ranks.ts'
import { hasSource } from './trigger-run.ts'

/** When checks are next to be planned, made or ended. */
export async function nextCollection(app: BatchApp): Promise<Date | undefined> {
  if (!hasSource(app.sources, 'ranks')) return undefined
  const now = app.clock()
  const nextSpendingDay = instantAt(dayOf(now, app.timeZone), '24:00', app.timeZone)
  return nextCheckInstant(app.db, [...app.sources.keys()], now, nextSpendingDay)
}

const pollMs = 50
// A worker starts a queued run within moments; one that waits longer waits for somebody like us.
const leftToWorkersMs = 3_000

/** Makes all checks that are due, in this process, as a run like any other; one under way elsewhere is waited for. */
export async function collectNow(app: BatchApp): Promise<Record<string, number>> {
  const waitingSince = performance.now()
  for (;;) {
    if (!hasSource(app.sources, 'ranks') || !(await anyCheckDue(app.db, app.clock(), { byHand: false })))
      return {}
    const id = await findRunInProgress(app.db, 'collect_ranks')
    if (id === undefined) {
      const now = app.clock()
      const runId = newId('run_', now)
      const isOurs = await app.db
        .transaction()
        .execute((tx) =>
          insertQueuedRun(tx, { id: runId, task: 'collect_ranks', trigger: 'schedule', queuedAt: now }),
        )
      if (isOurs) return workHere(app, runId)
    } else {
      const run = await findRun(app.db, id)
      const isLeft = run?.status === 'queued' && performance.now() - waitingSince > leftToWorkersMs
      if (isLeft || (await isAbandoned(app.db, id))) return workHere(app, id)
      await sleep(pollMs)
    }
  }
}

async function workHere(app: BatchApp, runId: string): Promise<Record<string, number>> {
  await collectRanks(app, { runId })
  const run = await findRun(app.db, runId)
  return { checks_made: Number(run?.metrics?.['checks'] ?? 0) }
}
