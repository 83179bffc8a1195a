import { describe, expect, test } from 'vitest'
import { calibrationLimit, judge } from './gate.ts'
import type { Metrics, PairedDifference } from './metrics.ts'

const metrics = (logLoss: number, calibrationError = 0.01, examples = 4000): Metrics => ({
  examples,
  logLoss,
  accuracy: 0.4,
  aucOvr: 0.6,
  calibrationError,
})
const between = (lower: number, upper: number): PairedDifference => ({
  difference: (lower + upper) / 2,
  lower,
  upper,
})

describe('the gate', () => {
  test.each<[string, Metrics, PairedDifference | undefined, 'promote' | 'reject']>([
    ['a first model better than class shares is promoted', metrics(1.03), undefined, 'promote'],
    ['a gain of exactly 0.002 is enough', metrics(1.09375 - 0.002), undefined, 'promote'],
    ['a gain below 0.002 is not', metrics(1.0925), undefined, 'reject'],
    ['a badly calibrated model is rejected', metrics(1.03, 0.08), undefined, 'reject'],
    ['few examples excuse the same calibration error', metrics(1.03, 0.08, 900), undefined, 'promote'],
    ['no better than the active one, but not worse either', metrics(1.03), between(-0.001, 0.004), 'promote'],
    ['worse than the active one beyond chance', metrics(1.03), between(0.001, 0.004), 'reject'],
    ['a loss that is not a number passes nothing', metrics(Number.NaN), undefined, 'reject'],
  ])('%s', (_, candidate, againstActive, decision) => {
    expect(judge({ candidate, classShares: metrics(1.09375), againstActive }).decision).toBe(decision)
  })

  test('says what it looked at', () => {
    const { checks } = judge({
      candidate: metrics(1.03),
      classShares: metrics(1.09),
      againstActive: between(0, 0.1),
    })
    expect(checks.map((check) => check.name)).toEqual([
      'beats_class_shares',
      'calibrated',
      'not_worse_than_active',
    ])
    expect(checks[1]).toMatchObject({ observed: 0.01, limit: calibrationLimit(4000) })
  })

  test('the calibration limit is 0.05 + 1.5/√n', () => {
    expect(calibrationLimit(900)).toBeCloseTo(0.1, 12)
    expect(calibrationLimit(0)).toBe(Infinity)
  })
})
