import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { BenchResult } from './result.ts'

/** Measures every promise beside its floor: `npm run bench [-- NAME …] [--small] [--json]`. */
const folder = fileURLToPath(new URL('.', import.meta.url))
const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean', default: false }, small: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const all = readdirSync(folder)
  .filter((name) => name.endsWith('.bench.ts'))
  .map((name) => name.slice(0, -'.bench.ts'.length))
const unknown = positionals.filter((name) => !all.includes(name))
if (unknown.length > 0) {
  process.stderr.write(`There is no bench named ${unknown.join(', ')}; choose from ${all.join(', ')}.\n`)
  process.exit(2)
}

if (values.small) process.env['BENCH_SMALL'] = '1'
const results: BenchResult[] = []
for (const name of all.filter((one) => positionals.length === 0 || positionals.includes(one))) {
  if (!values.json) process.stderr.write(`measuring ${name} …\n`)
  const { bench } = (await import(`./${name}.bench.ts`)) as { bench(): Promise<BenchResult[]> }
  const measured = await bench()
  // What was measured is not lost if a later bench fails.
  if (values.json) for (const one of measured) process.stderr.write(`${JSON.stringify(one)}\n`)
  results.push(...measured)
}

const report = { commit: commit(), node: process.version, cpus: cpus().length, results }
// What is kept is a run of everything at its full size.
if (positionals.length === 0 && !values.small) {
  mkdirSync(`${folder}results`, { recursive: true })
  writeFileSync(`${folder}results/latest.json`, `${JSON.stringify(report, null, 2)}\n`)
}
if (values.json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
else printTable()

function printTable(): void {
  const number = (value: number) =>
    value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3)
  const rows = results.map((one) => [
    one.promise,
    number(one.ours),
    number(one.floor),
    one.unit,
    one.ratio.toFixed(2),
    one.goal,
  ])
  const head = ['promise', 'ours', 'floor', 'unit', 'ratio', 'goal']
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]!.length)))
  for (const row of [head, ...rows])
    process.stdout.write(`${row.map((cell, at) => cell.padEnd(widths[at]!)).join('  ')}\n`)
}

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return 'unknown'
  }
}
