/**
 * A feature cut into at most 255 bins, so that a tree looks at 255 places to split instead of every value.
 * Bin 0 holds the missing values; bin b holds values in (cuts[b − 2], cuts[b − 1]].
 */
export type Binned = {
  /** Upper edges of bins 1, 2, …; the last is Infinity. */
  cuts: Float32Array[]
  /** The bin of each row, one array per feature. */
  columns: Uint8Array[]
}

const MAX_BINS = 255
const ROWS_FOR_CUTS = 200_000

export function binColumns(columns: Float32Array[]): Binned {
  const cuts = columns.map(chooseCuts)
  return { cuts, columns: assignBins(columns, cuts) }
}

export function assignBins(columns: Float32Array[], cuts: Float32Array[]): Uint8Array[] {
  return columns.map((column, feature) => {
    const edges = cuts[feature]!
    const bins = new Uint8Array(column.length)
    for (let row = 0; row < column.length; row++) {
      const value = column[row]!
      if (!Number.isNaN(value)) bins[row] = binOf(value, edges)
    }
    return bins
  })
}

/**
 * Edges are values that occur, never points between them: a monotone change of a feature's scale then
 * moves edges and values alike and changes no prediction.
 */
function chooseCuts(column: Float32Array): Float32Array {
  const sorted = presentValues(column).sort()
  const distinct = sorted.filter((value, index) => index === 0 || value !== sorted[index - 1])
  const edges = distinct.length <= MAX_BINS ? distinct : quantiles(sorted)
  return Float32Array.of(...edges.slice(0, -1), Infinity)
}

/** Every n-th row of a long column is enough to place the edges. */
function presentValues(column: Float32Array): Float32Array {
  const step = Math.ceil(column.length / ROWS_FOR_CUTS)
  return column.filter((value, row) => row % step === 0 && !Number.isNaN(value))
}

function quantiles(sorted: Float32Array): Float32Array {
  const edges = new Float32Array(MAX_BINS)
  for (let bin = 1; bin <= MAX_BINS; bin++) {
    edges[bin - 1] = sorted[Math.ceil((bin * sorted.length) / MAX_BINS) - 1]!
  }
  return edges.filter((value, index) => index === 0 || value !== edges[index - 1])
}

function binOf(value: number, edges: Float32Array): number {
  let low = 0
  let high = edges.length - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if (value <= edges[middle]!) high = middle
    else low = middle + 1
  }
  return low + 1
}
