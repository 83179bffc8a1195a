import { expect, test } from 'vitest'
import { type Examples, holdOut, rollingSplits } from './examples.ts'

/** Two rows a day. */
function examplesOver(days: number): Examples {
  const rows = Int32Array.from({ length: 2 * days }, (_, row) => row)
  return {
    columns: [Float32Array.from(rows)],
    labels: Uint8Array.from(rows, (row) => row % 2),
    days: rows.map((row) => Math.floor(row / 2)),
    groups: rows,
  }
}

test('the hold-out is the last fifth of the days, and the days its labels could tell of are left out', () => {
  const split = holdOut(examplesOver(100), 7)!
  expect(split.futureFrom).toBe(80)
  expect([...split.future.days]).toEqual([...examplesOver(100).days.subarray(160)])
  expect(split.past.days.at(-1)).toBe(72)
})

test('a short history still holds out one day', () => {
  const split = holdOut(examplesOver(4), 1)!
  expect(split.futureFrom).toBe(3)
  expect(split.past.days.at(-1)).toBe(1)
})

test('a history no longer than the embargo leaves nothing to learn from', () => {
  expect(holdOut(examplesOver(2), 1)).toBeUndefined()
  expect(holdOut(examplesOver(0), 1)).toBeUndefined()
})

test('rolling windows cover the last third, one after the other, each with its own embargo', () => {
  const splits = rollingSplits(examplesOver(90), 5)
  expect(splits.map((split) => split.futureFrom)).toEqual([60, 70, 80])
  expect(splits.map((split) => split.future.days.at(-1))).toEqual([69, 79, 89])
  expect(splits.map((split) => split.past.days.at(-1))).toEqual([54, 64, 74])
})
