import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { dirname, join, relative } from 'node:path'

/**
 * The line of the sources that a line of a built file comes from: `dist/parts/app.js:90:7` is nothing a person can open
 * in their editor. Without a map beside the file, the place stays as it is.
 */
export function sourcePlace(place: string, folder: string): string {
  const [, file, line, column] = /^(dist\/.+\.js):(\d+):(\d+)$/.exec(place) ?? []
  const map = file && mapOf(join(folder, file))
  if (!map) return place
  const entry = map.findEntry(Number(line) - 1, Number(column) - 1)
  if (!('originalSource' in entry) || !entry.originalSource) return place
  const source = relative(folder, join(folder, dirname(file), entry.originalSource)).replaceAll('\\', '/')
  return `${source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`
}

// Errors come in bursts from one file; a map takes megabytes, so one is kept.
let kept: { file: string; map: SourceMap | undefined } | undefined

function mapOf(file: string): SourceMap | undefined {
  if (kept?.file !== file) kept = { file, map: readMap(`${file}.map`) }
  return kept.map
}

function readMap(file: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    // An error that is being told must not fail for want of a map.
    return undefined
  }
}
