import { expect, test } from 'vitest'
import { createRandom, sampleSorted } from './random.ts'

const stream = (seed: number) => {
  const random = createRandom(seed)
  return Array.from({ length: 5 }, () => random.float())
}

test('a seed names one stream of numbers, and another seed another', () => {
  expect(stream(7)).toEqual(stream(7))
  expect(stream(7)).not.toEqual(stream(8))
})

test('the numbers are spread evenly over [0, 1)', () => {
  const random = createRandom(1)
  const tenths = new Array(10).fill(0)
  for (let draw = 0; draw < 100_000; draw++) tenths[Math.floor(random.float() * 10)]++
  for (const count of tenths) expect(Math.abs(count - 10_000)).toBeLessThan(500)
})

test('a sample has no repeats, stands in ascending order and stays within its range', () => {
  const sample = [...sampleSorted(createRandom(3), 20, 8)]
  expect(new Set(sample).size).toBe(8)
  expect(sample).toEqual([...sample].sort((a, b) => a - b))
  expect(sample.every((item) => item >= 0 && item < 20)).toBe(true)
  expect([...sampleSorted(createRandom(3), 4, 4)]).toEqual([0, 1, 2, 3])
})
