import { expect, test } from 'vitest'
import { historyOf } from '../../../test/batch/small-history.ts'
import { classOf, fall, hold, horizonFor, labelOf, medianPlace, rise } from './label.ts'

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
  expect(labelOf(history, 0, 1, 2)).toBe(rise)
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
  expect(medianPlace(history, 0, 0, -9)).toBe(9)
  expect(medianPlace(history, 0, 1, -9)).toBe(5)
  expect(medianPlace(history, 0, 2, -9)).toBe(4)
  expect(medianPlace(history, 0, 2, 0)).toBe(2.5)
})
