import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { median } from '../bench/result.ts'
import type { Examples } from '../src/batch/dataset/examples.ts'
import { logLoss } from '../src/batch/learning/metrics.ts'
import { predict } from '../src/batch/models/model.ts'
import { trainBooster } from '../test/batch/train-booster.ts'

/**
 * Trains one booster of the same size here and in scikit-learn, in turn and each in a fresh process on one thread, on a matrix
 * that export-matrix.ts wrote: `npx tsx tools/compare-with-scikit.ts --matrix DIR [--rounds 50] [--pairs 5] [--nth 1]
 * [--python python3]`. It needs a Python with scikit-learn.
 */
const { values } = parseArgs({
  options: {
    matrix: { type: 'string' },
    rounds: { type: 'string', default: '50' },
    pairs: { type: 'string', default: '5' },
    nth: { type: 'string', default: '1' },
    python: { type: 'string', default: 'python3' },
    alone: { type: 'boolean', default: false },
  },
})
if (!values.matrix) {
  process.stderr.write('Say which matrix with --matrix DIR.\n')
  process.exit(2)
}
type Trained = {
  rows: number
  cpuSeconds: number
  logLoss: number
  /** After as many rounds as suit the hold-out best; only scikit-learn's is told. */
  best?: { logLoss: number; rounds: number }
}
if (values.alone) process.stdout.write(`${JSON.stringify(trainHere())}\n`)
else comparePairs()

function comparePairs(): void {
  const scikit = fileURLToPath(new URL('scikit.py', import.meta.url))
  const own = [...process.execArgv, process.argv[1]!, ...process.argv.slice(2), '--alone']
  const run = (command: string, args: string[]): Trained =>
    JSON.parse(execFileSync(command, args, { encoding: 'utf8' }))
  const ratios: number[] = []
  let best: Trained['best']
  for (let pair = 0; pair < Number(values.pairs); pair++) {
    const ours = run(process.execPath, own)
    const theirs = run(values.python, [scikit, values.matrix!, values.rounds, values.nth])
    ratios.push(ours.cpuSeconds / theirs.cpuSeconds)
    best = theirs.best
    process.stdout.write(
      `${ours.rows} rows: ours ${ours.cpuSeconds.toFixed(2)} CPU s, log-loss ${ours.logLoss.toFixed(5)}; scikit-learn ${theirs.cpuSeconds.toFixed(2)} CPU s, ${theirs.logLoss.toFixed(5)}; ratio ${ratios.at(-1)!.toFixed(2)}\n`,
    )
  }
  process.stdout.write(`median of ${ratios.length} paired ratios: ${median(ratios).toFixed(2)}\n`)
  if (best)
    process.stdout.write(
      `scikit-learn at its best on the hold-out: ${best.logLoss.toFixed(5)} after ${best.rounds} of ${values.rounds} rounds; \`npm run bench -- training\` tells what our ladder comes to on the same rows\n`,
    )
}

function trainHere(): Trained {
  const train = readMatrix('train', Number(values.nth))
  const later = readMatrix('holdout', 1)
  const started = process.cpuUsage()
  const model = trainBooster(train, 3, {
    rounds: Number(values.rounds),
    learningRate: 0.1,
    maxLeaves: 31,
    minLeafRows: 20,
    l2: 0,
    columnSample: 1,
    seed: 1,
  })
  const { user, system } = process.cpuUsage(started)
  const loss = logLoss(predict(model, later.columns), later.labels, 3)
  return { rows: train.labels.length, cpuSeconds: (user + system) / 1e6, logLoss: loss }
}

function readMatrix(name: string, nth: number): Examples {
  const y = numbersOf(`${name}-y.npy`)
  const x = numbersOf(`${name}-x.npy`)
  const values = new Float32Array(x.buffer.slice(x.byteOffset, x.byteOffset + x.byteLength))
  const rows = y.length
  const keep = (_: number, row: number) => row % nth === 0
  const columns = Array.from({ length: values.length / rows }, (_, at) =>
    values.subarray(at * rows, (at + 1) * rows).filter(keep),
  )
  const labels = Uint8Array.from(y).filter(keep)
  return { columns, labels, days: new Int32Array(labels.length), groups: new Int32Array(labels.length) }
}

/** What follows the header of a NumPy file. */
function numbersOf(file: string): Buffer {
  const bytes = readFileSync(join(values.matrix!, file))
  return bytes.subarray(10 + bytes.readUInt16LE(8))
}
