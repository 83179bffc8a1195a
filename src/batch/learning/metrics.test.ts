import { expect, test } from 'vitest'
import {
  accuracy,
  aucBetween,
  aucOvr,
  calibrationError,
  confusion,
  logLoss,
  pairedBootstrap,
  reliability,
} from './metrics.ts'

const labels = Uint8Array.of(0, 1, 0, 1)
const probabilities = Float64Array.of(0.8, 0.2, 0.4, 0.6, 0.3, 0.7, 0.1, 0.9)

test('log-loss is the mean surprise', () => {
  const surprises = [0.8, 0.6, 0.3, 0.9].map((probability) => -Math.log(probability))
  expect(logLoss(probabilities, labels, 2)).toBeCloseTo(surprises.reduce((a, b) => a + b) / 4, 12)
})

test('accuracy counts the rows whose most probable class happened', () => {
  expect(accuracy(probabilities, labels, 2)).toBe(0.75)
})

test('the confusion matrix has a row for what happened and a column for what was thought', () => {
  const probabilities = Float64Array.from([0.7, 0.2, 0.1, 0.1, 0.2, 0.7, 0.6, 0.3, 0.1])
  expect(confusion(probabilities, Uint8Array.from([0, 2, 1]), 3)).toEqual([
    [1, 0, 0],
    [1, 0, 0],
    [0, 0, 1],
  ])
})

test('AUC is the share of pairs in the right order, ties counting half', () => {
  expect(aucOvr(probabilities, labels, 2)).toBe(0.75)
  expect(aucOvr(new Float64Array(8).fill(0.5), labels, 2)).toBe(0.5)
  expect(aucOvr(probabilities, Uint8Array.of(0, 0, 0, 0), 2)).toBeUndefined()
})

test('calibration error weighs the gap between promise and hits of each tenth', () => {
  // Top probabilities 0.8, 0.6, 0.7, 0.9: hit, hit, miss, hit, each alone in its tenth.
  expect(calibrationError(probabilities, labels, 2)).toBeCloseTo((0.2 + 0.4 + 0.7 + 0.1) / 4, 12)
  // The same promise four times: three hits of four are what 0.75 promises.
  const steady = Float64Array.from({ length: 8 }, (_, at) => (at % 2 === 0 ? 0.75 : 0.25))
  expect(calibrationError(steady, Uint8Array.of(0, 0, 0, 1), 2)).toBeCloseTo(0, 12)
  expect(calibrationError(Float64Array.of(1, 0), Uint8Array.of(0), 2)).toBe(0)
})

const losses = (rows: number, loss: (row: number) => number) =>
  Float64Array.from({ length: rows }, (_, row) => loss(row))

test('a model that is better on every keyword is better in every resample', () => {
  const groups = Int32Array.from({ length: 400 }, (_, row) => row % 40)
  const better = losses(400, (row) => 1 + (row % 7) / 10)
  const worse = better.map((loss) => loss + 0.1)
  const result = pairedBootstrap(better, worse, groups, 1)
  expect(result.difference).toBeCloseTo(-0.1, 12)
  expect(result.upper).toBeLessThan(0)
  expect(pairedBootstrap(better, worse, groups, 1)).toEqual(result)
})

test('rows of one keyword count together: many rows of few keywords prove little', () => {
  const first = losses(1000, (row) => (row % 20 < 5 ? 1.5 : 0.9))
  const second = losses(1000, () => 1)
  const width = (groups: Int32Array) => {
    const { lower, upper } = pairedBootstrap(first, second, groups, 1)
    return upper! - lower!
  }
  const alone = Int32Array.from(first, (_, row) => row)
  const together = Int32Array.from(first, (_, row) => row % 20)
  expect(width(together)).toBeGreaterThan(2 * width(alone))
})

test('fewer than twenty keywords are not drawn from: the difference itself has to do', () => {
  const loss = losses(400, () => 1)
  const worse = losses(400, () => 1.1)
  const groups = (count: number) => Int32Array.from(loss, (_, row) => row % count)
  expect(pairedBootstrap(worse, loss, groups(19), 1)).toEqual({ difference: expect.closeTo(0.1, 12) })
  expect(pairedBootstrap(worse, loss, groups(20), 1).lower).toBeCloseTo(0.1, 12)
})

test('rise against fall leaves the rows out that held, and how likely a hold was', () => {
  const rows = [
    [0.1, 0.8, 0.1],
    [0.2, 0.1, 0.7],
    [0.3, 0.6, 0.1],
    [0.4, 0.2, 0.4],
  ]
  const given = Float64Array.from(rows.flat())
  expect(aucBetween(given, Uint8Array.of(1, 2, 0, 2), 3, 0, 2)).toBe(1)
  expect(aucBetween(given, Uint8Array.of(1, 0, 2, 2), 3, 0, 2)).toBe(0)
  expect(aucBetween(given, Uint8Array.of(1, 1, 0, 0), 3, 0, 2)).toBeUndefined()
})

test('reliability bins say what was promised and what came, and lose no row', () => {
  const bins = reliability(probabilities, labels, 2)
  expect(bins.map(({ from, to, examples, hitShare }) => [from, to, examples, hitShare])).toEqual([
    [0.6, 0.7, 1, 1],
    [0.7, 0.8, 1, 0],
    [0.8, 0.9, 1, 1],
    [0.9, 1, 1, 1],
  ])
  const spoilt = reliability(Float64Array.of(Number.NaN, Number.NaN), Uint8Array.of(0), 2)
  expect(spoilt).toHaveLength(1)
  expect(calibrationError(Float64Array.of(Number.NaN, Number.NaN), Uint8Array.of(0), 2)).toBeNaN()
})
