import { type Forest, walk } from './forest.ts'
import { addBias, addLinear, type Boosted, gatherRows, type Model, softmaxRows } from './model.ts'

/** The features that moved a prediction most. */
export type Reasons = {
  /** Their columns, `perRow` of them a row, the strongest first; −1 where there are fewer. */
  columns: Int16Array
  /** By how much each raised, or lowered, the score of the predicted class above the mean of all classes. */
  contributions: Float64Array
  perRow: number
}

/** What a model says of some rows: probabilities row after row, the most probable class of each, and why it. */
export type ExplainedPredictions = { probabilities: Float64Array; tops: Uint8Array; reasons: Reasons }

/** Probabilities as `predict` gives them, to the bit, and why each row got its class; in one way through the trees. */
export function predictWithReasons(model: Model, columns: Float32Array[], perRow = 3): ExplainedPredictions {
  const { classes, features } = model
  const rows = columns[0]?.length ?? 0
  const probabilities = new Float64Array(rows * classes)
  const tops = new Uint8Array(rows)
  const reasons = {
    columns: new Int16Array(rows * perRow).fill(-1),
    contributions: new Float64Array(rows * perRow),
    perRow,
  }
  for (let from = 0; from < rows; from += blockRows) {
    const to = Math.min(from + blockRows, rows)
    const own = probabilities.subarray(from * classes, to * classes)
    const parts = new Float64Array((to - from) * classes * features)
    addScoresWithParts(model, gatherRows(columns, from, to), 1, own, parts)
    softmaxRows(own, classes)
    for (let row = from; row < to; row++) {
      const said = own.subarray((row - from) * classes, (row - from + 1) * classes)
      tops[row] = said.indexOf(Math.max(...said))
      const first = (row - from) * classes * features
      const moved = leadOver(parts.subarray(first, first + classes * features), tops[row]!, classes)
      keepStrongest(moved, row, reasons)
    }
  }
  return { probabilities, tops, reasons }
}

/** So many rows, with what moves them, stay in the fast memory while all trees pass over them. */
const blockRows = 256

/** What each feature does to the score of class `top` above the mean of the classes' scores, from its parts of each class's. */
export function leadOver(parts: Float64Array, top: number, classes: number): Float64Array {
  const features = parts.length / classes
  const moved = parts.slice(top * features, (top + 1) * features)
  for (let at = 0; at < parts.length; at++) moved[at % features]! -= parts[at]! / classes
  return moved
}

/**
 * Adds `weight` times the tempered scores of the rows in the block, and each feature's part in them, class by class. Of a
 * regression the parts are exact: weight times distance from the mean row. Of trees they are path contributions
 * (Saabas): each branch adds what it changes in the mean of the leaves below, so that all of them sum up to the leaf.
 */
export function addScoresWithParts(
  model: Model,
  block: Float32Array,
  weight: number,
  scores: Float64Array,
  parts: Float64Array,
): void {
  const share = weight / model.temperature
  switch (model.kind) {
    case 'prior':
      addBias(model.scores, share, scores)
      break
    case 'softmax':
      addBias(model.bias, share, scores)
      addLinear(model, block, share, scores, parts)
      break
    case 'gbdt':
      addBias(model.bias, share, scores)
      addForestWithPaths(model, block, share, scores, parts)
      break
    case 'blend':
      for (const [at, part] of model.parts.entries())
        addScoresWithParts(part, block, share * model.weights[at]!, scores, parts)
  }
}

function addForestWithPaths(
  { forest, classes, features, expected = expectedValues(forest, []) }: Boosted,
  block: Float32Array,
  share: number,
  scores: Float64Array,
  parts: Float64Array,
): void {
  const { roots, feature, threshold, left, right, missingLeft, leaves } = forest
  const step = (from: number, to: number) =>
    share * ((to < 0 ? leaves[~to]! : expected[to]!) - expected[from]!)
  const toLeft = Float64Array.from(left, (child, node) => step(node, child))
  const toRight = Float64Array.from(right, (child, node) => step(node, child))
  for (let tree = 0; tree < roots.length; tree++) {
    const root = roots[tree]!
    let at = tree % classes
    for (let start = 0; start < block.length; start += features, at += classes) {
      let node = root
      while (node >= 0) {
        const asked = feature[node]!
        const value = block[start + asked]!
        if (missingLeft[node] === 1 ? !(value > threshold[node]!) : value <= threshold[node]!) {
          parts[at * features + asked]! += toLeft[node]!
          node = left[node]!
        } else {
          parts[at * features + asked]! += toRight[node]!
          node = right[node]!
        }
      }
      scores[at]! += share * leaves[~node]!
    }
  }
}

/** The mean of the leaves below each branch, weighed by how many of some rows reach them; alike where none does. */
function expectedValues(forest: Forest, columns: Float32Array[]): Float64Array {
  const { roots, left, right, leaves } = forest
  const reached = new Float64Array(leaves.length)
  const values = new Float32Array(columns.length)
  const rows = columns[0]?.length ?? 0
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns.length; column++) values[column] = columns[column]![row]!
    for (let node of roots) {
      while (node >= 0) node = walk(forest, node, values)
      reached[~node]!++
    }
  }
  const expected = new Float64Array(left.length)
  const below = new Float64Array(left.length)
  // Children stand after their parent.
  for (let node = left.length - 1; node >= 0; node--) {
    const [one, other] = [left[node]!, right[node]!]
    const [oneRows, otherRows] = [one, other].map((child) => (child < 0 ? reached[~child]! : below[child]!))
    const [oneValue, otherValue] = [one, other].map((child) =>
      child < 0 ? leaves[~child]! : expected[child]!,
    )
    below[node] = oneRows! + otherRows!
    expected[node] =
      below[node] === 0
        ? (oneValue! + otherValue!) / 2
        : (oneValue! * oneRows! + otherValue! * otherRows!) / below[node]!
  }
  return expected
}

/** The same model, with what its trees expect of some rows, by which its predictions are explained. */
export function withExpectations<M extends Model>(model: M, columns: Float32Array[]): M {
  if (model.kind === 'gbdt') return { ...model, expected: expectedValues(model.forest, columns) }
  if (model.kind === 'blend')
    return { ...model, parts: model.parts.map((part) => withExpectations(part, columns)) }
  return model
}

function keepStrongest(moved: Float64Array, row: number, { columns, contributions, perRow }: Reasons): void {
  for (let place = 0; place < perRow; place++) {
    let strongest = -1
    for (let feature = 0; feature < moved.length; feature++) {
      if (moved[feature] !== 0 && (strongest < 0 || Math.abs(moved[feature]!) > Math.abs(moved[strongest]!)))
        strongest = feature
    }
    if (strongest < 0) return
    columns[row * perRow + place] = strongest
    contributions[row * perRow + place] = moved[strongest]!
    moved[strongest] = 0
  }
}
