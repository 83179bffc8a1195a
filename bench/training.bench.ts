import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { serialize } from 'node:v8'
import type { Examples } from '../src/batch/dataset/examples.ts'
import type { BoosterSettings } from '../src/batch/learning/gbdt.ts'
import { createRandom } from '../src/batch/learning/random.ts'
import { predict } from '../src/batch/models/model.ts'
import { trainBooster } from '../test/batch/train-booster.ts'
import { readFixture } from '../test/fixtures/rank-classifier/read.ts'
import { simulateHistory } from '../tools/simulate-history.ts'
import type { BenchResult } from './result.ts'
import { sized } from './size.ts'

const ROWS = sized(75_000, 5_000)
const SCIKIT: BoosterSettings = {
  rounds: 100,
  learningRate: 0.1,
  maxLeaves: 31,
  minLeafRows: 20,
  l2: 0,
  columnSample: 1,
  seed: 1,
}
const MOST_BOOSTER_SECONDS = 4
const LEAST_ROWS_PER_SECOND = 50_000
/** 5,000 keywords on 200 days: a million checks, of which some fail. */
const LADDER = { keywords: sized(5_000, 200), days: 200, seed: 1 }
const MOST_LADDER_CPU_SECONDS = 100
const MOST_LADDER_SECONDS = 60
const MOST_LADDER_MEGABYTES = 600

/** What a booster costs at the size of a large workspace, and a whole ladder at the size of a large installation. */
export async function bench(): Promise<BenchResult[]> {
  const examples = resample(readFixture('train'), ROWS)
  trainBooster(examples, 3, { ...SCIKIT, rounds: 2 })
  const training = cpuSecondsOf(() => trainBooster(examples, 3, SCIKIT))
  predict(
    training.result,
    examples.columns.map((column) => column.subarray(0, 5000)),
  )
  const scoring = cpuSecondsOf(() => predict(training.result, examples.columns))
  const ladder = await trainLadder()
  const rowsPerSecond = ROWS / scoring.seconds
  const ladderOf = `a whole ladder on ${ladder.ranks.toLocaleString('en')} ranks`
  return [
    atMost(
      'training 75,000 × 20 × 3 classes, 100 rounds of 31 leaves',
      training.seconds,
      MOST_BOOSTER_SECONDS,
      'CPU s',
    ),
    {
      promise: 'scoring with the 300 trees so trained',
      unit: 'rows/CPU s',
      ours: rowsPerSecond,
      floor: LEAST_ROWS_PER_SECOND,
      ratio: rowsPerSecond / LEAST_ROWS_PER_SECOND,
      goal: `at least ${LEAST_ROWS_PER_SECOND} rows/s`,
    },
    atMost(ladderOf, ladder.cpuSeconds, MOST_LADDER_CPU_SECONDS, 'CPU s'),
    atMost(`${ladderOf}, two idle cores`, ladder.seconds, MOST_LADDER_SECONDS, 's'),
    atMost(`${ladderOf}, peak memory`, ladder.peakMegabytes, MOST_LADDER_MEGABYTES, 'MB'),
  ]
}

function atMost(promise: string, ours: number, most: number, unit: string): BenchResult {
  return { promise, unit, ours, floor: most, ratio: ours / most, goal: `at most ${most} ${unit}` }
}

type Ladder = { ranks: number; cpuSeconds: number; seconds: number; peakMegabytes: number }

/** In a process of its own, which has nothing else in memory: what it cost is what that process cost. */
async function trainLadder(): Promise<Ladder> {
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-bench-'))
  try {
    const file = join(folder, 'history')
    writeFileSync(file, serialize(simulateHistory(LADDER)))
    const script = fileURLToPath(new URL('./ladder-process.ts', import.meta.url))
    const child = fork(script, [file], { execArgv: ['--import', 'tsx'] })
    const [ladder] = (await once(child, 'message')) as [Ladder]
    process.stderr.write(`${JSON.stringify(ladder)}\n`)
    return ladder
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Draws rows of the fixture with a little noise on each value, so that no two rows bin alike by accident. */
function resample(examples: Examples, rows: number): Examples {
  const random = createRandom(1)
  const drawn = Int32Array.from({ length: rows }, () => random.below(examples.labels.length)).sort()
  return {
    columns: examples.columns.map((column) =>
      Float32Array.from(drawn, (row) => column[row]! * (1 + 0.02 * (random.float() - 0.5))),
    ),
    labels: Uint8Array.from(drawn, (row) => examples.labels[row]!),
    days: Int32Array.from(drawn, (row) => examples.days[row]!),
    groups: Int32Array.from(drawn, (row) => examples.groups[row]!),
  }
}

function cpuSecondsOf<T>(work: () => T): { result: T; seconds: number } {
  const start = process.cpuUsage()
  const result = work()
  const { user, system } = process.cpuUsage(start)
  return { result, seconds: (user + system) / 1e6 }
}
