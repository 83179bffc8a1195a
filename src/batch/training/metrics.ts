import { rowLoss } from './loss.ts'
import { createRandom } from './random.ts'

/** How good probabilities were, once it was known what happened. Probabilities stand row after row. */
export type Metrics = {
  examples: number
  logLoss: number
  accuracy: number
  /** One class against the rest, mean over the classes; undefined when a class never, or always, happened. */
  aucOvr: number | undefined
  calibrationError: number
}

export function measure(probabilities: Float64Array, labels: Uint8Array, classes: number): Metrics {
  return {
    examples: labels.length,
    logLoss: logLoss(probabilities, labels, classes),
    accuracy: accuracy(probabilities, labels, classes),
    aucOvr: aucOvr(probabilities, labels, classes),
    calibrationError: calibrationError(probabilities, labels, classes),
  }
}

export function logLoss(probabilities: Float64Array, labels: Uint8Array, classes: number): number {
  return mean(rowLosses(probabilities, labels, classes))
}

export function rowLosses(probabilities: Float64Array, labels: Uint8Array, classes: number): Float64Array {
  return Float64Array.from(labels, (label, row) => rowLoss(probabilities[row * classes + label]!))
}

export function accuracy(probabilities: Float64Array, labels: Uint8Array, classes: number): number {
  let right = 0
  for (const [row, label] of labels.entries()) if (topLabel(probabilities, row, classes) === label) right++
  return right / labels.length
}

export function aucOvr(probabilities: Float64Array, labels: Uint8Array, classes: number): number | undefined {
  let sum = 0
  for (let label = 0; label < classes; label++) {
    const auc = aucOf(probabilities, labels, classes, label)
    if (auc === undefined) return undefined
    sum += auc
  }
  return sum / classes
}

/**
 * Expected calibration error of the most probable class: rows are put into equal-wide bins by that
 * probability, and the gap between mean probability and share of hits is weighed by the rows of the bin.
 */
export function calibrationError(
  probabilities: Float64Array,
  labels: Uint8Array,
  classes: number,
  bins = 10,
): number {
  const gaps = new Float64Array(bins)
  for (const [row, label] of labels.entries()) {
    const top = topLabel(probabilities, row, classes)
    const probability = probabilities[row * classes + top]!
    const bin = Math.min(bins - 1, Math.floor(probability * bins))
    gaps[bin]! += probability - (top === label ? 1 : 0)
  }
  return gaps.reduce((sum, gap) => sum + Math.abs(gap), 0) / labels.length
}

export type PairedDifference = {
  /** Mean of first minus second. */
  difference: number
  /** The middle 90 % of the resampled means. */
  lower: number
  upper: number
}

/**
 * Bootstraps the mean difference of two models' losses on the same rows. Whole groups are drawn, because
 * the rows of one keyword resemble each other and count for less than as many independent rows.
 */
export function pairedBootstrap(
  first: Float64Array,
  second: Float64Array,
  groups: Int32Array,
  seed: number,
  resamples = 1000,
): PairedDifference {
  const { sums, counts } = sumByGroup(first, second, groups)
  const random = createRandom(seed)
  const means = new Float64Array(resamples)
  for (let resample = 0; resample < resamples; resample++) {
    let sum = 0
    let count = 0
    for (let draw = 0; draw < sums.length; draw++) {
      const group = random.below(sums.length)
      sum += sums[group]!
      count += counts[group]!
    }
    means[resample] = sum / count
  }
  means.sort()
  return {
    difference: mean(first) - mean(second),
    lower: means[Math.floor(resamples * 0.05)]!,
    upper: means[Math.ceil(resamples * 0.95) - 1]!,
  }
}

function sumByGroup(first: Float64Array, second: Float64Array, groups: Int32Array) {
  const places = new Map<number, number>()
  const sums: number[] = []
  const counts: number[] = []
  for (const [row, group] of groups.entries()) {
    let place = places.get(group)
    if (place === undefined) {
      place = sums.push(0) - 1
      counts.push(0)
      places.set(group, place)
    }
    sums[place]! += first[row]! - second[row]!
    counts[place]!++
  }
  return { sums: Float64Array.from(sums), counts: Int32Array.from(counts) }
}

/** The probability that a row of the class is ranked above a row of another; ties count half. */
function aucOf(
  probabilities: Float64Array,
  labels: Uint8Array,
  classes: number,
  label: number,
): number | undefined {
  const scores = Float64Array.from(labels, (_, row) => probabilities[row * classes + label]!)
  const order = Array.from(labels.keys()).sort((a, b) => scores[a]! - scores[b]!)
  let positives = 0
  let rankSum = 0
  for (let start = 0; start < order.length; ) {
    let end = start
    let hits = 0
    while (end < order.length && scores[order[end]!] === scores[order[start]!]) {
      if (labels[order[end++]!] === label) hits++
    }
    positives += hits
    rankSum += (hits * (start + 1 + end)) / 2
    start = end
  }
  const negatives = order.length - positives
  if (positives === 0 || negatives === 0) return undefined
  return (rankSum - (positives * (positives + 1)) / 2) / (positives * negatives)
}

function topLabel(probabilities: Float64Array, row: number, classes: number): number {
  let top = 0
  for (let k = 1; k < classes; k++) {
    if (probabilities[row * classes + k]! > probabilities[row * classes + top]!) top = k
  }
  return top
}

function mean(values: Float64Array): number {
  let sum = 0
  for (const value of values) sum += value
  return sum / values.length
}
