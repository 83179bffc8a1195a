import { expect, test } from 'vitest'
import { assignBins, binningBytes, chooseCuts } from './bins.ts'
import { openKernel } from './kernel.ts'

/** The bins of a column, as they stand in its rows; its column has to say the same. */
function binsOf(column: Float32Array, cuts: Float32Array): number[] {
  const rows = column.length
  const kernel = openKernel(binningBytes + 5 * rows)
  const matrix = { binsAt: binningBytes, stride: 4, columnsAt: binningBytes + 4 * rows, rows }
  assignBins(kernel, [column], [cuts], matrix, 0, 0)
  const bins = Array.from(column, (_, row) => new Uint8Array(kernel.memory)[matrix.binsAt + 4 * row]!)
  expect(Array.from(new Uint8Array(kernel.memory, matrix.columnsAt, rows))).toEqual(bins)
  return bins
}

test('missing values get bin 0 and few distinct values a bin each', () => {
  const column = Float32Array.of(5, Number.NaN, -1, 5, 3)
  const cuts = chooseCuts(column)
  expect([...cuts]).toEqual([-1, 3, Infinity])
  expect(binsOf(column, cuts)).toEqual([3, 0, 1, 3, 2])
})

test('many distinct values share 255 bins of nearly equal size', () => {
  const column = Float32Array.from({ length: 25_500 }, (_, row) => row ** 2)
  const cuts = chooseCuts(column)
  const counts = new Array(256).fill(0)
  for (const bin of binsOf(column, cuts)) counts[bin]++
  expect(cuts).toHaveLength(255)
  expect(counts[0]).toBe(0)
  expect(new Set(counts.slice(1))).toEqual(new Set([100]))
})

test('a value never seen falls into the bin whose upper edge is next above it', () => {
  const cuts = chooseCuts(Float32Array.of(1, 2, 3))
  expect(binsOf(Float32Array.of(-9, 1.5, 2, 99, Infinity), cuts)).toEqual([1, 2, 2, 3, 3])
})

test('a feature that is always missing has nothing to split', () => {
  const column = Float32Array.of(Number.NaN, Number.NaN)
  expect(chooseCuts(column)).toHaveLength(1)
  expect(binsOf(column, chooseCuts(column))).toEqual([0, 0])
})
