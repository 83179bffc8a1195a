import type { PairedDifference } from '../learning/metrics.ts'

/** Whether a candidate may become the active model, and why. */
export type GateVerdict = {
  decision: 'promote' | 'reject'
  checks: Check[]
  /** Checks for which there is too little to look at. */
  notApplied: CheckName[]
}

export type CheckName =
  | 'beats_class_shares'
  | 'beats_naive_rule'
  | 'beats_class_shares_ranked'
  | 'beats_naive_rule_ranked'
  | 'calibrated'
  | 'not_worse_than_active'

export type Check = {
  name: CheckName
  /** Null: it could not be made, and the others decide. */
  passed: boolean | null
  outcome: 'passed' | 'failed' | 'not_comparable'
  observed: number | null
  /** `observed` has to be at least, or at most, this. */
  limit: number
}

/** Log-losses on the same rows of the hold-out. The rivals have learnt from rows of the same kind. */
export type Losses = { examples: number; candidate: number; classShares: number; naiveRule: number }

export type Evidence = {
  all: Losses
  /** Rows on which the keyword was visible at both ends: what remains when telling found from not found is no merit. */
  ranked: Losses
  calibrationError: number
  /** Loss of the candidate minus loss of the active model, row by row on the hold-out; absent without one. */
  againstActive?: PairedDifference | 'not_comparable' | undefined
}

const LEAST_GAIN = 0.002
/** Fewer ranked rows than these in the hold-out say too little. */
const RANKED_ROWS = 500
const CALIBRATION_FLOOR = 0.05
const CALIBRATION_NOISE = 1.5

/** A figure that is not a number passes no check. */
export function judge({ all, ranked, calibrationError, againstActive }: Evidence): GateVerdict {
  const gains = (losses: Losses, suffix: '' | '_ranked') => [
    atLeast(`beats_class_shares${suffix}`, losses.classShares - losses.candidate, LEAST_GAIN),
    atLeast(`beats_naive_rule${suffix}`, losses.naiveRule - losses.candidate, LEAST_GAIN),
  ]
  const enoughRanked = ranked.examples >= RANKED_ROWS
  const checks = [
    ...gains(all, ''),
    ...(enoughRanked ? gains(ranked, '_ranked') : []),
    atMost('calibrated', calibrationError, calibrationLimit(all.examples)),
  ]
  if (againstActive) checks.push(notWorse(againstActive))
  return {
    decision: checks.every((check) => check.passed !== false) ? 'promote' : 'reject',
    checks,
    notApplied: enoughRanked ? [] : ['beats_class_shares_ranked', 'beats_naive_rule_ranked'],
  }
}

/** Worse means: still worse in all but the most favourable twentieth of the resamples; without them, worse at all. */
function notWorse(againstActive: PairedDifference | 'not_comparable'): Check {
  if (againstActive === 'not_comparable') {
    return {
      name: 'not_worse_than_active',
      passed: null,
      outcome: 'not_comparable',
      observed: null,
      limit: 0,
    }
  }
  return atMost('not_worse_than_active', againstActive.lower ?? againstActive.difference, 0)
}

/** Few examples leave even a perfect model some calibration error, by chance alone. */
export function calibrationLimit(examples: number): number {
  return CALIBRATION_FLOOR + CALIBRATION_NOISE / Math.sqrt(examples)
}

function atLeast(name: CheckName, observed: number, limit: number): Check {
  return checkOf(name, observed >= limit, observed, limit)
}

function atMost(name: CheckName, observed: number, limit: number): Check {
  return checkOf(name, observed <= limit, observed, limit)
}

function checkOf(name: CheckName, passed: boolean, observed: number, limit: number): Check {
  return { name, passed, outcome: passed ? 'passed' : 'failed', observed, limit }
}
