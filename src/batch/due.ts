import type { BatchApp } from './app.ts'
import { monthsAhead } from './month.ts'
import { ensureMonths } from './month-rows.ts'
import { collectNow, nextCollection } from './scheduling/collect-now.ts'
import { startScheduledRuns } from './scheduling/start-scheduled-runs.ts'
import { requeueAbandonedRuns } from './scheduling/trigger-run.ts'

/** Does all that is due at or before now, and counts it by kind. The work itself is done by jobs. */
export async function runDue(app: BatchApp): Promise<Record<string, number>> {
  const ahead = monthsAhead(app.clock())
  for (const history of ['rank', 'volume_observation'] as const) await ensureMonths(app.db, history, ahead)
  const { queued, skipped } = await startScheduledRuns(app)
  return { runs_queued: queued, runs_skipped: skipped, runs_requeued: await requeueAbandonedRuns(app) }
}

/** When checks are next to be planned, made or ended. Undefined: never, as things are. */
export const nextDue = nextCollection

/** Makes the checks that are due, here and now. */
export const collectDue = collectNow
