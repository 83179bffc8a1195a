import { expect, test } from 'vitest'
import { keywordsKept } from './sample.ts'

test.each([
  [0, 1],
  [1000, 1],
  [1001, 2 ** -0.25],
  [1189, 2 ** -0.25],
  [1190, 2 ** -0.5],
  [2000, 0.5],
  [2001, 2 ** -1.25],
  [20_000, 2 ** -4.5],
])('of %i ranks, where 1,000 are read at most, the sample is %f of the keywords', (ranks, share) => {
  expect(keywordsKept(ranks, 1000)).toBe(share)
})
