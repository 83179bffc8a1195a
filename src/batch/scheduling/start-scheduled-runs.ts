import { invariant } from '../../platform/invariant.ts'
import { nextSlot, parseCron } from '../../platform/queue/cron.ts'
import type { BatchApp } from '../app.ts'
import type { RunTask } from '../runs/run.ts'
import { anyCheckDue } from '../tracking/check-rows.ts'
import { listSlots, moveSlot, putSlot, type Slot } from './schedule-rows.ts'
import {
  collectsRanks,
  collectsVolumes,
  hasSource,
  startCheckRun,
  triggerScheduledRun,
} from './trigger-run.ts'

// Checks are due at times of their own; those of some minutes share a run. They are looked for by the clocks of UTC, for those
// of a zone stand still for an hour in autumn.
const collectionCron = '*/5 * * * *'
const volumesCron = '15 1 * * *'

export type StartedRuns = { queued: number; skipped: number }

/**
 * Starts every task whose time has come and moves its slot past now, so that many missed slots are one start. The
 * start and the move are one transaction: a slot is neither lost nor used twice.
 */
export async function startScheduledRuns(app: BatchApp): Promise<StartedRuns> {
  const started: StartedRuns = { queued: 0, skipped: 0 }
  if (!app.schedule) return started
  const now = app.clock()
  const slots = new Map((await listSlots(app.db)).map((slot) => [slot.task, slot]))
  for (const [task, cron] of await timetable(app, app.schedule)) {
    const slot = slots.get(task)
    const zone = task === 'collect_ranks' ? 'UTC' : app.timeZone
    if (slot?.cron !== cron || slot.zone !== zone) {
      await putSlot(app.db, { task, cron, zone, nextAt: slotAfter(cron, zone, now) })
    } else if (slot.nextAt <= now) {
      const outcome = await startSlot(app, slot, now)
      if (outcome) started[outcome]++
    }
  }
  // One run for each check by hand; if it cannot be made, it waits for the slots like any other.
  if (
    hasSource(app.sources, 'ranks') &&
    (await anyCheckDue(app.db, now, { byHand: true })) &&
    (await startCheckRun(app, now))
  )
    started.queued++
  return started
}

/** In the order in which a night does them: volumes feed training, and training feeds predictions. */
async function timetable(
  app: BatchApp,
  schedule: NonNullable<BatchApp['schedule']>,
): Promise<[RunTask, string][]> {
  const collects = await collectsRanks(app.db, app.sources)
  return [
    ['aggregate_volumes', schedule.aggregation],
    ['train_classifier', schedule.training],
    ['predict', schedule.prediction],
    ...(collects ? [['collect_ranks', collectionCron] as [RunTask, string]] : []),
    ...(collectsVolumes(app.sources) ? [['collect_volumes', volumesCron] as [RunTask, string]] : []),
  ]
}

function startSlot(app: BatchApp, slot: Slot, now: Date): Promise<'queued' | 'skipped' | undefined> {
  return app.db.transaction().execute(async (tx) => {
    const mine = await moveSlot(tx, slot, slotAfter(slot.cron, slot.zone, now))
    if (!mine) return undefined
    // Checks have times of their own; a look that finds none due is no run.
    if (slot.task === 'collect_ranks' && !(await anyCheckDue(tx, now, { byHand: false }))) return undefined
    return triggerScheduledRun(tx, app.sources, slot.task, now)
  })
}

function slotAfter(text: string, zone: string, now: Date): Date {
  const cron = parseCron(text)
  invariant(cron, 'the configuration has checked the cron fields')
  // A day that never comes, such as 30 February, is asked for again in the year 9999.
  return nextSlot(cron, now, zone) ?? new Date('9999-12-31T00:00:00Z')
}
