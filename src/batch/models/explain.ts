import { type Forest, walk } from './forest.ts'
import { type Boosted, gatherRows, type Model, type Softmax, standardise } from './model.ts'

/** The features that moved a prediction most. */
export type Reasons = {
  /** Their columns, `perRow` of them a row, the strongest first; −1 where there are fewer. */
  columns: Int16Array
  /** By how much each raised, or lowered, the score of the predicted class above the mean of all classes. */
  contributions: Float64Array
  perRow: number
}

/**
 * Why each row got its class. Of a regression the parts are exact: weight times distance from the mean row. Of trees
 * they are path contributions (Saabas): each branch adds what it changes in the mean of the leaves below, so that all
 * of them sum up to the leaf. Scores are tempered as in predicting.
 */
export function explain(model: Model, columns: Float32Array[], tops: ArrayLike<number>, perRow = 3): Reasons {
  const rows = columns[0]?.length ?? 0
  const features = columns.length
  const reasons = {
    columns: new Int16Array(rows * perRow).fill(-1),
    contributions: new Float64Array(rows * perRow),
    perRow,
  }
  for (let from = 0; from < rows; from += blockRows) {
    const to = Math.min(from + blockRows, rows)
    const moved = new Float64Array((to - from) * features)
    const own = Uint8Array.from({ length: to - from }, (_, row) => tops[from + row]!)
    addContributions(model, gatherRows(columns, from, to), own, 1, moved)
    for (let row = from; row < to; row++)
      keepStrongest(moved.subarray((row - from) * features, (row - from + 1) * features), row, reasons)
  }
  return reasons
}

/** So many rows, with what moves them, stay in the fast memory while all trees pass over them. */
const blockRows = 256

/**
 * Adds what each feature does to the score of a row's class, named in `tops`, above the mean of the classes' scores.
 * Rows stand one after the other, and so does what moved them.
 */
export function addContributions(
  model: Model,
  block: Float32Array,
  tops: Uint8Array,
  weight: number,
  moved: Float64Array,
): void {
  const share = weight / model.temperature
  switch (model.kind) {
    case 'prior':
      break
    case 'softmax':
      addWeights(model, block, tops, share, moved)
      break
    case 'gbdt':
      addPaths(model, block, tops, share, moved)
      break
    case 'blend':
      for (const [at, part] of model.parts.entries())
        addContributions(part, block, tops, share * model.weights[at]!, moved)
  }
}

/** What a class says counts for a row by this much: its own class against the mean of all. */
function leadOf(label: number, top: number, classes: number): number {
  return (label === top ? 1 : 0) - 1 / classes
}

function addWeights(
  { mean, scale, weights, missing, classes, features }: Softmax,
  block: Float32Array,
  tops: Uint8Array,
  share: number,
  moved: Float64Array,
): void {
  for (let row = 0; row < tops.length; row++) {
    for (let feature = 0; feature < features; feature++) {
      const raw = block[row * features + feature]!
      const known = !Number.isNaN(raw)
      const value = known ? standardise(raw, mean[feature]!, scale[feature]!) : 1
      const by = known ? weights : missing
      for (let label = 0; label < classes; label++)
        moved[row * features + feature]! +=
          share * leadOf(label, tops[row]!, classes) * value * by[label * features + feature]!
    }
  }
}

function addPaths(
  { forest, classes, features, expected = expectedValues(forest, []) }: Boosted,
  block: Float32Array,
  tops: Uint8Array,
  share: number,
  moved: Float64Array,
): void {
  const { roots, feature, threshold, left, right, missingLeft, leaves } = forest
  const step = (from: number, to: number) => (to < 0 ? leaves[~to]! : expected[to]!) - expected[from]!
  const toLeft = Float64Array.from(left, (child, node) => step(node, child))
  const toRight = Float64Array.from(right, (child, node) => step(node, child))
  for (let tree = 0; tree < roots.length; tree++) {
    const label = tree % classes
    const [ofTop, ofOthers] = [share * leadOf(label, label, classes), share * leadOf(label, -1, classes)]
    for (let row = 0, start = 0; row < tops.length; row++, start += features) {
      const lead = tops[row] === label ? ofTop : ofOthers
      for (let node = roots[tree]!; node >= 0; ) {
        const asked = start + feature[node]!
        const value = block[asked]!
        const goesLeft = missingLeft[node] === 1 ? !(value > threshold[node]!) : value <= threshold[node]!
        moved[asked]! += lead * (goesLeft ? toLeft[node]! : toRight[node]!)
        node = goesLeft ? left[node]! : right[node]!
      }
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
