import { expect, test } from 'vitest'
import { type Examples, holdOut, rollingSplits, thinDays } from './examples.ts'

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

test('a thinned set has as many rows as asked, all keywords, all days, and days spread evenly', () => {
  const [keywords, days] = [60, 70]
  const rows = Array.from({ length: keywords * days }, (_, row) => row)
  const examples: Examples = {
    columns: [Float32Array.from(rows)],
    labels: new Uint8Array(rows.length),
    days: Int32Array.from(rows, (row) => 20_000 + Math.floor(row / keywords)),
    groups: Int32Array.from(rows, (row) => row % keywords),
  }
  for (const share of [0.9, 0.5, 1 / 7, 0.05]) {
    const thin = thinDays(examples, rows.length * share)
    expect(Math.abs(thin.days.length - rows.length * share)).toBeLessThan(keywords)
    expect(new Set(thin.days).size).toBe(days)
    expect(new Set(thin.groups).size).toBe(keywords)
    expect(Array.from(thin.columns[0]!)).toEqual([...thin.columns[0]!].sort((a, b) => a - b))
    const perDay = Array.from(
      { length: days },
      (_, day) => thin.days.filter((d) => d === 20_000 + day).length,
    )
    expect(Math.max(...perDay) - Math.min(...perDay)).toBeLessThanOrEqual(4)
  }
  expect(thinDays(examples, rows.length)).toBe(examples)
})
