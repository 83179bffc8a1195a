import { expect, test } from 'vitest'
import { size } from '../size.ts'
import { leaksOf } from './leaks.ts'

// `npm run secrets` does the same with a million.
test('many secrets of every kind, spelled and carried in every way, leave no trace', () => {
  expect(leaksOf({}, { count: size(10_000, 150_000), seed: 1 })).toEqual([])
})
