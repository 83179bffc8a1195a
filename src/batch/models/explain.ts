import { type Forest, walk } from './forest.ts'
import { type Model, standardise } from './model.ts'

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
  const reasons = {
    columns: new Int16Array(rows * perRow).fill(-1),
    contributions: new Float64Array(rows * perRow),
    perRow,
  }
  const values = new Float32Array(columns.length)
  const moved = new Float64Array(columns.length)
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns.length; column++) values[column] = columns[column]![row]!
    moved.fill(0)
    addContributions(model, values, tops[row]!, 1, moved)
    keepStrongest(moved, row, reasons)
  }
  return reasons
}

/** Adds what each feature does to the score of class `top` above the mean of the classes' scores. */
export function addContributions(
  model: Model,
  values: Float32Array,
  top: number,
  weight: number,
  moved: Float64Array,
): void {
  const share = weight / model.temperature
  const leadOf = (label: number) => share * ((label === top ? 1 : 0) - 1 / model.classes)
  switch (model.kind) {
    case 'prior':
      break
    case 'softmax': {
      const { mean, scale, weights, missing, classes, features } = model
      for (let feature = 0; feature < features; feature++) {
        const known = !Number.isNaN(values[feature]!)
        const value = known ? standardise(values[feature]!, mean[feature]!, scale[feature]!) : 1
        const by = known ? weights : missing
        for (let label = 0; label < classes; label++)
          moved[feature]! += leadOf(label) * value * by[label * features + feature]!
      }
      break
    }
    case 'gbdt': {
      const { forest, classes } = model
      const expected = model.expected ?? expectedValues(forest, [])
      const meanBelow = (node: number) => (node < 0 ? forest.leaves[~node]! : expected[node]!)
      for (let tree = 0; tree < forest.roots.length; tree++) {
        const lead = leadOf(tree % classes)
        for (let node = forest.roots[tree]!; node >= 0; ) {
          const next = walk(forest, node, values)
          moved[forest.feature[node]!]! += lead * (meanBelow(next) - meanBelow(node))
          node = next
        }
      }
      break
    }
    case 'blend':
      for (const [at, part] of model.parts.entries())
        addContributions(part, values, top, share * model.weights[at]!, moved)
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
