import { expect, test } from 'vitest'
import { softmaxRows } from '../models/model.ts'
import { fitTemperature, goldenSection, lossOfScores, temper } from './calibration.ts'
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

test('golden section finds the bottom of a valley, also at its border', () => {
  expect(goldenSection(0, 10, (x) => (x - 3.3) ** 2)).toBeCloseTo(3.3, 5)
  expect(goldenSection(0, 1, (x) => x)).toBeCloseTo(0, 5)
})
