import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { BenchResult } from './result.ts'
import { clearStages } from './stage.ts'

type Kept = BenchResult & { bench: string; commit: string; node: string; cpus: number; arch: string }

/**
 * Measures every promise beside its floor: `npm run bench [-- NAME …] [--small] [--json]`. All of it takes hours, one of
 * them under load; `--keep` writes down each bench as it ends, in `results/latest.json`, with the commit it was measured at.
 */
const folder = fileURLToPath(new URL('.', import.meta.url))
const { values, positionals } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    small: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
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

if (values.small && values.keep) {
  process.stderr.write('Only what was measured at its full size is kept: leave out --small or --keep.\n')
  process.exit(2)
}
if (values.small) process.env['BENCH_SMALL'] = '1'
// Their databases outlive a process that just ends.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => clearStages().finally(() => process.exit(1)))
const results: BenchResult[] = []
try {
  for (const name of all.filter((one) => positionals.length === 0 || positionals.includes(one))) {
    if (!values.json) process.stderr.write(`measuring ${name} …\n`)
    const { bench } = (await import(`./${name}.bench.ts`)) as { bench(): Promise<BenchResult[]> }
    const measured = await bench()
    // What was measured is not lost if a later bench fails.
    if (values.json) for (const one of measured) process.stderr.write(`${JSON.stringify(one)}\n`)
    results.push(...measured)
    if (values.keep) keep(name, measured)
  }
} finally {
  await clearStages()
}

const report = { commit: commit(), node: process.version, cpus: cpus().length, results }
if (values.json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
else printTable()

/** Puts what a bench measured in the place of what it measured before. */
function keep(name: string, measured: readonly BenchResult[]): void {
  const file = `${folder}results/latest.json`
  const kept: Kept[] = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).results : []
  const made = {
    bench: name,
    commit: commit(),
    node: process.version,
    cpus: cpus().length,
    arch: process.arch,
  }
  const now = [...kept.filter(({ bench }) => bench !== name), ...measured.map((one) => ({ ...made, ...one }))]
  mkdirSync(`${folder}results`, { recursive: true })
  const results = now.sort((a, b) => all.indexOf(a.bench) - all.indexOf(b.bench))
  writeFileSync(file, `${JSON.stringify({ results }, null, 2)}\n`)
}

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
