import type { Binned } from './bins.ts'
import { gradientOf, hessianOf } from './loss.ts'
import { type Random, sampleSorted } from './random.ts'

/** What shapes a tree. */
export type TreeSettings = {
  learningRate: number
  maxLeaves: number
  minLeafRows: number
  l2: number
  /** Share of the features a tree may use. */
  columnSample: number
}

/** Trees as they grow: in bins, not yet in thresholds. A negative child, or root, is the leaf ~child. */
export type Trees = {
  roots: Int32Array
  /** Nodes in all trees up to and including this one; there is one leaf more per tree. */
  nodeEnds: Int32Array
  feature: Uint16Array
  cut: Uint8Array
  left: Int32Array
  right: Int32Array
  missingLeft: Uint8Array
  leaves: Float64Array
  count: number
}

/** Everything a tree needs to grow, laid out once and used again for every tree. */
export type Grower = {
  settings: TreeSettings
  columns: Uint8Array[]
  /** Where the bins of each feature begin in a histogram; one entry more than there are features. */
  offsets: Int32Array
  /** One histogram for each leaf a tree may have: gradient, hessian and rows for every bin. */
  histograms: Float64Array[]
  /** The rows of the tree, each leaf a range of them, and their gradients in the same order. */
  rows: Int32Array
  spare: Int32Array
  gradients: Float64Array
  hessians: Float64Array
  trees: Trees
}

/** What a tree is grown on: the probabilities of one class so far, and which rows are of that class. */
export type Target = { probabilities: Float64Array; labels: Uint8Array; label: number }

const SUMS = 3
const MIN_HESSIAN = 1e-3

export function createGrower(binned: Binned, treeCount: number, settings: TreeSettings): Grower {
  const { columns, cuts } = binned
  const rows = columns[0]?.length ?? 0
  const offsets = new Int32Array(cuts.length + 1)
  for (let feature = 0; feature < cuts.length; feature++) {
    offsets[feature + 1] = offsets[feature]! + cuts[feature]!.length + 1
  }
  const bins = offsets[cuts.length]!
  return {
    settings,
    columns,
    offsets,
    histograms: Array.from({ length: settings.maxLeaves }, () => new Float64Array(bins * SUMS)),
    rows: new Int32Array(rows),
    spare: new Int32Array(rows),
    gradients: new Float64Array(rows),
    hessians: new Float64Array(rows),
    trees: emptyTrees(treeCount, settings.maxLeaves),
  }
}

/** Grows one tree best-first on the given rows and appends it to the grower's trees. */
export function growTree(grower: Grower, sample: Int32Array, target: Target, random: Random): void {
  const { settings, trees } = grower
  const features = drawFeatures(grower, random)
  const leaves = [plantRoot(grower, sample, target, features)]

  while (leaves.length < settings.maxLeaves) {
    const index = mostPromising(leaves)
    if (index < 0) break
    const [left, right] = splitLeaf(grower, leaves[index]!, leaves.length, target, features)
    leaves[index] = left
    leaves.push(right)
  }

  // A tree has one leaf more than nodes, and so had each tree before it.
  const firstLeaf = trees.nodeEnds[trees.count]! - (leaves.length - 1) + trees.count
  for (const [index, leaf] of leaves.entries()) {
    trees.leaves[firstLeaf + index] = leafValue(leaf, settings)
    hang(trees, leaf, ~(firstLeaf + index))
  }
  trees.count++
}

/** Adds the latest tree to the scores of all rows, drawn for it or not. */
export function addLatestTree(trees: Trees, columns: Uint8Array[], scores: Float64Array): void {
  const { feature, cut, left, right, missingLeft, leaves } = trees
  const root = trees.roots[trees.count - 1]!
  for (let row = 0; row < scores.length; row++) {
    let node = root
    while (node >= 0) {
      const bin = columns[feature[node]!]![row]!
      const goesLeft = bin === 0 ? missingLeft[node] === 1 : bin <= cut[node]!
      node = goesLeft ? left[node]! : right[node]!
    }
    scores[row]! += leaves[~node]!
  }
}

type Leaf = {
  /** Its rows: a range of the grower's rows. */
  start: number
  end: number
  gradient: number
  hessian: number
  histogram: Float64Array
  /** The node it hangs on, negative for the root, and the side. */
  parent: number
  isLeft: boolean
  split: Split | undefined
}

