import { newId } from '../../platform/id.ts'
import { enqueue } from '../../platform/queue/queue.ts'
import type { RefusalDetail } from '../../platform/refusal.ts'
import { dayOf } from '../../platform/time.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import { cleanAll } from '../keywords/clean-keywords.ts'
import { findKeywordIds } from '../keywords/keyword-rows.ts'
import { refuse } from '../refusals.ts'
import { findRunInProgress, insertQueuedRun } from '../runs/run-rows.ts'
import type { Source } from '../sources/port.ts'
import { countUnderWay, insertChecksByHand } from './check-rows.ts'
import { rankSourceOf, requireBudget } from './put-tracker.ts'
import { listSpending, scopesOf } from './spending-rows.ts'
import { planOf, type Tracker } from './tracker.ts'
import { callsLeft, findTracker } from './tracker-rows.ts'

export type RequestedChecks = { runId: string | null; checks: number; cost: number }

/** Checks some keywords of a tracker now, as far as today's budgets reach. Dry: only says what it would cost at most. */
export async function requestChecks(
  app: BatchApp,
  workspaceId: string,
  trackerId: string,
  { keywords, isDry, isForAll }: { keywords: readonly unknown[]; isDry: boolean; isForAll: boolean },
): Promise<RequestedChecks> {
  const named = cleanAll(keywords).map(({ key }) => key)
  const keys = [...new Set(named)]
  const tracker = await findTracker(app.db, workspaceId, trackerId)
  if (!tracker) throw refuse('tracker_not_found')
  const source = rankSourceOf(app, tracker.source)
  requireBudget(source, isForAll)
  const ids = await findKeywordIds(app.db, workspaceId, keys)
  const unknown = named.flatMap((key, at) => (ids.has(key) ? [] : [unknownAt(at)]))
  if (unknown.length > 0) throw refuse('keyword_not_found', { details: unknown })
  const now = app.clock()
  const plan = planOf(dayOf(now, tracker.window.zone), tracker.window)
  const keywordIds = [...ids.values()]
  const wanted = keywordIds.length - (await countUnderWay(app.db, tracker, plan.day, keywordIds))
  const callsEach = source.ranks.callsFor(tracker.engine, tracker.depth)
  const cost = wanted * callsEach
  if (isDry) return { runId: null, checks: wanted, cost }
  await requireAffordable(app, source, tracker, cost)

  return app.db.transaction().execute(async (tx) => {
    const checks = await insertChecksByHand(tx, tracker, plan, keywordIds, now)
    const runId = await runForChecks(tx, now)
    return { runId, checks, cost: checks * callsEach }
  })
}

function unknownAt(index: number): RefusalDetail {
  const message = 'This keyword is not registered in the workspace.'
  return { path: `keywords[${index}]`, code: 'keyword_not_found', message }
}

/** The run under way, which looks for what is due until its end, or else a new one. */
async function runForChecks(tx: BatchTx, now: Date): Promise<string> {
  const inProgress = await findRunInProgress(tx, 'collect_ranks')
  if (inProgress !== undefined) return inProgress
  const runId = newId('run_', now)
  const run = { id: runId, task: 'collect_ranks', trigger: 'manual', queuedAt: now } as const
  // Somebody else was quicker since we looked, and may even have finished.
  if (!(await insertQueuedRun(tx, run))) return runForChecks(tx, now)
  await enqueue(tx, 'batch.collect-ranks', { runId }, { key: runId })
  return runId
}

async function requireAffordable(
  app: BatchApp,
  source: Source,
  tracker: Tracker,
  cost: number,
): Promise<void> {
  const { workspaceId, id: trackerId, budgetPerDay } = tracker
  const today = dayOf(app.clock(), app.timeZone)
  const spending = await listSpending(
    app.db,
    source.settings.name,
    today,
    scopesOf({ workspaceId, trackerId }),
  )
  const usedOf = (scope: string) => spending.get(scope)?.used ?? 0
  const most = callsLeft(source.settings, { workspaceId, trackerId, budgetPerDay }, usedOf)
  if (cost <= most) return
  const message = `They may cost ${cost} calls, and ${Math.max(0, most)} are left today.`
  throw refuse('budget_exhausted', {
    details: [{ path: 'keywords', code: 'budget_exhausted', message, cost, left: Math.max(0, most) }],
  })
}
