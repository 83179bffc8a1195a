import { softmaxRows } from '../models/model.ts'
import { rowLoss } from './loss.ts'

/** The temperature under which scores give the lowest log-loss. Above one says the scores were too sure. */
export function fitTemperature(scores: Float64Array, labels: Uint8Array, classes: number): number {
  return 1 / bestFactor([1 / HOTTEST, 1 / COLDEST], scores, labels, classes)
}

/** What the second scores have to say in a mixture of both, so that it gives the lowest log-loss: from 0 to 1. */
export function fitShare(
  first: Float64Array,
  second: Float64Array,
  labels: Uint8Array,
  classes: number,
): number {
  const apart = second.map((score, at) => score - first[at]!)
  return bestFactor([0, 1], apart, labels, classes, first)
}

/** Few rows may ask for any temperature; beyond these it is their noise that asks. */
const COLDEST = 0.5
const HOTTEST = 8

export function temper(scores: Float64Array, temperature: number): Float64Array {
  return scores.map((score) => score / temperature)
}

/** The log-loss of scores under a temperature. Nothing is stored on the way. */
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

/**
 * The factor in a range by which scores have to be multiplied, on top of others where there are any, for the lowest
 * log-loss. The loss has a single valley along the factor, and at its bottom the slope is zero: Newton's steps lead
 * there, and where one would leave what is left of the range, halving it does.
 */
function bestFactor(
  [from, to]: [number, number],
  scores: Float64Array,
  labels: Uint8Array,
  classes: number,
  others?: Float64Array,
): number {
  const shapeAt = (factor: number) => shapeOfLoss(factor, scores, labels, classes, others)
  if (shapeAt(from).slope >= 0) return from
  if (shapeAt(to).slope <= 0) return to
  let [low, high] = [from, to]
  let factor = Math.min(1, (low + high) / 2)
  for (let step = 0; step < MOST_STEPS; step++) {
    const { slope, curvature } = shapeAt(factor)
    if (slope > 0) high = factor
    else low = factor
    const aim = factor - slope / curvature
    const next = aim > low && aim < high ? aim : (low + high) / 2
    const isNear = Math.abs(next - factor) < NEAR
    factor = next
    if (isNear) break
  }
  return factor
}

const MOST_STEPS = 50
const NEAR = 1e-9

/** First and second derivative of the summed loss in the factor. */
function shapeOfLoss(
  factor: number,
  scores: Float64Array,
  labels: Uint8Array,
  classes: number,
  others?: Float64Array,
): { slope: number; curvature: number } {
  const row = new Float64Array(classes)
  let slope = 0
  let curvature = 0
  for (let at = 0, start = 0; at < labels.length; at++, start += classes) {
    for (let k = 0; k < classes; k++) row[k] = factor * scores[start + k]! + (others ? others[start + k]! : 0)
    softmaxRows(row, classes)
    let mean = 0
    let square = 0
    for (let k = 0; k < classes; k++) {
      mean += row[k]! * scores[start + k]!
      square += row[k]! * scores[start + k]! ** 2
    }
    slope += mean - scores[start + labels[at]!]!
    curvature += square - mean * mean
  }
  return { slope, curvature }
}
