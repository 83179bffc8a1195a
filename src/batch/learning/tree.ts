import { type BinMatrix, binningBytes } from './bins.ts'
import {
  blockBytes,
  countBits,
  featureBytes,
  type Kernel,
  openKernel,
  panelBytes,
  splitBytes,
} from './kernel.ts'
import { gradientBits, hessianBits } from './plain-kernel.ts'
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

/** Everything trees need to grow, laid out once in the kernel's memory and used again for every tree. */
export type Grower = {
  settings: TreeSettings
  kernel: Kernel
  /** Rows to learn from; rows to be judged on stand behind them in every array. */
  learners: number
  /** What the rows to be judged on get of a leaf's value. */
  judgedShare: number
  matrix: BinMatrix
  features: number
  /** Scores stand class after class, `classBytes` apart; probabilities, which are floats, half as far. */
  classBytes: number
  at: Places
  trees: Trees
}

/** Byte addresses. */
type Places = {
  labels: number
  scores: number
  probabilities: number
  /** What each learner adds to a bin. */
  gradients: number
  /** The rows in the order of the leaves: learners first, each leaf a range of them; then the others likewise. */
  rows: number
  spare: number
  /** Rows that are counted are brought together here. */
  block: number
  /** One histogram for each leaf a tree may have. */
  histograms: number
  features: number
  binCounts: number
  split: number
  scratch: number
}

const minHessian = 1e-3

/** Into how many whole steps a gradient, or a hessian, of one is cut. */
const gradientSteps = 2 ** gradientBits
const hessianSteps = 2 ** hessianBits

/** Rows beyond these cannot be counted. */
const mostLearners = 2 ** countBits - 1

export type Shape = {
  learners: number
  judged: number
  judgedShare: number
  cuts: Float32Array[]
  classes: number
  trees: number
}

export function createGrower(shape: Shape, settings: TreeSettings): Grower {
  const { learners, judged, cuts, classes } = shape
  if (learners > mostLearners) throw new RangeError(`no more than ${mostLearners} rows can be learnt from`)
  const features = cuts.length
  const rows = learners + judged
  // Bins and scores are read four at a time.
  const stride = Math.max(4, Math.ceil(features / 4) * 4)
  const classBytes = Math.ceil(rows / 4) * 32

  let bytes = panelBytes
  const place = (size: number) => {
    const at = bytes
    bytes += Math.ceil(size / 64) * 64
    return at
  }
  const matrix = { binsAt: place(rows * stride), stride, columnsAt: place(rows * features), rows }
  const at: Places = {
    labels: place(rows),
    scores: place(classBytes * classes),
    probabilities: place((classBytes / 2) * classes),
    gradients: place(Math.ceil(learners / 4) * 32),
    rows: place(Math.ceil(rows / 4) * 16),
    spare: place(rows * 4),
    block: place(blockBytes(stride)),
    histograms: place(settings.maxLeaves * stride * featureBytes),
    features: place(features * 4),
    binCounts: place(features * 4),
    split: place(splitBytes),
    scratch: place(binningBytes),
  }
  const kernel = openKernel(bytes)
  new Int32Array(kernel.memory, at.binCounts, features).set(cuts.map((edges) => edges.length))
  return {
    settings,
    kernel,
    learners,
    judgedShare: shape.judgedShare,
    matrix,
    features,
    classBytes,
    at,
    trees: emptyTrees(shape.trees, settings.maxLeaves),
  }
}

/** Grows one tree for a class best-first, appends it to the trees and adds it to the scores of all rows. */
export function growTree(grower: Grower, label: number, random: Random): void {
  const { settings, trees } = grower
  const featureCount = drawFeatures(grower, random)
  const leaves = [plantRoot(grower, label, featureCount)]

  while (leaves.length < settings.maxLeaves) {
    const index = mostPromising(leaves)
    if (index < 0) break
    const [left, right] = splitLeaf(grower, leaves[index]!, leaves.length, featureCount)
    leaves[index] = left
    leaves.push(right)
  }

  // A tree has one leaf more than nodes, and so had each tree before it.
  const firstLeaf = trees.nodeEnds[trees.count]! - (leaves.length - 1) + trees.count
  for (const [index, leaf] of leaves.entries()) {
    const value = leafValue(grower, leaf)
    trees.leaves[firstLeaf + index] = value
    hang(trees, leaf, ~(firstLeaf + index))
    addToScores(grower, label, leaf, value)
  }
  trees.count++
}

type Leaf = {
  learners: Range
  judged: Range
  sums: Sums
  histogramAt: number
  /** The node it hangs on, negative for the root, and the side. */
  parent: number
  isLeft: boolean
  split: Split | undefined
}

/** Rows of a leaf: a range of the grower's rows. */
type Range = { start: number; end: number }

/** The sums of a leaf as they stand in a bin: gradients in steps; hessians in steps above the count of rows. */
type Sums = { gradient: bigint; packed: bigint }

type Split = { gain: number; feature: number; cut: number; missingLeft: boolean; left: Sums }

