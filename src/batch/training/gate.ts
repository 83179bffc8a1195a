import type { Metrics, PairedDifference } from './metrics.ts'

/** Whether a candidate may become the active model, and why. */
export type Verdict = { decision: 'promote' | 'reject'; checks: Check[] }

export type Check = {
  name: 'beats_class_shares' | 'calibrated' | 'not_worse_than_active'
  passed: boolean
  observed: number
  /** `observed` has to be at least, or at most, this. */
  limit: number
}

export type Evidence = {
  /** On the hold-out, as are the class shares. */
  candidate: Metrics
  classShares: Metrics
  /** Loss of the candidate minus loss of the active model, row by row on the hold-out; absent without one. */
  againstActive?: PairedDifference | undefined
}

const LEAST_GAIN = 0.002
const CALIBRATION_FLOOR = 0.05
const CALIBRATION_NOISE = 1.5

/** A figure that is not a number passes no check. */
export function judge({ candidate, classShares, againstActive }: Evidence): Verdict {
  const checks = [
    atLeast('beats_class_shares', classShares.logLoss - candidate.logLoss, LEAST_GAIN),
    atMost('calibrated', candidate.calibrationError, calibrationLimit(candidate.examples)),
  ]
  // Worse means: still worse in all but the most favourable twentieth of the resamples.
  if (againstActive) checks.push(atMost('not_worse_than_active', againstActive.lower, 0))
  return { decision: checks.every((check) => check.passed) ? 'promote' : 'reject', checks }
}

/** Few examples leave even a perfect model some calibration error, by chance alone. */
export function calibrationLimit(examples: number): number {
  return CALIBRATION_FLOOR + CALIBRATION_NOISE / Math.sqrt(examples)
}

function atLeast(name: Check['name'], observed: number, limit: number): Check {
  return { name, passed: observed >= limit, observed, limit }
}

function atMost(name: Check['name'], observed: number, limit: number): Check {
  return { name, passed: observed <= limit, observed, limit }
}
