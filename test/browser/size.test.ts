import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'

const dist = new URL('../../console/dist/', import.meta.url)
const packed = (name: string) => gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length

test('what the first page loads stays under 240 kB packed, and all of the console under 480 kB', () => {
  const index = readFileSync(new URL('index.html', dist), 'utf8')
  const first = [...index.matchAll(/(?:src|href)="\/console\/(assets\/[^"]+)"/g)].map((match) => match[1]!)
  expect(first.some((name) => name.endsWith('.js')) && first.some((name) => name.endsWith('.css'))).toBe(true)
  const sum = (names: readonly string[]) => names.reduce((total, name) => total + packed(name), 0)
  expect(sum(first)).toBeLessThan(240_000)
  expect(sum(readdirSync(new URL('assets/', dist)).map((name) => `assets/${name}`))).toBeLessThan(480_000)
})
