import type { App } from '../app.ts'
import * as batch from '../batch/due.ts'
import * as billing from '../billing/due.ts'

export type Moved = { done: Record<string, number>; unsettled: number }

// Renewed while the mover lives; another process takes it for dead after this.
const leaseSeconds = 10

/** Claims the one right to move time. False: somebody else is moving it. */
export async function beginMove(app: App, target: Date): Promise<boolean> {
  const claimed = await app.pool.query(
    `update platform.clock set moving_to = $1, moving_until = clock_timestamp() + make_interval(secs => $2)
     where moving_until is null or moving_until < clock_timestamp() returning 1`,
    [target, leaseSeconds],
  )
  return claimed.rows.length === 1
}

/** Walks to the target by way of every due instant, doing at each what falls due there. Needs a claim. */
export async function moveClock(
  app: App,
  target: Date,
  turnProvider: (instant: Date) => Promise<void> = async () => {},
): Promise<Moved> {
  const renewal = setInterval(() => void renew(app, target), (leaseSeconds * 1000) / 4)
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
    await app.pool.query(
      'update platform.clock set moving_to = null, moving_until = null where moving_to = $1',
      [target],
    )
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

/** Whether a move is under way. Sweeps hold still meanwhile: the mover does their work, in order. */
export async function isMoving(app: App): Promise<boolean> {
  const { rows } = await app.pool.query<{ moving: boolean }>(
    'select coalesce(moving_until > clock_timestamp(), false) as moving from platform.clock',
  )
  return rows[0]?.moving ?? false
}

/** One that arrives after the move has ended must not stop the clock for the rest of a lease. */
async function renew(app: App, target: Date): Promise<void> {
  try {
    await app.pool.query(
      `update platform.clock set moving_until = clock_timestamp() + make_interval(secs => $1)
       where moving_to = $2`,
      [leaseSeconds, target],
    )
  } catch (error) {
    app.log.warn('sweep.failed', { sweep: 'move-clock', error })
  }
}
