import { expect, test } from 'vitest'
import { leaksOf } from './leaks.ts'

test('a million secrets of every kind, spelled and carried in every way, leave no trace', {
  timeout: 600_000,
}, () => {
  expect(leaksOf({}, { count: 1_000_000, seed: 1 })).toEqual([])
})
