import { softmaxRows } from '../models/model.ts'
import { logLoss } from './metrics.ts'

/**
 * The temperature under which scores give the lowest log-loss. Above one says the scores were too sure.
 * The loss has a single valley along the temperature, so a golden-section search finds it.
 */
export function fitTemperature(scores: Float64Array, labels: Uint8Array, classes: number): number {
  const lossAt = (log: number) => lossOfScores(temper(scores, Math.exp(log)), labels, classes)
  return Math.exp(goldenSection(Math.log(COLDEST), Math.log(HOTTEST), lossAt))
}

/** Few rows may ask for any temperature; beyond these it is their noise that asks. */
const COLDEST = 0.5
const HOTTEST = 8

export function temper(scores: Float64Array, temperature: number): Float64Array {
  return scores.map((score) => score / temperature)
}

export function lossOfScores(scores: Float64Array, labels: Uint8Array, classes: number): number {
  const probabilities = scores.slice()
  softmaxRows(probabilities, classes)
  return logLoss(probabilities, labels, classes)
}

const STEPS = 30
const GOLDEN = (Math.sqrt(5) - 1) / 2

/** Where a function with one valley is lowest. The number of steps is fixed, so the answer is, to the bit. */
export function goldenSection(from: number, to: number, valueAt: (place: number) => number): number {
  let [low, high] = [from, to]
  let [left, right] = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
  let [leftValue, rightValue] = [valueAt(left), valueAt(right)]
  for (let step = 0; step < STEPS; step++) {
    if (leftValue <= rightValue) {
      high = right
      right = left
      rightValue = leftValue
      left = high - GOLDEN * (high - low)
      leftValue = valueAt(left)
    } else {
      low = left
      left = right
      leftValue = rightValue
      right = low + GOLDEN * (high - low)
      rightValue = valueAt(right)
    }
  }
  return (low + high) / 2
}
