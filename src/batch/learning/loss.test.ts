import fc from 'fast-check'
import { expect, test } from 'vitest'
import { softmaxRows } from '../models/model.ts'
import { gradientOf, rowLoss } from './loss.ts'

const STEP = 1e-4
const scoreLists = fc.array(fc.double({ min: -4, max: 4, noNaN: true }), { minLength: 2, maxLength: 5 })

function lossAt(scores: number[], label: number, k: number, step: number): number {
  return rowLoss(probabilitiesOf(scores.map((score, at) => (at === k ? score + step : score)))[label]!)
}

function probabilitiesOf(scores: number[]): Float64Array {
  const probabilities = Float64Array.from(scores)
  softmaxRows(probabilities, scores.length)
  return probabilities
}

test('gradient and hessian are the first and second difference of the loss', () => {
  fc.assert(
    fc.property(scoreLists, fc.nat(), fc.nat(), (scores, anyLabel, anyClass) => {
      const label = anyLabel % scores.length
      const k = anyClass % scores.length
      const [before, after] = [-STEP, STEP].map((step) => lossAt(scores, label, k, step))
      const probability = probabilitiesOf(scores)[k]!
      expect(gradientOf(probability, label === k)).toBeCloseTo((after! - before!) / (2 * STEP), 6)
    }),
  )
})

test('a certainty that proved wrong costs much, but not infinitely much', () => {
  expect(rowLoss(0)).toBeGreaterThan(30)
  expect(rowLoss(0)).toBeLessThan(40)
})
