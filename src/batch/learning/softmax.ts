import type { Examples } from '../dataset/examples.ts'
import { type Softmax, softmaxRows, standardise } from '../models/model.ts'
import { gradientOf, rowLoss } from './loss.ts'
import { stopIfAsked, type Watch } from './watch.ts'

/**
 * Softmax regression. The curvature of its loss is never more than half the Gram matrix of the rows
 * (Böhning 1992), so one factorisation serves every step and there is no step length to search for.
 */
export function trainSoftmax(examples: Examples, classes: number, l2: number, watch: Watch = {}): Softmax {
  return fitSoftmax(createDesign(examples), classes, l2, watch)
}

/** The same where several penalties are tried on the same rows: what does not depend on the penalty is made once. */
export function fitSoftmax(design: Design, classes: number, l2: number, watch: Watch = {}): Softmax {
  const { width } = design
  const bound = factorise(curvatureBound(design, l2), width)
  let weights = new Float64Array(classes * width)
  /** A little beyond the weights, in the direction they last moved (Nesterov): a quarter of the steps is enough. */
  let point = weights
  let swing = 1
  let loss = Infinity
  for (let step = 0; step < MAX_STEPS; step++) {
    stopIfAsked(watch)
    const here = softmaxLoss(design, point, classes, l2)
    watch.onProgress?.((step + 1) / MAX_STEPS)
    if (here.loss > loss && swing > 1) {
      // It swung too far: back to where it was, without the swing.
      point = weights
      swing = 1
      continue
    }
    if (loss - here.loss < TOLERANCE * here.loss) break
    loss = here.loss
    const next = point.slice()
    for (let at = 0; at < next.length; at += width) {
      const move = solve(bound, width, here.gradient.subarray(at, at + width))
      for (let d = 0; d < width; d++) next[at + d]! -= move[d]!
    }
    const nextSwing = (1 + Math.sqrt(1 + 4 * swing * swing)) / 2
    const further = (swing - 1) / nextSwing
    const before = weights
    point = next.map((weight, at) => weight + further * (weight - before[at]!))
    weights = next
    swing = nextSwing
  }
  return toModel(design, point, classes)
}

const MAX_STEPS = 200
const TOLERANCE = 1e-7

/**
 * What a row looks like to the regression: the standardised features with a missing value at the mean, then
 * a mark for each feature that may be missing, then a one.
 */
export type Design = {
  labels: Uint8Array
  /** What every row looks like, row after row. */
  values: Float64Array
  /** Half the Gram matrix of the rows; its lower triangle, row after row. */
  halfGram: Float64Array
  mean: Float64Array
  scale: Float64Array
  /** Where the mark of a feature stands, or −1 for a feature that was never missing. */
  marks: Int32Array
  width: number
}

export function createDesign(examples: Examples): Design {
  const features = examples.columns.length
  const mean = new Float64Array(features)
  const scale = new Float64Array(features)
  const marks = new Int32Array(features).fill(-1)
  let width = features
  for (const [feature, column] of examples.columns.entries()) {
    const moments = momentsOf(column)
    mean[feature] = moments.mean
    scale[feature] = moments.deviation > 0 ? 1 / moments.deviation : 0
    if (moments.missing > 0) marks[feature] = width++
  }
  const moments = { mean, scale, marks, width: width + 1 }
  const values = valuesOf(examples, moments)
  const halfGram = halfGramOf(values, moments.width)
  return { labels: examples.labels, values, halfGram, ...moments }
}

/** The penalised loss of all rows and its gradient in the weights. */
export function softmaxLoss(
  design: Design,
  weights: Float64Array,
  classes: number,
  l2: number,
): { loss: number; gradient: Float64Array } {
  const { labels, values, width } = design
  const gradient = new Float64Array(weights.length)
  const scores = new Float64Array(classes)
  let loss = 0
  for (let row = 0, at = 0; row < labels.length; row++, at += width) {
    for (let k = 0; k < classes; k++) scores[k] = dot(weights, k * width, values, at, width)
    softmaxRows(scores, classes)
    loss += rowLoss(scores[labels[row]!]!)
    for (let k = 0, to = 0; k < classes; k++, to += width) {
      const slope = gradientOf(scores[k]!, labels[row] === k)
      for (let d = 0; d < width; d++) gradient[to + d]! += slope * values[at + d]!
    }
  }
  for (let at = 0; at < weights.length; at++) {
    if (isBias(at, width)) continue
    loss += (l2 / 2) * weights[at]! ** 2
    gradient[at]! += l2 * weights[at]!
  }
  return { loss, gradient }
}