type Split = {
  gain: number
  feature: number
  cut: number
  missingLeft: boolean
  leftGradient: number
  leftHessian: number
}

/** The Newton step of the leaf; zero where its rows leave nothing to gain. */
function leafValue({ gradient, hessian }: Leaf, { learningRate, l2 }: TreeSettings): number {
  return (-learningRate * gradient) / (hessian + l2 + Number.EPSILON)
}

function emptyTrees(treeCount: number, maxLeaves: number): Trees {
  const nodes = treeCount * (maxLeaves - 1)
  return {
    roots: new Int32Array(treeCount),
    nodeEnds: new Int32Array(treeCount),
    feature: new Uint16Array(nodes),
    cut: new Uint8Array(nodes),
    left: new Int32Array(nodes),
    right: new Int32Array(nodes),
    missingLeft: new Uint8Array(nodes),
    leaves: new Float64Array(treeCount * maxLeaves),
    count: 0,
  }
}

/** Ascending, so that a tie between two features always falls to the same one. */
function drawFeatures({ columns, settings }: Grower, random: Random): Int32Array {
  const count = Math.max(1, Math.ceil(columns.length * settings.columnSample))
  return sampleSorted(random, columns.length, Math.min(count, columns.length))
}

function plantRoot(grower: Grower, sample: Int32Array, target: Target, features: Int32Array): Leaf {
  const { trees, rows, gradients, hessians } = grower
  trees.nodeEnds[trees.count] = trees.count === 0 ? 0 : trees.nodeEnds[trees.count - 1]!
  rows.set(sample)
  const root: Leaf = {
    start: 0,
    end: sample.length,
    gradient: 0,
    hessian: 0,
    histogram: grower.histograms[0]!,
    parent: -1,
    isLeft: false,
    split: undefined,
  }
  fillHistogram(grower, root, target, features)
  for (let i = 0; i < sample.length; i++) {
    root.gradient += gradients[i]!
    root.hessian += hessians[i]!
  }
  root.split = findSplit(grower, root, features)
  return root
}

function mostPromising(leaves: Leaf[]): number {
  let best = -1
  let gain = 0
  for (const [index, { split }] of leaves.entries()) {
    if (split && split.gain > gain) {
      best = index
      gain = split.gain
    }
  }
  return best
}

function splitLeaf(
  grower: Grower,
  leaf: Leaf,
  leafCount: number,
  target: Target,
  features: Int32Array,
): [Leaf, Leaf] {
  const split = leaf.split!
  const node = appendNode(grower.trees, leaf, split)
  const middle = partition(grower, leaf, split)
  const left: Leaf = {
    ...leaf,
    end: middle,
    gradient: split.leftGradient,
    hessian: split.leftHessian,
    parent: node,
    isLeft: true,
    split: undefined,
  }
  const right: Leaf = {
    ...left,
    start: middle,
    end: leaf.end,
    gradient: leaf.gradient - split.leftGradient,
    hessian: leaf.hessian - split.leftHessian,
    isLeft: false,
  }
  // Nobody splits the leaves of a full tree, and nobody can split a leaf too small for two.
  const isFull = leafCount + 1 === grower.settings.maxLeaves
  const splittable = [left, right].filter(
    (child) => !isFull && child.end - child.start >= 2 * grower.settings.minLeafRows,
  )
  if (splittable.length === 0) return [left, right]

  shareHistogram(grower, left, right, grower.histograms[leafCount]!, target, features)
  for (const child of splittable) child.split = findSplit(grower, child, features)
  return [left, right]
}

/** Counts the smaller child only: the larger one is what remains of the parent, in the parent's place. */
function shareHistogram(
  grower: Grower,
  left: Leaf,
  right: Leaf,
  fresh: Float64Array,
  target: Target,
  features: Int32Array,
): void {
  const [smaller, larger] = left.end - left.start <= right.end - right.start ? [left, right] : [right, left]
  smaller.histogram = fresh
  fillHistogram(grower, smaller, target, features)
  const remaining = larger.histogram
  for (let at = 0; at < remaining.length; at++) remaining[at]! -= fresh[at]!
}

