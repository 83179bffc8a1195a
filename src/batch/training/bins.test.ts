import { expect, test } from 'vitest'
import { assignBins, binColumns } from './bins.ts'

test('missing values get bin 0 and few distinct values a bin each', () => {
  const { cuts, columns } = binColumns([Float32Array.of(5, Number.NaN, -1, 5, 3)])
  expect([...columns[0]!]).toEqual([3, 0, 1, 3, 2])
  expect([...cuts[0]!]).toEqual([-1, 3, Infinity])
})

test('many distinct values share 255 bins of nearly equal size', () => {
  const { cuts, columns } = binColumns([Float32Array.from({ length: 25_500 }, (_, row) => row ** 2)])
  const counts = new Array(256).fill(0)
  for (const bin of columns[0]!) counts[bin]++
  expect(cuts[0]).toHaveLength(255)
  expect(counts[0]).toBe(0)
  expect(new Set(counts.slice(1))).toEqual(new Set([100]))
})

test('a value never seen falls into the bin whose upper edge is next above it', () => {
  const { cuts } = binColumns([Float32Array.of(1, 2, 3)])
  expect([...assignBins([Float32Array.of(-9, 1.5, 2, 99, Infinity)], cuts)[0]!]).toEqual([1, 2, 2, 3, 3])
})

test('a feature that is always missing has nothing to split', () => {
  const { cuts, columns } = binColumns([Float32Array.of(Number.NaN, Number.NaN)])
  expect([...columns[0]!]).toEqual([0, 0])
  expect(cuts[0]).toHaveLength(1)
})
