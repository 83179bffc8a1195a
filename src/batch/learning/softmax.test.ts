import { expect, test } from 'vitest'
import { readFixture, readReference } from '../../../test/fixtures/rank-classifier/read.ts'
import { type Examples, sliceExamples } from '../dataset/examples.ts'
import { predict } from '../models/model.ts'
import { logLoss } from './metrics.ts'
import { createRandom } from './random.ts'
import { createDesign, softmaxLoss, trainSoftmax } from './softmax.ts'
import { TrainingStopped } from './watch.ts'

const train = readFixture('train')

test('the gradient is the difference of the loss in every weight', () => {
  const design = createDesign(sliceExamples(train, 0, 200))
  const random = createRandom(2)
  const weights = Float64Array.from({ length: 3 * design.width }, () => random.float() - 0.5)
  const { gradient } = softmaxLoss(design, weights, 3, 7)
  const moved = (at: number, by: number) =>
    weights.map((weight, index) => (index === at ? weight + by : weight))
  const step = 1e-5
  for (let at = 0; at < weights.length; at++) {
    const rise =
      softmaxLoss(design, moved(at, step), 3, 7).loss - softmaxLoss(design, moved(at, -step), 3, 7).loss
    expect(gradient[at]).toBeCloseTo(rise / (2 * step), 4)
  }
})

test('it expects each class as often as it happened', () => {
  const examples = sliceExamples(train, 0, 2000)
  const model = trainSoftmax(examples, 3, 10)
  const probabilities = predict(model, examples.columns)
  const shares = [0, 1, 2].map((k) => examples.labels.filter((label) => label === k).length)
  // Where the loss is flat in a bias without penalty, the sum of its gradients is zero.
  for (const [k, count] of shares.entries()) {
    const expected = examples.labels.reduce((sum, _, row) => sum + probabilities[3 * row + k]!, 0)
    expect(Math.abs(expected - count)).toBeLessThan(1)
  }
})

test('it does as well as scikit-learn’s logistic regression', () => {
  const later = readFixture('test')
  const name = Object.keys(readReference()).find((key) => key.includes('LogisticRegression'))!
  const ours = logLoss(predict(trainSoftmax(train, 3, 1), later.columns), later.labels, 3)
  expect(Math.abs(ours - readReference()[name]!.log_loss)).toBeLessThan(0.001)
})

test('that a value is missing is told apart from its being average', () => {
  const labels = Uint8Array.from({ length: 200 }, (_, row) => row % 2)
  const examples: Examples = {
    columns: [Float32Array.from(labels, (label, row) => (label === 1 ? Number.NaN : row % 5))],
    labels,
    days: new Int32Array(200),
    groups: new Int32Array(200),
  }
  const [whenKnown, , , whenMissing] = predict(trainSoftmax(examples, 2, 1), [Float32Array.of(2, Number.NaN)])
  expect(whenKnown).toBeGreaterThan(0.85)
  expect(whenMissing).toBeGreaterThan(0.85)
})

test('a constant feature, or one that repeats another, does no harm', () => {
  const examples = sliceExamples(train, 0, 1000)
  const twice = {
    ...examples,
    columns: [...examples.columns, examples.columns[0]!, new Float32Array(1000).fill(3)],
  }
  expect(predict(trainSoftmax(twice, 3, 0), twice.columns).every(Number.isFinite)).toBe(true)
})

test('it stops when asked', () => {
  expect(() => trainSoftmax(train, 3, 1, { shouldStop: () => true })).toThrow(TrainingStopped)
})
