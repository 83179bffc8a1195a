import { setTimeout as sleep } from 'node:timers/promises'
import { newId } from '../../platform/id.ts'
import { addDays, dayOf } from '../../platform/time.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import { monthOf } from '../month.ts'
import { ensureMonths } from '../month-rows.ts'
import { mergeObservations } from '../ranks/record-ranks.ts'
import { fenceOfRun, type RunInHand, workRun } from '../runs/work-run.ts'
import { closeChecks, freeLostChecks, insertPlan, moveToNewSource, noteSeenByRun } from './check-rows.ts'
import { claimDue } from './claim-checks.ts'
import { type Collected, type Drain, type InRun, type SharedDrain, workThrough } from './drain.ts'
import { makeCheck } from './make-check.ts'
import { collectOrders } from './orders/collect-orders.ts'
import { dropOrders } from './orders/order-rows.ts'
import { placeOrders } from './orders/place-orders.ts'
import { failedRow, settle } from './settle-checks.ts'
import { openSourceRow } from './source-rows.ts'
import { forgetOldSpending } from './spending-rows.ts'
import { dayAfter, mostMissedDays, planOf, waitMsAfter } from './tracker.ts'
import { forgetChecks, lockDueTracker, moveTracker } from './tracker-rows.ts'

/** A run that makes every check that is due, at every source. */
export async function collectRanks(app: BatchApp, { runId }: { runId: string }): Promise<void> {
  await workRun(app, runId, async (run) => {
    const collected = await collect(app, run)
    return async () => ({ metrics: { ...collected } })
  })
}

async function collect(app: BatchApp, run: RunInHand): Promise<Collected> {
  const now = app.clock()
  const by = newId('clt_', now)
  const collected: Collected = { planned: 0, ordered: 0, checks: 0, failed: 0, calls: 0, lost: 0, closed: 0 }
  const inRun = <T>(work: (tx: BatchTx) => Promise<T>): Promise<T> =>
    app.db.transaction().execute(async (tx) => {
      await app.fence(tx)
      const worked = await work(tx)
      // At the end, so that the sources do not wait for each other's work: the run's row is locked until the commit.
      await fenceOfRun(run)(tx)
      return worked
    })

  for (const { settings } of app.sources.values()) await openSourceRow(app.db, settings)
  collected.lost = await inRun(async (tx) => {
    const lost = await freeLostChecks(tx, by, new Date(now.getTime() + waitMsAfter(1)))
    await moveToNewSource(tx)
    await noteSeenByRun(tx, now)
    return lost
  })
  collected.planned = await planDueDays(app, inRun)
  // What was ordered in time may have come since: it is collected first, and closed at the end.
  collected.closed = await closeDays(app, inRun, { isOrderedToo: false })
  await drainSources(app, run, { by, timeZone: app.timeZone, inRun, collected })
  run.signal.throwIfAborted()
  collected.closed += await closeDays(app, inRun, { isOrderedToo: true })
  await inRun((tx) => dropOrders(tx, now))
  await inRun((tx) => forgetOldSpending(tx, dayOf(now, app.timeZone)))
  return collected
}

// A window may be as short as a minute, and whoever asks for a check by hand waits for it.
const lookAgainMs = 5_000

/**
 * Makes the checks of all sources that are due. While one is still at work the days that open are planned and the others
 * begin again, so that nobody's window passes behind a slow source.
 */
