import { softmaxRows } from '../models/model.ts'
import { rowLoss } from './loss.ts'

/**
 * The temperature under which scores give the lowest log-loss. Above one says the scores were too sure.
 * The loss has a single valley along the temperature, so a golden-section search finds it.
 */
export function fitTemperature(scores: Float64Array, labels: Uint8Array, classes: number): number {
  const lossAt = (log: number) => lossOfScores(scores, labels, classes, Math.exp(log))
  return Math.exp(goldenSection(Math.log(COLDEST), Math.log(HOTTEST), lossAt))
}

/** Few rows may ask for any temperature; beyond these it is their noise that asks. */
const COLDEST = 0.5
const HOTTEST = 8

export function temper(scores: Float64Array, temperature: number): Float64Array {
  return scores.map((score) => score / temperature)
}

/** The log-loss of scores under a temperature. A search asks this some thirty times, so nothing is stored on the way. */
export function lossOfScores(
  scores: Float64Array,
  labels: Uint8Array,
  classes: number,
  temperature = 1,
): number {
  const row = new Float64Array(classes)
  let sum = 0
  for (let at = 0; at < labels.length; at++) {
    for (let k = 0; k < classes; k++) row[k] = scores[at * classes + k]! / temperature
    softmaxRows(row, classes)
    sum += rowLoss(row[labels[at]!]!)
  }
  return sum / labels.length
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