function fillHistogram(grower: Grower, leaf: Leaf, target: Target, features: Int32Array): void {
  const { columns, offsets, rows, gradients, hessians } = grower
  const { probabilities, labels, label } = target
  const { start, end, histogram } = leaf
  for (let i = start; i < end; i++) {
    const row = rows[i]!
    const probability = probabilities[row]!
    gradients[i] = gradientOf(probability, labels[row] === label)
    hessians[i] = hessianOf(probability)
  }
  histogram.fill(0)
  for (const feature of features) {
    addColumn(columns[feature]!, offsets[feature]! * SUMS, rows, gradients, hessians, start, end, histogram)
  }
}

/** The innermost loop of the training: nearly all of its time is spent here. */
function addColumn(
  column: Uint8Array,
  base: number,
  rows: Int32Array,
  gradients: Float64Array,
  hessians: Float64Array,
  start: number,
  end: number,
  histogram: Float64Array,
): void {
  for (let i = start; i < end; i++) {
    const at = base + SUMS * column[rows[i]!]!
    histogram[at]! += gradients[i]!
    histogram[at + 1]! += hessians[i]!
    histogram[at + 2]! += 1
  }
}

function findSplit(grower: Grower, leaf: Leaf, features: Int32Array): Split | undefined {
  const best: Split = { gain: 0, feature: -1, cut: 0, missingLeft: false, leftGradient: 0, leftHessian: 0 }
  for (const feature of features) {
    const first = grower.offsets[feature]! * SUMS
    scanCuts(grower, leaf, feature, false, best)
    if (leaf.histogram[first + 2]! > 0) scanCuts(grower, leaf, feature, true, best)
  }
  return best.feature < 0 ? undefined : best
}

/** Tries every cut of a feature with the missing values on one side, and keeps the best in `best`. */
function scanCuts(grower: Grower, leaf: Leaf, feature: number, missingLeft: boolean, best: Split): void {
  const { l2, minLeafRows } = grower.settings
  const { gradient, hessian, histogram } = leaf
  const rows = leaf.end - leaf.start
  const missing = grower.offsets[feature]! * SUMS
  const end = grower.offsets[feature + 1]! * SUMS
  const unsplit = (gradient * gradient) / (hessian + l2)
  let leftGradient = missingLeft ? histogram[missing]! : 0
  let leftHessian = missingLeft ? histogram[missing + 1]! : 0
  let leftRows = missingLeft ? histogram[missing + 2]! : 0

  for (let at = missing + SUMS, cut = 1; at < end; at += SUMS, cut++) {
    if (histogram[at + 2] === 0) continue
    leftGradient += histogram[at]!
    leftHessian += histogram[at + 1]!
    leftRows += histogram[at + 2]!
    if (leftRows < minLeafRows || leftHessian < MIN_HESSIAN) continue
    const rightHessian = hessian - leftHessian
    if (rows - leftRows < minLeafRows || rightHessian < MIN_HESSIAN) break
    const rightGradient = gradient - leftGradient
    const gain =
      (leftGradient * leftGradient) / (leftHessian + l2) +
      (rightGradient * rightGradient) / (rightHessian + l2) -
      unsplit
    if (gain <= best.gain) continue
    best.gain = gain
    best.feature = feature
    best.cut = cut
    best.leftGradient = leftGradient
    best.leftHessian = leftHessian
    // Where no row was missing, a missing value later follows the many.
    best.missingLeft = histogram[missing + 2]! > 0 ? missingLeft : 2 * leftRows > rows
  }
}

/** Moves the rows that go left before those that go right; both keep their order. */
function partition(grower: Grower, leaf: Leaf, split: Split): number {
  const { rows, spare } = grower
  const column = grower.columns[split.feature]!
  let left = leaf.start
  let right = 0
  for (let i = leaf.start; i < leaf.end; i++) {
    const row = rows[i]!
    const bin = column[row]!
    if (bin === 0 ? split.missingLeft : bin <= split.cut) rows[left++] = row
    else spare[right++] = row
  }
  rows.set(spare.subarray(0, right), left)
  return left
}

function appendNode(trees: Trees, leaf: Leaf, split: Split): number {
  const node = trees.nodeEnds[trees.count]!++
  trees.feature[node] = split.feature
  trees.cut[node] = split.cut
  trees.missingLeft[node] = split.missingLeft ? 1 : 0
  hang(trees, leaf, node)
  return node
}

function hang(trees: Trees, { parent, isLeft }: Leaf, child: number): void {
  if (parent < 0) trees.roots[trees.count] = child
  else if (isLeft) trees.left[parent] = child
  else trees.right[parent] = child
}
