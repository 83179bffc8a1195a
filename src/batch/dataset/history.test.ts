import { expect, test } from 'vitest'
import { historyOf, type SmallRank } from '../../../test/batch/small-history.ts'
import { examplesOf, horizonOfHistory } from './features.ts'
import { spanOf } from './history.ts'

const steady = (first: number, days: number): SmallRank[] =>
  Array.from({ length: days }, (_, at) => [first + at, 10 + (at % 5)])
const many = Array.from({ length: 50 }, () => steady(20_000, 8))

test('the span runs from the first to the last day that more than a hundredth of the rows lead up to', () => {
  expect(spanOf(historyOf(many))).toEqual({ firstDay: 20_000, lastDay: 20_007 })
  expect(spanOf(historyOf([]))).toBeUndefined()
  expect(spanOf(historyOf([[[7, 1]]]))).toEqual({ firstDay: 7, lastDay: 7 })
})

test('one stray row of long ago neither makes a short history long nor ends its training', () => {
  const strayed = historyOf([...many, [[11_000, 5]]])
  expect(spanOf(strayed)).toEqual(spanOf(historyOf(many)))
  expect(horizonOfHistory(strayed)).toBe(2)
  expect(examplesOf(strayed, 2)).toEqual(examplesOf(historyOf(many), 2))
})

test('a hundredth of the rows may stray, and not one more', () => {
  // 400 rows: four are strays.
  const strays = (count: number) =>
    historyOf([...many.slice(1), [...steady(11_000, count), ...steady(20_000, 8 - count)]])
  expect(spanOf(strays(4))?.firstDay).toBe(20_000)
  expect(spanOf(strays(5))?.firstDay).toBe(11_004)
})
