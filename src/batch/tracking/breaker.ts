import type { SourceFailure } from '../sources/port.ts'
import type { SourceState } from './source-rows.ts'

/** What some calls to a source came to. */
export type Tally = {
  readonly good: number
  readonly failures: readonly Pick<SourceFailure, 'reason' | 'of'>[]
}

export const mostThrottles = 5
const restMs = 30 * 60_000
const throttledRestMs = 5 * 60_000
const leastJudged = 20
const mostJudged = 100
const mostFailing = 0.3

/** How a source fares after some calls. It rests when more than 30 % of them fail, and is left alone when it refuses us. */
export function judgeSource(before: SourceState, tally: Tally, now: Date, nextDay: Date): SourceState {
  const last = tally.failures.at(-1)
  const lastTrouble = last ? { lastError: last.reason, lastErrorAt: now } : {}
  const refused = tally.failures.find(({ of }) => of === 'credentials')
  if (refused)
    return {
      ...before,
      ...calm,
      state: 'refused',
      until: nextDay,
      lastError: refused.reason,
      lastErrorAt: now,
    }
  const spent = tally.failures.find(({ of }) => of === 'quota')
  if (spent)
    return { ...before, ...calm, state: 'resting', until: nextDay, lastError: spent.reason, lastErrorAt: now }

  const throttled = tally.failures.filter(({ of }) => of === 'rate').length
  const throttles = tally.good > 0 ? 0 : Math.min(before.throttles + (throttled > 0 ? 1 : 0), mostThrottles)
  if (throttles >= mostThrottles)
    return {
      ...before,
      ...lastTrouble,
      ...calm,
      state: 'resting',
      until: new Date(now.getTime() + throttledRestMs),
    }

  const failed = tally.failures.filter(({ of }) => of === 'answer').length
  const [good, bad] = [before.recentGood + tally.good, before.recentFailed + failed]
  if (good + bad >= leastJudged && bad > mostFailing * (good + bad))
    return { ...before, ...lastTrouble, ...calm, state: 'resting', until: new Date(now.getTime() + restMs) }
  const share = good + bad > mostJudged ? 0.5 : 1
  return {
    ...before,
    ...lastTrouble,
    throttles,
    recentGood: Math.floor(good * share),
    recentFailed: Math.floor(bad * share),
  }
}

const calm = { throttles: 0, recentGood: 0, recentFailed: 0 }

/** Whether it may be asked, and how it then stands: what rested long enough is ready. */
export function awake(state: SourceState, now: Date): SourceState | undefined {
  if (state.state === 'ready') return state
  return state.until !== null && state.until <= now
    ? { ...state, ...calm, state: 'ready', until: null }
    : undefined
}

/** How long all calls wait after being told "too many". */
export function holdMsAfter(throttles: number): number {
  return 1000 * 2 ** Math.min(Math.max(throttles - 1, 0), 4)
}
