import { type Among, countedRows, type Examples } from '../dataset/examples.ts'
import { rowLoss } from './loss.ts'
import { createRandom } from './random.ts'

/** How good probabilities were, once it was known what happened. Probabilities stand row after row. */
export type ClassifierMetrics = {
  examples: number
  logLoss: number
  accuracy: number
  /** One class against the rest, mean over the classes; undefined when a class never, or always, happened. */
  aucOvr: number | undefined
  /** Of a rise and a fall, how often the rise looked more like one; undefined when one of them never happened. */
  aucRiseFall: number | undefined
  calibrationError: number
  reliability: ReliabilityBin[]
  /** Rows by what happened, and within that by the most probable class. */
  confusion: number[][]
}

/** Rows whose most probable class was given a probability in the bin, and how often that class then came. */
export type ReliabilityBin = {
  from: number
  to: number
  examples: number
  meanProbability: number
  hitShare: number
}

export function measure(probabilities: Float64Array, labels: Uint8Array, classes: number): ClassifierMetrics {
  return {
    examples: labels.length,
    logLoss: logLoss(probabilities, labels, classes),
    accuracy: accuracy(probabilities, labels, classes),
    aucOvr: aucOvr(probabilities, labels, classes),
    aucRiseFall: aucBetween(probabilities, labels, classes, 0, classes - 1),
    calibrationError: calibrationError(probabilities, labels, classes),
    reliability: reliability(probabilities, labels, classes),
    confusion: confusion(probabilities, labels, classes),
  }
}

/** Of all rows, or of those that are counted. */
export function logLoss(
  probabilities: Float64Array,
  labels: Uint8Array,
  classes: number,
  counted?: Uint8Array,
): number {
  let sum = 0
  let rows = 0
  for (let row = 0; row < labels.length; row++) {
    if (counted?.[row] === 0) continue
    sum += rowLoss(probabilities[row * classes + labels[row]!]!)
    rows++
  }
  return sum / rows
}

/** The same on those of the rows that count; probabilities are given for all. */
export function logLossAmong(
  among: Among,
  probabilities: Float64Array,
  examples: Examples,
  classes: number,
): number {
  return logLoss(probabilities, examples.labels, classes, countedRows(examples, among))
}

export function rowLosses(probabilities: Float64Array, labels: Uint8Array, classes: number): Float64Array {
  const losses = new Float64Array(labels.length)
  for (let row = 0; row < labels.length; row++)
    losses[row] = rowLoss(probabilities[row * classes + labels[row]!]!)
  return losses
}

export function accuracy(probabilities: Float64Array, labels: Uint8Array, classes: number): number {
  let right = 0
  for (let row = 0; row < labels.length; row++)
    if (topLabel(probabilities, row, classes) === labels[row]) right++
  return right / labels.length
}

export function confusion(probabilities: Float64Array, labels: Uint8Array, classes: number): number[][] {
  const counts = Array.from({ length: classes }, () => new Array<number>(classes).fill(0))
  for (let row = 0; row < labels.length; row++)
    counts[labels[row]!]![topLabel(probabilities, row, classes)]!++
  return counts
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
  return reliability(probabilities, labels, classes, bins).reduce(
    (sum, bin) => sum + (bin.examples * Math.abs(bin.meanProbability - bin.hitShare)) / labels.length,
    0,
  )
}

/** The bins that have rows, from the lowest probability upwards. */
export function reliability(
  probabilities: Float64Array,
  labels: Uint8Array,
  classes: number,
  bins = 10,
): ReliabilityBin[] {
  const sums = Array.from({ length: bins }, () => ({ examples: 0, probability: 0, hits: 0 }))
  for (let row = 0; row < labels.length; row++) {
    const top = topLabel(probabilities, row, classes)
    const probability = probabilities[row * classes + top]!
    // A figure that is not a number belongs nowhere and must not vanish: it spoils the last bin.
    const bin = sums[Math.min(bins - 1, Math.floor(probability * bins))] ?? sums[bins - 1]!
    bin.examples++
    bin.probability += probability
    if (top === labels[row]) bin.hits++
  }
  return sums.flatMap(({ examples, probability, hits }, at) =>
    examples === 0
      ? []
      : [
          {
            from: at / bins,
            to: (at + 1) / bins,
            examples,
            meanProbability: probability / examples,
            hitShare: hits / examples,
          },
        ],
  )
}

export type PairedDifference = {
  /** Mean of first minus second. */
  difference: number
  /** The middle 90 % of the resampled means; absent where there are too few groups to draw from. */
  lower?: number
  upper?: number
}

/** Drawn from fewer keywords than these, resamples tell of those keywords and of nothing else. */
const leastGroups = 20

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
  if (sums.length < leastGroups) return { difference: mean(first) - mean(second) }
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
  for (let row = 0; row < groups.length; row++) {
    const group = groups[row]!
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
  const scoreOf = (row: number) => probabilities[row * classes + label]!
  return auc(
    scoresWhere(labels, (one) => one === label, scoreOf),
    scoresWhere(labels, (one) => one !== label, scoreOf),
  )
}

/** The probability that, of a row of one class and a row of another, the first leans more to the first class. */
export function aucBetween(
  probabilities: Float64Array,
  labels: Uint8Array,
  classes: number,
  one: number,
  other: number,
): number | undefined {
  const scoreOf = (row: number) => {
    const [toOne, toOther] = [probabilities[row * classes + one]!, probabilities[row * classes + other]!]
    return toOne / (toOne + toOther)
  }
  return auc(
    scoresWhere(labels, (label) => label === one, scoreOf),
    scoresWhere(labels, (label) => label === other, scoreOf),
  )
}

/** The scores of the rows with such a label, ascending. */
function scoresWhere(
  labels: Uint8Array,
  isMeant: (label: number) => boolean,
  scoreOf: (row: number) => number,
): Float64Array {
  const scores = new Float64Array(labels.length)
  let count = 0
  for (let row = 0; row < labels.length; row++) if (isMeant(labels[row]!)) scores[count++] = scoreOf(row)
  return scores.subarray(0, count).sort()
}

/** How often a hit has a higher score than a miss; undefined without both. Each is sorted by itself, which needs no comparing function. */
function auc(hits: Float64Array, misses: Float64Array): number | undefined {
  if (hits.length === 0 || misses.length === 0) return undefined
  let below = 0
  let upTo = 0
  let wins = 0
  for (let hit = 0; hit < hits.length; hit++) {
    while (misses[below]! < hits[hit]!) below++
    while (misses[upTo]! <= hits[hit]!) upTo++
    wins += below + upTo
  }
  return wins / (2 * hits.length * misses.length)
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
