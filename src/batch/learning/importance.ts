import { createRandom } from './random.ts'

/**
 * What a model owes to each feature: by how much its loss grows once the values of that feature are shuffled among the
 * rows, so that they keep their spread and lose what they say. Below zero it was better off without them.
 */
export function importances(
  columns: readonly Float32Array[],
  lossOf: (columns: Float32Array[]) => number,
  seed: number,
): number[] {
  const loss = lossOf([...columns])
  return columns.map((column, at) => lossOf(columns.with(at, shuffled(column, seed + at))) - loss)
}

function shuffled(column: Float32Array, seed: number): Float32Array {
  const random = createRandom(seed)
  const values = column.slice()
  for (let last = values.length - 1; last > 0; last--) {
    const other = random.below(last + 1)
    ;[values[last], values[other]] = [values[other]!, values[last]!]
  }
  return values
}
