import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'

const folder = new URL('../bench/', import.meta.url)
const benches = readdirSync(folder).filter((name) => name.endsWith('.bench.ts'))

test('there are benches', () => {
  expect(benches.length).toBeGreaterThan(10)
})

test.each(benches)('%s measures a promise', async (name) => {
  const module = (await import(new URL(name, folder).href)) as Record<string, unknown>
  expect(Object.keys(module)).toEqual(['bench'])
  expect(module['bench']).toBeTypeOf('function')
})
