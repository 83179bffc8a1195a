import { expect, test } from 'vitest'
import { openRecentlyCounted } from '../../src/batch/ranks/recently-counted.ts'

const open = () =>
  openRecentlyCounted<string>({ keptMs: 60, most: 3, mostWeight: 10, weigh: (text) => text.length })

test('what was counted is recalled for as long as it counts as recent', () => {
  const recent = open()
  recent.remember('a', 'one', 0)
  expect(recent.recall('a', 59)).toBe('one')
  expect(recent.recall('a', 60)).toBeUndefined()
  expect(recent.recall('b', 0)).toBeUndefined()
})

test('above the number or the weight, what was counted longest ago goes first', () => {
  const recent = open()
  for (const name of ['a', 'b', 'c', 'd']) recent.remember(name, '1', 0)
  expect(['a', 'b', 'c', 'd'].map((name) => recent.recall(name, 0))).toEqual([undefined, '1', '1', '1'])

  recent.remember('b', '12345', 1)
  recent.remember('e', '12345', 1)
  expect(['b', 'c', 'd', 'e'].map((name) => recent.recall(name, 1))).toEqual([
    '12345',
    undefined,
    undefined,
    '12345',
  ])
})

test('counting anew replaces the weight of before, however often', () => {
  const recent = open()
  recent.remember('a', '12345', 0)
  for (let n = 0; n < 100; n++) recent.remember('b', '12345', n)
  expect(recent.recall('a', 0)).toBe('12345')
})

test('what alone is too heavy is not kept, and leaves room for what comes after', () => {
  const recent = open()
  recent.remember('a', '12345678901', 0)
  expect(recent.recall('a', 0)).toBeUndefined()
  recent.remember('b', '1234567890', 0)
  expect(recent.recall('b', 0)).toBe('1234567890')
})
