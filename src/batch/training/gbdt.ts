import type { Forest } from '../models/forest.ts'
import type { Boosted } from '../models/model.ts'
import { assignBins, binColumns } from './bins.ts'
import { countClasses, type Examples } from './examples.ts'
import { rowLoss } from './loss.ts'
import { createRandom, type Random } from './random.ts'
import { addLatestTree, createGrower, growTree, type Target, type TreeSettings, type Trees } from './tree.ts'
import { stopIfAsked, type Watch } from './watch.ts'

/**
 * Histogram gradient boosting with softmax loss: each round grows one tree per class on the gradient of the
 * log-loss, and a tree looks for splits in sums per bin instead of in sorted values. Every sum runs in a
 * fixed order and chance comes from the seed, so the same rows and settings give the same bytes.
 */
export type BoosterSettings = TreeSettings & {
  rounds: number
  /** Share of the rows drawn for each round. */
  rowSample: number
  seed: number
}

/** Rows held back by time. Training ends `patience` rounds after their loss was lowest. */
export type Validation = { examples: Examples; patience: number }

export type BoosterRun = {
  /** With every round grown; `firstRounds` cuts it back to the best. */
  model: Boosted
  /** Validation log-loss after 0, 1, 2 … rounds; empty without a validation. */
  losses: number[]
}

export function trainBooster(
  examples: Examples,
  classes: number,
  settings: BoosterSettings,
  watch: Watch = {},
  validation?: Validation,
): BoosterRun {
  const binned = binColumns(examples.columns)
  const bias = logShares(examples.labels, classes)
  const learner = standingOf(binned.columns, examples.labels, bias)
  const judge =
    validation &&
    standingOf(assignBins(validation.examples.columns, binned.cuts), validation.examples.labels, bias)
  const random = createRandom(settings.seed)
  const grower = createGrower(binned, settings.rounds * classes, settings)
  const losses = judge ? [meanLoss(judge)] : []

  let round = 0
  while (round < settings.rounds && !(judge && round - lowest(losses) >= validation.patience)) {
    stopIfAsked(watch)
    const sample = drawRows(examples.labels.length, settings.rowSample, random)
    for (let label = 0; label < classes; label++) {
      growTree(grower, sample, targetOf(learner, label), random)
      addLatestTree(grower.trees, learner.bins, ofClass(learner.scores, label, learner.labels.length))
      if (judge) addLatestTree(grower.trees, judge.bins, ofClass(judge.scores, label, judge.labels.length))
    }
    round++
    refreshProbabilities(learner)
    if (judge) {
      refreshProbabilities(judge)
      losses.push(meanLoss(judge))
    }
    watch.onProgress?.(round / settings.rounds)
  }

  const forest = toForest(grower.trees, binned.cuts)
  const features = examples.columns.length
  return { model: { kind: 'gbdt', classes, features, temperature: 1, bias, forest }, losses }
}

/** The model as it stood after so many rounds. It shares the arrays of the whole one. */
export function firstRounds(model: Boosted, rounds: number): Boosted {
  const roots = model.forest.roots.subarray(0, rounds * model.classes)
  return { ...model, forest: { ...model.forest, roots } }
}

/** The index of the lowest loss, the earliest of equals. */
export function lowest(losses: number[]): number {
  let best = 0
  for (const [index, loss] of losses.entries()) if (loss < losses[best]!) best = index
  return best
}

/** Log of the class shares, each class counted once more than seen so that no share is zero. */
export function logShares(labels: Uint8Array, classes: number): Float64Array {
  return countClasses(labels, classes).map((count) => Math.log((count + 1) / (labels.length + classes)))
}

/** Where the rows stand while trees are added: score and probability, class after class. */
type Standing = {
  bins: Uint8Array[]
  labels: Uint8Array
  scores: Float64Array
  probabilities: Float64Array
}

function standingOf(bins: Uint8Array[], labels: Uint8Array, bias: Float64Array): Standing {
  const rows = labels.length
  const scores = new Float64Array(rows * bias.length)
  for (let k = 0; k < bias.length; k++) scores.fill(bias[k]!, k * rows, (k + 1) * rows)
  const result = { bins, labels, scores, probabilities: new Float64Array(scores.length) }
  refreshProbabilities(result)
  return result
}

function refreshProbabilities({ labels, scores, probabilities }: Standing): void {
  const rows = labels.length
  for (let row = 0; row < rows; row++) {
    let highest = -Infinity
    for (let at = row; at < scores.length; at += rows) if (scores[at]! > highest) highest = scores[at]!
    let sum = 0
    for (let at = row; at < scores.length; at += rows) {
      const exponential = Math.exp(scores[at]! - highest)
      probabilities[at] = exponential
      sum += exponential
    }
    for (let at = row; at < scores.length; at += rows) probabilities[at]! /= sum
  }
}

function meanLoss({ labels, probabilities }: Standing): number {
  const rows = labels.length
  let sum = 0
  for (let row = 0; row < rows; row++) sum += rowLoss(probabilities[labels[row]! * rows + row]!)
  return sum / rows
}

/** Ascending, so that sums over the rows always run in the same order. */
function drawRows(rows: number, share: number, random: Random): Int32Array {
  const sample = new Int32Array(rows)
  let count = 0
  for (let row = 0; row < rows; row++) if (share >= 1 || random.float() < share) sample[count++] = row
  return sample.subarray(0, count)
}

function targetOf({ probabilities, labels }: Standing, label: number): Target {
  return { probabilities: ofClass(probabilities, label, labels.length), labels, label }
}

function ofClass(values: Float64Array, label: number, rows: number): Float64Array {
  return values.subarray(label * rows, (label + 1) * rows)
}

function toForest(trees: Trees, cuts: Float32Array[]): Forest {
  const { count } = trees
  const nodes = count === 0 ? 0 : trees.nodeEnds[count - 1]!
  const feature = trees.feature.slice(0, nodes)
  const threshold = new Float32Array(nodes)
  for (let node = 0; node < nodes; node++) threshold[node] = cuts[feature[node]!]![trees.cut[node]! - 1]!
  return {
    roots: trees.roots.slice(0, count),
    feature,
    threshold,
    left: trees.left.slice(0, nodes),
    right: trees.right.slice(0, nodes),
    missingLeft: trees.missingLeft.slice(0, nodes),
    leaves: trees.leaves.slice(0, nodes + count),
  }
}