function isBias(at: number, width: number): boolean {
  return at % width === width - 1
}

function momentsOf(column: Float32Array): { mean: number; deviation: number; missing: number } {
  let count = 0
  let mean = 0
  let squares = 0
  for (const value of column) {
    if (Number.isNaN(value)) continue
    count++
    const away = value - mean
    mean += away / count
    squares += away * (value - mean)
  }
  return { mean, deviation: count > 0 ? Math.sqrt(squares / count) : 0, missing: column.length - count }
}

type Moments = Pick<Design, 'mean' | 'scale' | 'marks' | 'width'>

function valuesOf({ columns, labels }: Examples, { mean, scale, marks, width }: Moments): Float64Array {
  const values = new Float64Array(labels.length * width)
  for (const [feature, column] of columns.entries()) {
    const mark = marks[feature]!
    for (let row = 0, at = 0; row < column.length; row++, at += width) {
      const raw = column[row]!
      const isMissing = Number.isNaN(raw)
      values[at + feature] = isMissing ? 0 : standardise(raw, mean[feature]!, scale[feature]!)
      if (mark >= 0) values[at + mark] = isMissing ? 1 : 0
    }
  }
  for (let at = width - 1; at < values.length; at += width) values[at] = 1
  return values
}

/** Four sums at a time: each addition would otherwise wait for the one before. */
function dot(a: Float64Array, aAt: number, b: Float64Array, bAt: number, length: number): number {
  let first = 0
  let second = 0
  let third = 0
  let fourth = 0
  let d = 0
  for (; d + 4 <= length; d += 4) {
    first += a[aAt + d]! * b[bAt + d]!
    second += a[aAt + d + 1]! * b[bAt + d + 1]!
    third += a[aAt + d + 2]! * b[bAt + d + 2]!
    fourth += a[aAt + d + 3]! * b[bAt + d + 3]!
  }
  for (; d < length; d++) first += a[aAt + d]! * b[bAt + d]!
  return first + second + (third + fourth)
}

function halfGramOf(values: Float64Array, width: number): Float64Array {
  const matrix = new Float64Array(width * width)
  for (let at = 0; at < values.length; at += width) {
    for (let i = 0; i < width; i++) {
      const half = values[at + i]! / 2
      if (half === 0) continue
      for (let j = 0; j <= i; j++) matrix[i * width + j]! += half * values[at + j]!
    }
  }
  return matrix
}

/** Half the Gram matrix plus the penalty. */
function curvatureBound({ halfGram, width }: Design, l2: number): Float64Array {
  const matrix = halfGram.slice()
  for (let i = 0; i < width; i++) matrix[i * width + i]! += isBias(i, width) ? RIDGE : l2 + RIDGE
  return matrix
}

/** Keeps the matrix positive definite when a feature repeats another and nothing is penalised. */
const RIDGE = 1e-6

/** Cholesky, in place: the matrix becomes L of L Lᵀ. */
function factorise(matrix: Float64Array, width: number): Float64Array {
  for (let i = 0; i < width; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = matrix[i * width + j]!
      for (let d = 0; d < j; d++) sum -= matrix[i * width + d]! * matrix[j * width + d]!
      matrix[i * width + j] = i === j ? Math.sqrt(sum) : sum / matrix[j * width + j]!
    }
  }
  return matrix
}

function solve(lower: Float64Array, width: number, right: Float64Array): Float64Array {
  const result = right.slice()
  for (let i = 0; i < width; i++) {
    for (let j = 0; j < i; j++) result[i]! -= lower[i * width + j]! * result[j]!
    result[i]! /= lower[i * width + i]!
  }
  for (let i = width - 1; i >= 0; i--) {
    for (let j = i + 1; j < width; j++) result[i]! -= lower[j * width + i]! * result[j]!
    result[i]! /= lower[i * width + i]!
  }
  return result
}

function toModel(design: Design, weights: Float64Array, classes: number): Softmax {
  const { mean, scale, marks, width } = design
  const features = mean.length
  const model: Softmax = {
    kind: 'softmax',
    classes,
    features,
    temperature: 1,
    mean,
    scale,
    bias: new Float64Array(classes),
    weights: new Float64Array(classes * features),
    missing: new Float64Array(classes * features),
  }
  for (let k = 0; k < classes; k++) {
    model.bias[k] = weights[k * width + width - 1]!
    for (let feature = 0; feature < features; feature++) {
      const mark = marks[feature]!
      model.weights[k * features + feature] = weights[k * width + feature]!
      model.missing[k * features + feature] = mark < 0 ? 0 : weights[k * width + mark]!
    }
  }
  return model
}
