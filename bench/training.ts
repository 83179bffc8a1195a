import { predict } from '../src/batch/models/model.ts'
import type { Examples } from '../src/batch/training/examples.ts'
import { type BoosterSettings, trainBooster } from '../src/batch/training/gbdt.ts'
import { createRandom } from '../src/batch/training/random.ts'
import { readFixture } from '../test/fixtures/rank-classifier/read.ts'
import type { BenchResult } from './result.ts'

const ROWS = 75_000
const SCIKIT: BoosterSettings = {
  rounds: 100,
  learningRate: 0.1,
  maxLeaves: 31,
  minLeafRows: 20,
  l2: 0,
  columnSample: 1,
  seed: 1,
}
const MOST_SECONDS = 15
const LEAST_ROWS_PER_SECOND = 50_000

/** Training and scoring at the size of a large workspace, on the one core a worker has. */
export async function bench(): Promise<BenchResult[]> {
  const examples = resample(readFixture('train'), ROWS)
  const training = secondsOf(() => trainBooster(examples, 3, SCIKIT))
  predict(
    training.result,
    examples.columns.map((column) => column.subarray(0, 5000)),
  )
  const scoring = secondsOf(() => predict(training.result, examples.columns))
  const rowsPerSecond = ROWS / scoring.seconds
  return [
    {
      promise: 'training 75,000 × 20 × 3 classes, 100 rounds of 31 leaves, one core',
      unit: 's',
      ours: training.seconds,
      floor: MOST_SECONDS,
      ratio: training.seconds / MOST_SECONDS,
      goal: `under ${MOST_SECONDS} s`,
    },
    {
      promise: 'scoring with the 300 trees so trained, one core',
      unit: 'rows/s',
      ours: rowsPerSecond,
      floor: LEAST_ROWS_PER_SECOND,
      ratio: rowsPerSecond / LEAST_ROWS_PER_SECOND,
      goal: `at least ${LEAST_ROWS_PER_SECOND} rows/s`,
    },
  ]
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

function secondsOf<T>(work: () => T): { result: T; seconds: number } {
  const start = performance.now()
  const result = work()
  return { result, seconds: (performance.now() - start) / 1000 }
}