async function drainSources(app: BatchApp, run: RunInHand, shared: SharedDrain): Promise<void> {
  const { inRun, collected } = shared
  const atWork = new Map<string, Promise<void>>()
  const troubles: unknown[] = []
  const noteTrouble = (trouble: unknown) => void troubles.push(trouble)
  const isStopping = () => troubles.length > 0 || run.signal.aborted
  do {
    for (const source of app.sources.values()) {
      const { ranks } = source
      if (!ranks || atWork.has(ranks.name) || isStopping()) continue
      const drained = drainSource(app, run, { ...shared, source, ranks }).catch(noteTrouble)
      atWork.set(
        ranks.name,
        drained.finally(() => atWork.delete(ranks.name)),
      )
    }
    await allWithin([...atWork.values()], lookAgainMs)
    if (atWork.size > 0 && !isStopping())
      await planDueDays(app, inRun).then((planned) => {
        collected.planned += planned
      }, noteTrouble)
    // Whatever goes wrong at one source, the others' answers are stored before the run ends.
    if (isStopping()) await Promise.all(atWork.values())
  } while (atWork.size > 0)
  if (troubles.length > 0) throw troubles[0]
}

/** Waits for all of them, but no longer than this. */
async function allWithin(working: readonly Promise<void>[], ms: number): Promise<void> {
  const passing = new AbortController()
  const passed = sleep(ms, undefined, { signal: passing.signal }).catch(() => {})
  await Promise.race([Promise.all(working), passed])
  passing.abort()
}

// Of days that may still be planned or ordered the checks say what was done; twice that long is enough.
const keptDays = 2 * mostMissedDays

/** Plans every day whose window has opened, and makes room for it. Days that nobody planned in time are planned too, and then have failed. */
async function planDueDays(app: BatchApp, inRun: InRun): Promise<number> {
  const now = app.clock()
  // Wherever clocks are, the days that are planned lie in these months.
  const days = [-mostMissedDays - 4, -16, 0, 2].map((count) => addDays(dayOf(now, 'UTC'), count))
  await ensureMonths(app.db, 'rank', new Set(days.map(monthOf)))
  let planned = 0
  for (;;) {
    const count = await inRun(async (tx) => {
      const tracker = await lockDueTracker(tx, now)
      if (!tracker) return undefined
      const earliest = addDays(dayOf(now, tracker.window.zone), -mostMissedDays)
      let day = tracker.nextDay
      while (day < earliest) day = dayAfter(tracker.anchorDay, tracker.every, day)
      let inserted = 0
      for (let plan = planOf(day, tracker.window); plan.opensAt <= now; plan = planOf(day, tracker.window)) {
        inserted += await insertPlan(tx, tracker, plan, now)
        day = dayAfter(tracker.anchorDay, tracker.every, day)
      }
      await moveTracker(tx, tracker, day, planOf(day, tracker.window).opensAt)
      await forgetChecks(tx, tracker, addDays(dayOf(now, tracker.window.zone), -keptDays))
      return inserted
    })
    if (count === undefined) return planned
    planned += count
  }
}

const mostClosed = 1000

/** Ends the checks that will not be made any more: each leaves a failed row with its reason, and never a silent gap. */
async function closeDays(
  app: BatchApp,
  inRun: InRun,
  { isOrderedToo }: { isOrderedToo: boolean },
): Promise<number> {
  const now = app.clock()
  for (let closed = 0; ; ) {
    const ended = await inRun(async (tx) => {
      const checks = await closeChecks(tx, now, { most: mostClosed, isOrderedToo })
      await mergeObservations(
        tx,
        now,
        checks.map((check) => ({
          workspaceId: check.workspaceId,
          observation: failedRow(check, check.reason!, now),
        })),
      )
      return checks.length
    })
    closed += ended
    if (ended < mostClosed) return closed
  }
}

/** Makes the checks of one source that are due. Where searches are ordered, what is ready comes before what is new. */
async function drainSource(app: BatchApp, run: RunInHand, drain: Drain): Promise<void> {
  const { ranks } = drain
  if (ranks.queue) {
    await collectOrders(app, run, { ...drain, ranks })
    return placeOrders(app, run, { ...drain, ranks })
  }
  await workThrough(app, run, drain, {
    claim: (tx, most) => claimDue(tx, drain, most, app.clock()),
    make: (check, matches, pacer) => makeCheck(ranks, check, matches, pacer),
    settle: (tx, batch) => settle(tx, drain, batch, app.clock()),
  })
}
