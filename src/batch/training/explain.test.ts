import { expect, test } from 'vitest'
import { trainBooster } from '../../../test/batch/train-booster.ts'
import { readFixture } from '../../../test/fixtures/rank-classifier/read.ts'
import { sliceExamples } from '../dataset/examples.ts'
import { trainSoftmax } from '../learning/softmax.ts'
import { addScoresWithParts, leadOver, predictWithReasons, withExpectations } from '../models/explain.ts'
import { type Model, predict, predictScores } from '../models/model.ts'
import { decodeModel, encodeModel } from '../models/model-codec.ts'
import { classSharesOf } from './ladder-plan.ts'

const examples = sliceExamples(readFixture('train'), 0, 1500)
const few = sliceExamples(examples, 0, 40)
const settings = {
  rounds: 6,
  learningRate: 0.1,
  maxLeaves: 6,
  minLeafRows: 20,
  l2: 1,
  columnSample: 1,
  seed: 1,
}
const softmax: Model = { ...trainSoftmax(examples, 3, 10), temperature: 1.25 }
const gbdt: Model = { ...trainBooster(examples, 3, settings), temperature: 0.9 }
const blend: Model = {
  kind: 'blend',
  classes: 3,
  features: 20,
  temperature: 1.1,
  weights: Float64Array.of(0.4, 0.6),
  parts: [softmax, gbdt],
}

/** What the parts of all features sum up to, for the lead of each class over the mean of all. */
function summed(model: Model, row: number, top: number): number {
  const moved = leadOver(partsOf(model, few.columns, row), top, 3)
  return moved.reduce((sum, part) => sum + part, 0)
}

/** What each feature adds to the score of each class, for one row. */
function partsOf(model: Model, columns: Float32Array[], row: number): Float64Array {
  const parts = new Float64Array(3 * columns.length)
  const values = Float32Array.from(columns, (column) => column[row]!)
  addScoresWithParts(model, values, 1, new Float64Array(3), parts)
  return parts
}

function leads(model: Model): number[][] {
  const scores = predictScores(model, few.columns)
  return Array.from(few.labels, (_, row) => {
    const own = [...scores.subarray(row * 3, row * 3 + 3)]
    const mean = (own[0]! + own[1]! + own[2]!) / 3
    return own.map((score) => score - mean)
  })
}

test.each([softmax, gbdt, blend])(
  'the parts of a $kind sum up to what tells one row from another',
  (plain) => {
    const model = withExpectations(plain, examples.columns)
    const all = leads(model)
    for (let top = 0; top < 3; top++) {
      // What no feature moves is the same for every row.
      const rest = all.map((lead, row) => lead[top]! - summed(model, row, top))
      for (const value of rest) expect(value).toBeCloseTo(rest[0]!, 9)
    }
  },
)

test('trees expect the mean of the rows: over these the parts of a feature cancel out', () => {
  const model = withExpectations(gbdt, examples.columns)
  let sum = 0
  for (let row = 0; row < examples.labels.length; row++)
    for (const part of leadOver(partsOf(model, examples.columns, row), 0, 3)) sum += part
  expect(Math.abs(sum) / examples.labels.length).toBeLessThan(1e-9)
})

test.each([softmax, gbdt, blend])('a $kind says with reasons what it says without', (plain) => {
  const model = withExpectations(plain, examples.columns)
  const told = predictWithReasons(model, examples.columns)
  expect(told.probabilities).toEqual(predict(model, examples.columns))
  for (const [row, top] of told.tops.entries()) {
    const own = told.probabilities.subarray(row * 3, row * 3 + 3)
    expect(own[top]).toBe(Math.max(...own))
  }
})

test('the three strongest are told, the strongest first; class shares have no reason', () => {
  const { columns, contributions } = predictWithReasons(softmax, few.columns).reasons
  for (let row = 0; row < 40; row++) {
    const [first, second, third] = [...contributions.subarray(row * 3, row * 3 + 3)].map(Math.abs)
    expect(first).toBeGreaterThanOrEqual(second!)
    expect(second).toBeGreaterThanOrEqual(third!)
    expect(new Set(columns.subarray(row * 3, row * 3 + 3)).size).toBe(3)
  }
  const none = predictWithReasons(classSharesOf(examples, 3), few.columns).reasons
  expect([...none.columns]).toEqual(Array(120).fill(-1))
})

test('what trees expect is stored with them', () => {
  const model = withExpectations(blend, examples.columns)
  expect(decodeModel(encodeModel(model))).toEqual(model)
})
