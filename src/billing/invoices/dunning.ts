import { invariant } from '../../platform/invariant.ts'
import { addDuration, type Duration, parseDuration } from '../../platform/time.ts'

/** What is done next about an invoice that could not be collected: try again, or give up. */
export type DunningStep = { readonly how: 'retry' | 'give_up'; readonly at: Date }

export type Unpaid = {
  readonly firstFailedAt: Date
  readonly timeZone: string
  /** The payment method will not pass however often it is tried, so the rest of the time only waits for another one. */
  readonly hard: boolean
}

/**
 * The next step after a failure, or null when the last dunning day has come. Days are counted from the first failure;
 * days that were missed meanwhile are skipped, so that several missed retries become one.
 */
export function nextDunning(unpaid: Unpaid, now: Date, dunningDays: readonly number[]): DunningStep | null {
  const days = dunningDays.map((day) => dayAfter(unpaid.firstFailedAt, day, unpaid.timeZone))
  if (!unpaid.hard) {
    const next = days.find((at) => at > now)
    return next ? { how: 'retry', at: next } : null
  }
  const last = days.at(-1)
  return last && last > now ? { how: 'give_up', at: last } : null
}

function dayAfter(instant: Date, days: number, timeZone: string): Date {
  const at = addDuration(instant, parseDuration(`P${days}D`) as Duration, timeZone)
  invariant(at, 'a dunning day lies before the year 10000')
  return at
}
