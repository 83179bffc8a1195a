import { expect, test } from 'vitest'
import { importances } from './importance.ts'

const rows = 400
const telling = Float32Array.from({ length: rows }, (_, row) => row % 2)
const noise = Float32Array.from({ length: rows }, (_, row) => (row * 7919) % 13)
/** Half a unit for each row whose first column does not say what happened. */
const lossOf = (columns: Float32Array[]) =>
  columns[0]!.reduce((sum, value, row) => sum + (value === row % 2 ? 0 : 0.5), 0) / rows

test('a feature that the loss hangs on costs what it tells, and one that nobody reads costs nothing', () => {
  const [first, second] = importances([telling, noise], lossOf, 7)
  // Shuffled, half of the rows are wrong by chance.
  expect(first).toBeGreaterThan(0.2)
  expect(first).toBeLessThan(0.3)
  expect(second).toBe(0)
})

test('the same seed gives the same figures, and the columns stay as they were', () => {
  const before = telling.slice()
  expect(importances([telling, noise], lossOf, 7)).toEqual(importances([telling, noise], lossOf, 7))
  expect(telling).toEqual(before)
})
