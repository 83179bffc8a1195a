import { expect, test } from 'vitest'
import { softmaxRows } from '../models/model.ts'
import { fitShare, fitTemperature, lossOfScores, temper } from './calibration.ts'
import { createRandom } from './random.ts'

/** Labels drawn from the probabilities the scores stand for. */
function honestWorld(rows: number) {
  const random = createRandom(5)
  const scores = Float64Array.from({ length: rows * 3 }, () => 3 * random.float() - 1.5)
  const probabilities = scores.slice()
  softmaxRows(probabilities, 3)
  const labels = Uint8Array.from({ length: rows }, (_, row) => {
    const draw = random.float()
    if (draw < probabilities[3 * row]!) return 0
    return draw < probabilities[3 * row]! + probabilities[3 * row + 1]! ? 1 : 2
  })
  return { scores, labels }
}

test('scores that say what they mean keep a temperature of one', () => {
  const { scores, labels } = honestWorld(40_000)
  expect(fitTemperature(scores, labels, 3)).toBeCloseTo(1, 1)
})

test('scores blown up threefold are cooled by three, and lose less for it', () => {
  const { scores, labels } = honestWorld(40_000)
  const boastful = scores.map((score) => 3 * score)
  const temperature = fitTemperature(boastful, labels, 3)
  expect(temperature).toBeGreaterThan(2.8)
  expect(temperature).toBeLessThan(3.2)
  expect(lossOfScores(temper(boastful, temperature), labels, 3)).toBeLessThan(
    lossOfScores(boastful, labels, 3),
  )
})

test('no temperature nearby does better, and none is beyond its bounds', () => {
  const { scores, labels } = honestWorld(5_000)
  const best = fitTemperature(scores, labels, 3)
  const lossAt = (temperature: number) => lossOfScores(scores, labels, 3, temperature)
  for (const away of [0.99, 1.01]) expect(lossAt(best)).toBeLessThan(lossAt(best * away))
  expect(
    fitTemperature(
      scores.map((score) => score / 100),
      labels,
      3,
    ),
  ).toBe(0.5)
  expect(
    fitTemperature(
      scores.map((score) => -score),
      labels,
      3,
    ),
  ).toBe(8)
})

test('a mixture takes from both what they know, and nothing from one that knows nothing', () => {
  const { scores, labels } = honestWorld(20_000)
  const random = createRandom(6)
  const noise = scores.map(() => 4 * random.float() - 2)
  const high = scores.map((score, at) => score + noise[at]!)
  const low = scores.map((score, at) => score - noise[at]!)
  expect(fitShare(high, low, labels, 3)).toBeCloseTo(0.5, 1)
  expect(fitShare(scores, noise, labels, 3)).toBeLessThan(0.05)
  expect(
    fitShare(
      scores.map((score) => -score),
      scores,
      labels,
      3,
    ),
  ).toBeGreaterThan(0.9)
  const best = fitShare(high, low, labels, 3)
  const lossAt = (share: number) =>
    lossOfScores(
      high.map((score, at) => (1 - share) * score + share * low[at]!),
      labels,
      3,
    )
  for (const away of [-0.02, 0.02]) expect(lossAt(best)).toBeLessThan(lossAt(best + away))
})
