import { describe, expect, test } from 'vitest'
import type { PairedDifference } from '../learning/metrics.ts'
import { calibrationLimit, type Evidence, judge, type Losses } from './gate.ts'

/** A candidate against rivals at 1.09375 and 1.078125, which floating point writes exactly. */
const losses = (candidate: number, examples = 4000): Losses => ({
  examples,
  candidate,
  classShares: 1.09375,
  naiveRule: 1.078125,
})
const good: Evidence = { all: losses(1.03), ranked: losses(1.03, 2000), calibrationError: 0.01 }
const between = (lower: number, upper: number): PairedDifference => ({
  difference: (lower + upper) / 2,
  lower,
  upper,
})

describe('the gate', () => {
  test.each<[string, Partial<Evidence>, 'promote' | 'reject']>([
    ['a first model better than all its rivals is promoted', {}, 'promote'],
    ['a gain of exactly 0.002 over the best rule is enough', { all: losses(1.078125 - 0.002) }, 'promote'],
    ['a gain below 0.002 over the best rule is not', { all: losses(1.077) }, 'reject'],
    ['beating class shares alone is not enough', { all: losses(1.08) }, 'reject'],
    ['skill has to show on ranked rows too', { ranked: losses(1.078, 2000) }, 'reject'],
    ['from 500 of them on', { ranked: losses(1.2, 500) }, 'reject'],
    ['below 500 they say too little', { ranked: losses(1.2, 499) }, 'promote'],
    ['a badly calibrated model is rejected', { calibrationError: 0.08 }, 'reject'],
    [
      'few examples excuse the same calibration error',
      { calibrationError: 0.08, all: losses(1.03, 900) },
      'promote',
    ],
    [
      'no better than the active one, but not worse either',
      { againstActive: between(-0.001, 0.004) },
      'promote',
    ],
    ['worse than the active one beyond chance', { againstActive: between(0.001, 0.004) }, 'reject'],
    ['worse on too few keywords to draw from', { againstActive: { difference: 0.0001 } }, 'reject'],
    ['better on too few keywords to draw from', { againstActive: { difference: -0.0001 } }, 'promote'],
    [
      'an active one that cannot be compared with leaves it to the others',
      { againstActive: 'not_comparable' },
      'promote',
    ],
    ['and the others may say no', { againstActive: 'not_comparable', calibrationError: 0.5 }, 'reject'],
    ['a loss that is not a number passes nothing', { all: losses(Number.NaN) }, 'reject'],
  ])('%s', (_, evidence, decision) => {
    expect(judge({ ...good, ...evidence }).decision).toBe(decision)
  })

  test('says what it looked at, and what it could not look at', () => {
    const { checks, notApplied } = judge({ ...good, againstActive: between(0, 0.1) })
    expect(checks.map((check) => check.name)).toEqual([
      'beats_class_shares',
      'beats_naive_rule',
      'beats_class_shares_ranked',
      'beats_naive_rule_ranked',
      'calibrated',
      'not_worse_than_active',
    ])
    expect(checks[4]).toMatchObject({ observed: 0.01, limit: calibrationLimit(4000) })
    expect(notApplied).toEqual([])
    const few = judge({ ...good, ranked: losses(1.2, 3), againstActive: 'not_comparable' })
    expect(few.notApplied).toEqual(['beats_class_shares_ranked', 'beats_naive_rule_ranked'])
    expect(few.checks.at(-1)).toEqual({
      name: 'not_worse_than_active',
      passed: null,
      outcome: 'not_comparable',
      observed: null,
      limit: 0,
    })
  })

  test('the calibration limit is 0.05 + 1.5/√n', () => {
    expect(calibrationLimit(900)).toBeCloseTo(0.1, 12)
    expect(calibrationLimit(0)).toBe(Infinity)
  })
})
