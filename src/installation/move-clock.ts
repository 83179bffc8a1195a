import type { App } from '../app.ts'
import * as batch from '../batch/due.ts'
import * as billing from '../billing/due.ts'
import { endMove, moveLeaseSeconds, renewMove } from './clock-move-rows.ts'

export type Moved = { done: Record<string, number>; unsettled: number }

/** Walks to the target by way of every due instant, doing at each what falls due there. Needs `claimMove`. */
export async function moveClock(
  app: App,
  target: Date,
  turnProvider: (instant: Date) => Promise<void> = async () => {},
): Promise<Moved> {
  const renewal = setInterval(() => void renew(app, target), (moveLeaseSeconds * 1000) / 4)
  const done: Record<string, number> = {}
  // What stays due although its work was tried would hold time for ever; time goes on past it, by way of the rest.
  let stuckAt: Date | undefined
  // The same for checks, which are tried again as a worker would try them, only ever less often.
  let checksWait: { readonly until: Date; readonly ms: number } | undefined
  const next = async () => {
    const due = await billing.nextDue(app.billing, stuckAt)
    const found = await batch.nextDue(app.batch)
    const checks = found && checksWait && found < checksWait.until ? checksWait.until : found
    return checks && (!due || checks < due) ? { at: checks, of: 'checks' } : due && { at: due, of: 'billing' }
  }
  const moveTo = async (instant: Date) => {
    await turnProvider(instant)
    await app.clock.moveTo(instant)
  }
  try {
    for (let found = await next(); found && found.at <= target; found = await next()) {
      const { at: due, of } = found
      if (due > app.clock()) await moveTo(due)
      if (of === 'checks') {
        add(done, await batch.collectDue(app.batch))
        const after = await batch.nextDue(app.batch)
        const now = app.clock()
        checksWait = after && after <= now ? longerWait(checksWait, now) : undefined
        continue
      }
      const counts = await billing.runDue(app.billing, (use) => app.billingFor[use])
      if (!Object.values(counts).some((count) => count > 0)) stuckAt = due
      add(done, counts)
    }
    await moveTo(target)
    add(done, await batch.collectDue(app.batch))
    // A batch slot that was passed runs once, not once for every day of the way.
    return {
      done: { ...done, ...(await batch.runDue(app.batch)) },
      unsettled: await billing.countUnsettled(app.billing),
    }
  } finally {
    clearInterval(renewal)
    await endMove(app.pool, target)
  }
}

const shortestWaitMs = 30 * 60_000
const longestWaitMs = 86_400_000

function longerWait(before: { readonly ms: number } | undefined, now: Date) {
  const ms = Math.min(before ? before.ms * 2 : shortestWaitMs, longestWaitMs)
  return { until: new Date(now.getTime() + ms), ms }
}

function add(sums: Record<string, number>, counts: Record<string, number>): void {
  for (const [kind, count] of Object.entries(counts)) sums[kind] = (sums[kind] ?? 0) + count
}

async function renew(app: App, target: Date): Promise<void> {
  try {
    await renewMove(app.pool, target)
  } catch (error) {
    app.log.warn('sweep.failed', { sweep: 'move-clock', error })
  }
}
