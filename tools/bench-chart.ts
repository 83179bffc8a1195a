import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Draws `bench/results/latest.json` into docs/images/bench.svg: `npm run bench-chart`. */
type Result = {
  promise: string
  unit: string
  ours: number
  floor: number
  ratio: number
  goal: string
  commit: string
  cpus: number
  arch: string
}

const from = fileURLToPath(new URL('../bench/results/latest.json', import.meta.url))
const to = fileURLToPath(new URL('../docs/images/bench.svg', import.meta.url))
if (!existsSync(from)) {
  process.stderr.write('There is nothing to draw yet; `npm run bench -- --keep` measures everything first.\n')
  process.exit(1)
}
const { results } = JSON.parse(readFileSync(from, 'utf8')) as { results: Result[] }
const places = new Set(results.map(({ commit, cpus, arch }) => `commit ${commit} on ${cpus} cores (${arch})`))
writeFileSync(to, draw(results, [...places].join(', ')))

function draw(results: readonly Result[], under: string): string {
  const [row, left, wide] = [24, 430, 320]
  const height = 60 + results.length * row
  // Ratios above 2 end at the edge; their figures stand beside them.
  const lengthOf = (ratio: number) => Math.round((Math.min(ratio, 2) / 2) * wide)
  const lines = results.map((one, at) => {
    const y = 44 + at * row
    const figure = `${short(one.ours)} ${one.unit}, ${one.ratio.toFixed(2)} × floor (${one.goal})`
    return [
      `<text x="${left - 8}" y="${y}" text-anchor="end">${escaped(one.promise)}</text>`,
      `<rect x="${left}" y="${y - 11}" width="${lengthOf(one.ratio)}" height="14" rx="2" fill="#3b6ea8"/>`,
      `<text x="${left + wide + 8}" y="${y}">${escaped(figure)}</text>`,
    ].join('')
  })
  const one = left + lengthOf(1)
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="1180" height="${height}" font-family="sans-serif" font-size="12" role="img" aria-label="Each promise beside its floor">`,
    `<rect width="1180" height="${height}" fill="#ffffff"/>`,
    `<text x="${left}" y="20" fill="#555555">each promise beside its floor; the line is the floor itself (${escaped(under)})</text>`,
    ...lines,
    `<line x1="${one}" y1="28" x2="${one}" y2="${height - 12}" stroke="#b23a48" stroke-dasharray="3 3"/>`,
    '</svg>',
    '',
  ].join('\n')
}

function short(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3)
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
