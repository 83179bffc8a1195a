import { invariant } from '../../platform/invariant.ts'
import { nextSlot, parseCron } from '../../platform/queue/cron.ts'
import type { BatchApp } from '../app.ts'
import type { RunTask } from '../runs/run.ts'
import { listSlots, moveSlot, putSlot, type Slot } from './schedule-rows.ts'
import { triggerScheduledRun } from './trigger-run.ts'

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
  for (const [task, cron] of timetable(app.schedule)) {
    const slot = slots.get(task)
    const zone = app.timeZone
    if (slot?.cron !== cron || slot.zone !== zone) {
      await putSlot(app.db, { task, cron, zone, nextAt: slotAfter(cron, zone, now) })
    } else if (slot.nextAt <= now) {
      const outcome = await startSlot(app, slot, now)
      if (outcome) started[outcome]++
    }
  }
  return started
}

/** In the order in which a night does them: volumes feed training, and training feeds predictions. */
function timetable(schedule: NonNullable<BatchApp['schedule']>): [RunTask, string][] {
  return [
    ['aggregate_volumes', schedule.aggregation],
    ['train_classifier', schedule.training],
    ['predict', schedule.prediction],
  ]
}

function startSlot(app: BatchApp, slot: Slot, now: Date): Promise<'queued' | 'skipped' | undefined> {
  return app.db.transaction().execute(async (tx) => {
    const mine = await moveSlot(tx, slot, slotAfter(slot.cron, slot.zone, now))
    return mine ? triggerScheduledRun(tx, slot.task, now) : undefined
  })
}

function slotAfter(text: string, zone: string, now: Date): Date {
  const cron = parseCron(text)
  invariant(cron, 'the configuration has checked the cron fields')
  // A day that never comes, such as 30 February, is asked for again in the year 9999.
  return nextSlot(cron, now, zone) ?? new Date('9999-12-31T00:00:00Z')
}
