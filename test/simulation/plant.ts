import { execFileSync, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { openProgress } from '../../src/cli/progress.ts'
import { trackerBugs } from '../batch/tracker-bugs.ts'
import { consoleBugs } from '../browser/console-bugs.ts'
import { safetyBugs } from '../platform/safety-bugs.ts'
import { type PlantedBug, plantedBugs } from './planted-bugs.ts'
import { openServer } from './server.ts'

/** `npm run plant`: plants one mistake at a time into a copy of the code; exit 0 only if the campaign finds them all. */
const { values } = parseArgs({
  options: {
    /** A campaign that has not found it by then has missed it. */
    seeds: { type: 'string', default: '190' },
    /** Only those whose name holds this text. */
    only: { type: 'string', default: '' },
    /** Which one of the list to begin with, counted from 1. */
    from: { type: 'string', default: '1' },
    /** How many copies of the code are worked on at once. */
    workers: { type: 'string', default: '1' },
    /** Which mistakes: of billing, found by the campaign; of trackers, safety or the console, found by their tests. */
    list: { type: 'string', default: 'billing' },
    /** Where the summary is written. */
    json: { type: 'string' },
  },
})

type Outcome = {
  readonly name: string
  /** The violation that gave it away, and the seed of the run; null: it was missed. */
  readonly violation: string | null
  readonly seed: number | null
  readonly seconds: number
}

/** Far more than any of these tests takes in healthy code. */
const storyLimitMs = 240_000
const repository = fileURLToPath(new URL('../../', import.meta.url))
const lists: Record<string, readonly PlantedBug[]> = {
  billing: plantedBugs,
  trackers: trackerBugs,
  safety: safetyBugs,
  console: consoleBugs,
}
const planted = lists[values.list]
if (!planted) throw new Error(`--list takes one of ${Object.keys(lists).join(', ')}.`)
const bugs = planted.slice(Number(values.from) - 1).filter(({ name }) => name.includes(values.only))
const waiting = [...bugs]
const outcomes: Outcome[] = []
const copies: string[] = []
const startedAt = performance.now()
const progress = openProgress('mistakes', bugs.length)
for (const bug of bugs) requireFit(bug)
const server = await openServer()
try {
  // Whatever the campaign finds in healthy code would otherwise be taken for the bug.
  const healthy = await findsNothing(copyCode())
  if (!healthy.passed) throw new Error(`The campaign fails without any planted bug:\n${healthy.output}`)
  await Promise.all(Array.from({ length: Number(values.workers) }, (_, at) => work(copies[at] ?? copyCode())))
  progress.end()
  const missed = outcomes.filter(({ violation }) => violation === null)
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  console.log(`${outcomes.length - missed.length} of ${bugs.length} found in ${seconds} s`)
  const passed = missed.length === 0 && bugs.length > 0
  if (values.json !== undefined) {
    const summary = {
      planted: bugs.length,
      missed: missed.map(({ name }) => name),
      seconds,
      passed,
      outcomes,
    }
    writeFileSync(values.json, `${JSON.stringify(summary, null, 2)}\n`)
  }
  process.exitCode = passed ? 0 : 1
} finally {
  await server.close()
  for (const copy of copies) rmSync(copy, { recursive: true, force: true })
}

/** What must hold before anything is planted: the campaign, or the tests that find these mistakes. */
async function findsNothing(copy: string): Promise<Simulated> {
  const stories = new Set(bugs.flatMap(({ story }) => story ?? []))
  const simulated = bugs.filter(({ story }) => story === undefined)
  for (const provider of new Set(simulated.map((bug) => bug.provider))) {
    const healthy = await simulate(copy, provider)
    if (!healthy.passed) return healthy
  }
  if (simulated.length > 0) return { passed: true, violations: [], leaks: [], output: '' }
  if (bugs.some(isOfConsole)) await buildConsole(copy)
  for (const story of stories) {
    const told = await tell(copy, story)
    if (!told.passed) return told
  }
  return { passed: true, violations: [], leaks: [], output: '' }
}

function requireFit({ file, from, name }: PlantedBug): void {
  if (readFileSync(join(repository, file), 'utf8').split(from).length !== 2)
    throw new Error(`"${name}" does not fit ${file} exactly once.`)
}

function copyCode(): string {
  const copy = mkdtempSync(join(tmpdir(), 'rankledger-planted-'))
  copies.push(copy)
  for (const part of [
    'assets',
    'console',
    'docs',
    'src',
    'test',
    'migrations',
    'tools',
    'package.json',
    'tsconfig.json',
    'vitest.config.ts',
  ])
    cpSync(join(repository, part), join(copy, part), { recursive: true })
  symlinkSync(join(repository, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

async function work(copy: string): Promise<void> {
  for (let bug = waiting.shift(); bug; bug = waiting.shift()) {
    const outcome = await campaignFinds(copy, bug)
    outcomes.push(outcome)
    const { name, violation, seed } = outcome
    console.log(violation === null ? `MISSED  ${name}` : `found   ${name}: seed ${seed}, ${violation}`)
    progress.show(outcomes.length)
  }
}

async function campaignFinds(copy: string, bug: PlantedBug): Promise<Outcome> {
  const { file, from, to, name, story, provider } = bug
  const path = join(copy, file)
  const healthy = readFileSync(path, 'utf8')
  const began = performance.now()
  writeFileSync(
    path,
    healthy.replace(from, () => to),
  )
  try {
    if (isOfConsole(bug)) await buildConsole(copy)
    const { passed, violations, leaks, output } = story
      ? await tell(copy, story)
      : await simulate(copy, provider)
    const seconds = Math.round((performance.now() - began) / 1000)
    if (passed) return { name, violation: null, seed: null, seconds }
    const [first] = violations
    // A campaign that could not even run has found nothing.
    if (!first && leaks.length === 0) throw new Error(`"${name}" broke the campaign itself:\n${output}`)
    const violation = first ? `${first.invariant}: ${first.detail}` : `leaks: ${leaks.join(', ')}`
    return { name, violation: violation.slice(0, 160), seed: first?.seed ?? null, seconds }
  } finally {
    writeFileSync(path, healthy)
  }
}

function isOfConsole({ file }: PlantedBug): boolean {
  return file.startsWith('console/')
}

/** Browsers are served what was built. */
async function buildConsole(copy: string): Promise<void> {
  await build(copy, 'console', ['console'])
}

async function build(copy: string, what: string, args: readonly string[]): Promise<void> {
  const vite = join(copy, 'node_modules/vite/bin/vite.js')
  const { code, output } = await run(copy, [vite, 'build', ...args, '--logLevel', 'warn'])
  if (code !== 0) throw new Error(`The ${what} cannot be built:\n${output}`)
}

type Simulated = {
  readonly passed: boolean
  readonly violations: readonly { seed: number; invariant: string; detail: string }[]
  readonly leaks: readonly string[]
  readonly output: string
}

async function simulate(copy: string, provider = 'sandbox'): Promise<Simulated> {
  const json = join(copy, 'simulated.json')
  rmSync(json, { force: true })
  const options = { server: server.url, provider, seeds: values.seeds, failures: '1', tail: '0', json }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value])
  const { output } = await run(copy, ['--import', 'tsx', 'test/simulation/simulate.ts', ...args])
  try {
    return { ...JSON.parse(readFileSync(json, 'utf8')), output }
  } catch {
    return { passed: false, violations: [], leaks: [], output }
  }
}

/** Runs one of the tests instead. The test that fails, or does not come to its end, is what gives the mistake away. */
async function tell(copy: string, story: string): Promise<Simulated> {
  // Some stories start the program itself, which must hold the mistake as well.
  await build(copy, 'server', ['--config', 'tools/server.vite.ts'])
  const vitest = join(copy, 'node_modules/vitest/vitest.mjs')
  const patience = ['--testTimeout=200000', '--hookTimeout=200000', '--teardownTimeout=5000']
  const args = [vitest, 'run', story, '--reporter=json', ...patience]
  const { code, ended, output } = await run(copy, args, storyLimitMs)
  const failed = [...output.matchAll(/"status":"failed","title":"([^"]*)"/g)].map(([, title]) => title!)
  if (!ended) failed.push(`does not end within ${storyLimitMs / 1000} s`)
  const violations = failed.map((detail) => ({ seed: 0, invariant: story, detail }))
  return { passed: code === 0, violations, leaks: [], output }
}

type Ran = { readonly code: number | null; readonly ended: boolean; readonly output: string }

/**
 * Beyond `limitMs` its processes are killed: code that never gives the event loop back stops the test's own time limit
 * too. The one that began them lives on, because it ends the database.
 */
async function run(copy: string, args: readonly string[], limitMs?: number): Promise<Ran> {
  const child = spawn(process.execPath, args, { cwd: copy, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  let ended = true
  const hear = (chunk: Buffer) => {
    output += chunk
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const stop = () => {
    ended = false
    for (const pid of workersOf(child.pid!)) process.kill(pid, 'SIGKILL')
  }
  const limit = limitMs === undefined ? undefined : setTimeout(stop, limitMs)
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  clearTimeout(limit)
  return { code, ended, output }
}

function workersOf(vitest: number): number[] {
  const found = execFileSync('pgrep', ['-P', String(vitest), '-f', 'vitest'], { encoding: 'utf8' })
  return found.trim().split('\n').map(Number)
}