/** The Newton step of the leaf; zero where its rows leave nothing to gain. */
function leafValue({ settings }: Grower, { sums }: Leaf): number {
  const gradient = Number(sums.gradient) / gradientSteps
  const hessian = Number(sums.packed >> BigInt(countBits)) / hessianSteps
  return hessian < minHessian ? 0 : (-settings.learningRate * gradient) / (hessian + settings.l2)
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
function drawFeatures({ kernel, at, features, settings }: Grower, random: Random): number {
  const count = Math.min(features, Math.max(1, Math.ceil(features * settings.columnSample)))
  new Int32Array(kernel.memory, at.features, count).set(sampleSorted(random, features, count))
  return count
}

function plantRoot(grower: Grower, label: number, featureCount: number): Leaf {
  const { kernel, at, trees, learners, matrix, classBytes } = grower
  trees.nodeEnds[trees.count] = trees.count === 0 ? 0 : trees.nodeEnds[trees.count - 1]!
  kernel.numberRows(at.rows, matrix.rows)
  kernel.fillGradients(at.probabilities + (label * classBytes) / 2, at.labels, label, learners, at.gradients)
  const root: Leaf = {
    learners: { start: 0, end: learners },
    judged: { start: learners, end: matrix.rows },
    sums: { gradient: 0n, packed: 0n },
    histogramAt: at.histograms,
    parent: -1,
    isLeft: false,
    split: undefined,
  }
  fillHistogram(grower, root)
  // Every row is in some bin of the first feature.
  const bins = new BigInt64Array(kernel.memory, at.histograms, featureBytes / 8)
  for (let bin = 0; bin < bins.length; bin += 2) {
    root.sums.gradient += bins[bin]!
    root.sums.packed += BigInt.asUintN(64, bins[bin + 1]!)
  }
  root.split = findSplit(grower, root, featureCount)
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

function splitLeaf(grower: Grower, leaf: Leaf, leafCount: number, featureCount: number): [Leaf, Leaf] {
  const split = leaf.split!
  const node = appendNode(grower.trees, leaf, split)
  const learners = partition(grower, leaf.learners, split)
  const judged = partition(grower, leaf.judged, split)
  const left: Leaf = {
    ...leaf,
    learners: { start: leaf.learners.start, end: learners },
    judged: { start: leaf.judged.start, end: judged },
    sums: split.left,
    parent: node,
    isLeft: true,
    split: undefined,
  }
  const right: Leaf = {
    ...left,
    learners: { start: learners, end: leaf.learners.end },
    judged: { start: judged, end: leaf.judged.end },
    sums: {
      gradient: leaf.sums.gradient - split.left.gradient,
      packed: leaf.sums.packed - split.left.packed,
    },
    isLeft: false,
  }
  // Nobody splits the leaves of a full tree, and nobody can split a leaf too small for two.
  const isFull = leafCount + 1 === grower.settings.maxLeaves
  const splittable = [left, right].filter(
    (child) => !isFull && sizeOf(child) >= 2 * grower.settings.minLeafRows,
  )
  if (splittable.length === 0) return [left, right]

  shareHistogram(grower, left, right, leafCount)
  for (const child of splittable) child.split = findSplit(grower, child, featureCount)
  return [left, right]
}

function sizeOf({ learners }: Leaf): number {
  return learners.end - learners.start
}

/** Counts the smaller child only: the larger one is what remains of the parent, in the parent's place. */
function shareHistogram(grower: Grower, left: Leaf, right: Leaf, leafCount: number): void {
  const [smaller, larger] = sizeOf(left) <= sizeOf(right) ? [left, right] : [right, left]
  const bytes = grower.matrix.stride * featureBytes
  smaller.histogramAt = grower.at.histograms + leafCount * bytes
  fillHistogram(grower, smaller)
  grower.kernel.subtractHistogram(larger.histogramAt, smaller.histogramAt, bytes)
}

function fillHistogram({ kernel, at, matrix }: Grower, leaf: Leaf): void {
  kernel.fillHistogram(
    at.rows + 4 * leaf.learners.start,
    sizeOf(leaf),
    matrix.binsAt,
    matrix.stride,
    at.gradients,
    leaf.histogramAt,
    at.block,
  )
}

function findSplit(grower: Grower, { sums, histogramAt }: Leaf, featureCount: number): Split | undefined {
  const { kernel, at, settings } = grower
  const words = new BigInt64Array(kernel.memory, at.split, 6)
  words[0] = sums.gradient
  words[1] = sums.packed
  kernel.findSplit(
    histogramAt,
    at.features,
    featureCount,
    at.binCounts,
    at.split,
    settings.l2 * hessianSteps,
    minHessian * hessianSteps,
    settings.minLeafRows,
  )
  const [feature, cut, missingLeft] = new Int32Array(kernel.memory, at.split + 48, 3)
  if (feature! < 0) return undefined
  const [top, bottom] = new Float64Array(kernel.memory, at.split + 16, 2)
  const gradient = Number(sums.gradient)
  const unsplit =
    (gradient * gradient) / (Number(sums.packed >> BigInt(countBits)) + settings.l2 * hessianSteps)
  return {
    gain: (top! / bottom! - unsplit) * (hessianSteps / (gradientSteps * gradientSteps)),
    feature: feature!,
    cut: cut!,
    missingLeft: missingLeft === 1,
    left: { gradient: words[4]!, packed: BigInt.asUintN(64, words[5]!) },
  }
}

/** Moves the rows that go left before those that go right; both keep their order. */
function partition({ kernel, at, matrix }: Grower, { start, end }: Range, split: Split): number {
  // Without the missing values on the left, bin 0 becomes the highest there is.
  const offset = split.missingLeft ? 0 : 1
  return (
    start +
    kernel.partitionRows(
      at.rows + 4 * start,
      end - start,
      at.spare,
      matrix.columnsAt + split.feature * matrix.rows,
      offset,
      split.cut - offset,
    )
  )
}

function addToScores(
  { kernel, at, classBytes, judgedShare }: Grower,
  label: number,
  { learners, judged }: Leaf,
  value: number,
): void {
  const add = ({ start, end }: Range, part: number) =>
    kernel.addToScores(at.rows + 4 * start, end - start, at.scores + label * classBytes, part)
  add(learners, value)
  add(judged, judgedShare * value)
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
