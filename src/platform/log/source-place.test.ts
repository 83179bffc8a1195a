import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { packageFile, packageFolder } from '../package-files.ts'
import { sourcePlace } from './source-place.ts'

test('a place in a built file is told as the line of the sources that it comes from', () => {
  const parts = packageFile('dist/parts')
  const built = readdirSync(parts).find(
    (name) =>
      name.endsWith('.js') && readFileSync(join(parts, name), 'utf8').includes('function sourcePlace('),
  )!
  const lines = readFileSync(join(parts, built), 'utf8').split('\n')
  const line = lines.findIndex((text) => text.includes('function sourcePlace('))
  const column = lines[line]!.indexOf('sourcePlace')
  const source = readFileSync(packageFile('src/platform/log/source-place.ts'), 'utf8').split('\n')
  const at = source.findIndex((text) => text.includes('function sourcePlace(')) + 1
  expect(sourcePlace(`dist/parts/${built}:${line + 1}:${column + 1}`, packageFolder)).toMatch(
    new RegExp(`^src/platform/log/source-place\\.ts:${at}:\\d+$`),
  )
})

test('a place that no map knows stays as it is', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-place-'))
  try {
    for (const place of ['dist/parts/none.js:1:1', 'src/main.ts:3:4', 'node_modules/pg/lib/client.js:7:7'])
      expect(sourcePlace(place, folder)).toBe(place)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
