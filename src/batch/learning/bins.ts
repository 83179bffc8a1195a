import type { Kernel } from './kernel.ts'

const maxBins = 255
const rowsForCuts = 200_000
const rowsPerPart = 16_384

/**
 * Where each feature is cut into at most 255 bins, so that a tree looks at 255 places to split instead of every value:
 * the upper edges of bins 1, 2, …, the last of them infinite. Bin 0 holds the missing values.
 *
 * Edges are values that occur, never points between them: a monotone change of a feature's scale then
 * moves edges and values alike and changes no prediction.
 */
export function chooseCuts(column: Float32Array, room = roomForCuts()): Float32Array {
  const sorted = presentValues(column, room).sort()
  const edges = fewValues(sorted) ?? quantiles(sorted)
  return Float32Array.of(...edges.slice(0, -1), Infinity)
}

/** Where the values of a column are sorted; one after the other, columns can share it. */
export function roomForCuts(): Float32Array {
  return new Float32Array(rowsForCuts)
}

/** Every n-th row of a long column is enough to place the edges. */
function presentValues(column: Float32Array, present: Float32Array): Float32Array {
  const step = Math.ceil(column.length / rowsForCuts)
  let count = 0
  for (let row = 0; row < column.length; row += step)
    if (!Number.isNaN(column[row]!)) present[count++] = column[row]!
  return present.subarray(0, count)
}

/** Every value, where each can have a bin of its own. */
function fewValues(sorted: Float32Array): Float32Array | undefined {
  const distinct = new Float32Array(maxBins)
  let count = 0
  for (let at = 0; at < sorted.length; at++) {
    if (at > 0 && sorted[at] === sorted[at - 1]) continue
    if (count === maxBins) return undefined
    distinct[count++] = sorted[at]!
  }
  return distinct.subarray(0, count)
}

function quantiles(sorted: Float32Array): Float32Array {
  const edges = new Float32Array(maxBins)
  for (let bin = 1; bin <= maxBins; bin++) {
    edges[bin - 1] = sorted[Math.ceil((bin * sorted.length) / maxBins) - 1]!
  }
  return edges.filter((value, index) => index === 0 || value !== edges[index - 1])
}

/** The bins of a matrix, twice: row after row (`stride` bytes each) to count them, and column after column to split. */
export type BinMatrix = { binsAt: number; stride: number; columnsAt: number; rows: number }

/** Memory for the values and edges of one column while it is binned. */
export const binningBytes = 4 * (rowsPerPart + maxBins + 1)

/** Bins the rows of some columns, which become the rows of the matrix from `firstRow` on. */
export function assignBins(
  kernel: Kernel,
  columns: Float32Array[],
  cuts: Float32Array[],
  matrix: BinMatrix,
  firstRow: number,
  scratchAt: number,
): void {
  const edgesAt = scratchAt + 4 * rowsPerPart
  const rows = columns[0]?.length ?? 0
  // Part by part, so that a row's bins are all written while it is near.
  for (let from = 0; from < rows; from += rowsPerPart) {
    for (const [feature, column] of columns.entries()) {
      const edges = cuts[feature]!
      new Float32Array(kernel.memory, edgesAt, edges.length).set(edges)
      const part = column.subarray(from, from + rowsPerPart)
      new Float32Array(kernel.memory, scratchAt, part.length).set(part)
      const row = firstRow + from
      kernel.assignBins(
        scratchAt,
        part.length,
        edgesAt,
        edges.length,
        matrix.binsAt + row * matrix.stride + feature,
        matrix.stride,
        matrix.columnsAt + feature * matrix.rows + row,
      )
    }
  }
}
