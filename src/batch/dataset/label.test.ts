import { describe, expect, test } from 'vitest'
import { historyOf, type SmallRank } from '../../../test/batch/small-history.ts'
import { createRandom } from '../learning/random.ts'
import type { History } from './history.ts'
import { classOf, fall, hold, horizonFor, medianPlace, moveOf, rise } from './label.ts'

const labelOf = (history: History, series: number, at: number, horizonDays: number) =>
  moveOf(history, series, at, horizonDays)?.label

test.each([
  [1, 1],
  [3, 1],
  [7, 1],
  [8, 2],
  [27, 6],
  [28, 7],
  [400, 7],
])('a history of %i days looks %i days ahead', (spanDays, horizon) => {
  expect(horizonFor(spanDays)).toBe(horizon)
})

test.each([
  [10, 9, hold, 'one place is under 12 %'],
  [8, 7, rise, 'one place is 12.5 %'],
  [8, 9, fall, 'one place is 12.5 %'],
  [25, 22, rise, 'exactly 12 %'],
  [25, 28, fall, 'exactly 12 %'],
  [25, 22.5, hold, 'less than 12 %'],
  [2, 1.5, hold, 'a quarter, but half a place'],
  [1, 2, fall, 'the least move from the top'],
  [50, 50, hold, 'no move'],
])('from %d to %d: class %i, %s', (start, end, label) => {
  expect(classOf(start, end)).toBe(label)
})

test('both ends are medians, so one odd day is no move', () => {
  const steady = historyOf([
    [
      [0, 20],
      [1, 20],
      [2, 3],
      [3, 20],
      [4, 20],
      [5, 20],
      [6, 20],
      [7, 20],
      [8, 20],
      [9, 90],
    ],
  ])
  expect(labelOf(steady, 0, 2, 7)).toBe(hold)
})

test('a label needs a rank at the end of the horizon, and looks no further', () => {
  const history = historyOf([
    [
      [0, 20],
      [1, 10],
      [3, 10],
      [4, 5],
      [9, 5],
    ],
  ])
  expect(labelOf(history, 0, 0, 1)).toBe(rise)
  expect(labelOf(history, 0, 1, 1)).toBeUndefined()
  expect(labelOf(history, 0, 1, 2)).toBe(hold)
  expect(labelOf(history, 0, 1, 3)).toBe(rise)
  expect(labelOf(history, 0, 3, 2)).toBeUndefined()
  expect(labelOf(history, 0, 2, 1)).toBe(rise)
  expect(labelOf(history, 0, 3, 1)).toBeUndefined()
})

test('a rank of another series is no outcome', () => {
  const history = historyOf([[[0, 20]], [[1, 2]]])
  expect(labelOf(history, 0, 0, 1)).toBeUndefined()
})

test('not found counts as the first place beyond the search', () => {
  const history = historyOf([
    [
      [0, 90],
      [1, -101],
    ],
  ])
  expect(labelOf(history, 0, 0, 1)).toBe(fall)
})

test('the median of one, two and three ranks', () => {
  const history = historyOf([
    [
      [0, 9],
      [1, 1],
      [2, 4],
    ],
  ])
  expect(medianPlace(history, 0, 0, [-2, 0], 100)).toBe(9)
  expect(medianPlace(history, 0, 1, [-1, 1], 100)).toBe(5)
  expect(medianPlace(history, 0, 2, [0, 2], 100)).toBe(4)
  expect(medianPlace(history, 0, 2, [1, 2], 100)).toBe(2.5)
  expect(medianPlace(history, 0, 1, [0, 2], 100)).toBe(4)
})

describe('searches of different depth', () => {
  const notIn = (depth: number): [number, number] => [-(depth + 1), depth]
  test.each<
    [string, [place: number, depth: number], [place: number, depth: number], ReturnType<typeof moveOf>]
  >([
    ['not in ten, then 40th', notIn(10), [40, 100], undefined],
    ['40th, then not in ten', [40, 100], notIn(10), undefined],
    ['not in ten, then not in a hundred', notIn(10), notIn(100), { label: hold, ranked: false }],
    ['not in ten, then 5th', notIn(10), [5, 100], { label: rise, ranked: false }],
    ['5th of ten, then 40th of a hundred', [5, 10], [40, 100], { label: fall, ranked: false }],
    ['40th of a hundred, then 5th of ten', [40, 100], [5, 10], { label: rise, ranked: false }],
    ['5th of ten, then not in a hundred', [5, 10], notIn(100), { label: fall, ranked: false }],
    ['8th of ten, then 5th of a hundred', [8, 10], [5, 100], { label: rise, ranked: true }],
    ['40th and 20th of a hundred', [40, 100], [20, 100], { label: rise, ranked: true }],
  ])('%s', (_, [start, startDepth], [end, endDepth], move) => {
    const history = historyOf([
      [
        [0, start, 0, startDepth],
        [1, end, 0, endDepth],
      ],
    ])
    expect(moveOf(history, 0, 0, 1)).toEqual(move)
  })

  test('every other day, of a rank that stands still, are no moves', () => {
    const ranks = Array.from({ length: 40 }, (_, day) =>
      day % 2 === 0 ? ([day, 40, 0, 100] as const) : ([day, -11, 0, 10] as const),
    )
    const history = historyOf([ranks])
    const labels = ranks.map((_, at) => labelOf(history, 0, at, 7))
    expect(labels.filter((label) => label === rise || label === fall)).toEqual([])
  })
})

test('a rank that moves by chance has no direction that its last days would tell', () => {
  const random = createRandom(7)
  const walk = Array.from({ length: 200 }, (): SmallRank[] => {
    let place = 5000
    return Array.from({ length: 60 }, (_, day) => {
      place *= Math.exp(0.3 * (random.float() - 0.5))
      return [day, Math.round(place), 0, 10_000]
    })
  })
  const history = historyOf(walk)
  // The share of falls among the moves after a day on which the rank got worse, or better.
  const shareOfFalls = (worse: boolean) => {
    const counts = [0, 0, 0]
    walk.forEach((ranks, series) => {
      ranks.forEach(([, place], at) => {
        if (at === 0 || place > ranks[at - 1]![1] !== worse) return
        const move = moveOf(history, series, history.starts[series]! + at, 7)
        if (move) counts[move.label]!++
      })
    })
    expect(counts[rise]! + counts[fall]!).toBeGreaterThan(2000)
    return counts[fall]! / (counts[rise]! + counts[fall]!)
  }
  // With a median of the days up to it as the start, the two are 0.27 apart.
  expect(Math.abs(shareOfFalls(true) - shareOfFalls(false))).toBeLessThan(0.2)
})
