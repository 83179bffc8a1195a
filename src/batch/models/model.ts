import { addForest, type Forest } from './forest.ts'

/**
 * A trained classifier, as flat arrays. Whatever its kind, it gives each class a score; the probabilities
 * are the softmax of the scores divided by the temperature.
 */
export type Model = Prior | Softmax | Boosted | Blend

type Shape = { classes: number; features: number; temperature: number }

/** Class shares: the same answer for every row. */
export type Prior = Shape & { kind: 'prior'; scores: Float64Array }

/** Softmax regression on standardised features. Weights are class by class, a feature at a time. */
export type Softmax = Shape & {
  kind: 'softmax'
  mean: Float64Array
  scale: Float64Array
  bias: Float64Array
  weights: Float64Array
  /** What a missing value adds in place of weight times value. */
  missing: Float64Array
}

/** Gradient-boosted trees; tree t adds to the score of class t modulo the number of classes. */
export type Boosted = Shape & {
  kind: 'gbdt'
  bias: Float64Array
  forest: Forest
  /** What the leaves below each branch give on the mean; only a model that explains itself has it. */
  expected?: Float64Array
}

/** The weighted mean of the tempered scores of its parts. */
export type Blend = Shape & { kind: 'blend'; weights: Float64Array; parts: Model[] }

/** Standardised values are held within this many standard deviations, so that no outlier rules a score. */
const mostDeviations = 4

const rowsPerBlock = 512

/** Probabilities, row after row, one per class. */
export function predict(model: Model, columns: Float32Array[]): Float64Array {
  const scores = predictScores(model, columns)
  softmaxRows(scores, model.classes)
  return scores
}

/** Tempered scores, row after row, one per class. */
export function predictScores(model: Model, columns: Float32Array[]): Float64Array {
  if (columns.length !== model.features) {
    throw new RangeError(`the model knows ${model.features} features, the rows have ${columns.length}`)
  }
  const rows = columns[0]?.length ?? 0
  const scores = new Float64Array(rows * model.classes)
  for (let from = 0; from < rows; from += rowsPerBlock) {
    const to = Math.min(from + rowsPerBlock, rows)
    const block = gatherRows(columns, from, to)
    addScores(model, block, 1, scores.subarray(from * model.classes, to * model.classes))
  }
  return scores
}

/** Turns scores into probabilities in place, row after row. */
export function softmaxRows(scores: Float64Array, classes: number): void {
  for (let start = 0; start < scores.length; start += classes) {
    let highest = -Infinity
    for (let k = start; k < start + classes; k++) highest = Math.max(highest, scores[k]!)
    let sum = 0
    for (let k = start; k < start + classes; k++) {
      const exponential = Math.exp(scores[k]! - highest)
      scores[k] = exponential
      sum += exponential
    }
    for (let k = start; k < start + classes; k++) scores[k]! /= sum
  }
}

/** Some rows, one after the other. */
export function gatherRows(columns: Float32Array[], from: number, to: number): Float32Array {
  const features = columns.length
  const block = new Float32Array((to - from) * features)
  for (let feature = 0; feature < features; feature++) {
    const column = columns[feature]!
    for (let row = from, at = feature; row < to; row++, at += features) block[at] = column[row]!
  }
  return block
}

/** Adds `weight` times the tempered scores of the rows in the block. */
function addScores(model: Model, block: Float32Array, weight: number, scores: Float64Array): void {
  const share = weight / model.temperature
  switch (model.kind) {
    case 'prior':
      addBias(model.scores, share, scores)
      break
    case 'softmax':
      addBias(model.bias, share, scores)
      addLinear(model, block, share, scores)
      break
    case 'gbdt':
      addBias(model.bias, share, scores)
      addForest(model.forest, block, model.classes, share, scores)
      break
    case 'blend':
      for (const [index, part] of model.parts.entries()) {
        addScores(part, block, share * model.weights[index]!, scores)
      }
  }
}

export function addBias(bias: Float64Array, share: number, scores: Float64Array): void {
  const classes = bias.length
  for (let at = 0; at < scores.length; at++) scores[at]! += share * bias[at % classes]!
}

/** Where `parts` are wanted, what each feature adds to each class of a row is added to them too. */
export function addLinear(
  model: Softmax,
  block: Float32Array,
  share: number,
  scores: Float64Array,
  parts?: Float64Array,
): void {
  const { classes, features, mean, scale, weights, missing } = model
  const rows = scores.length / classes
  for (let row = 0; row < rows; row++) {
    for (let feature = 0; feature < features; feature++) {
      const raw = block[row * features + feature]!
      const known = !Number.isNaN(raw)
      const value = known ? standardise(raw, mean[feature]!, scale[feature]!) : 1
      const by = known ? weights : missing
      for (let k = 0; k < classes; k++) {
        const part = share * value * by[k * features + feature]!
        scores[row * classes + k]! += part
        if (parts) parts[(row * classes + k) * features + feature]! += part
      }
    }
  }
}

export function standardise(raw: number, mean: number, scale: number): number {
  const value = (raw - mean) * scale
  return value > mostDeviations ? mostDeviations : value < -mostDeviations ? -mostDeviations : value
}
