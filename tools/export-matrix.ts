import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Examples, holdOut } from '../src/batch/dataset/examples.ts'
import { examplesOf, featureNames } from '../src/batch/dataset/features.ts'
import { simulateHistory } from './simulate-history.ts'

/**
 * Writes simulated examples as NumPy files, so that other libraries can be measured on what ours is measured on:
 * `npx tsx tools/export-matrix.ts --out DIR [--keywords 5000] [--days 200] [--seed 1]`.
 */
const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    keywords: { type: 'string', default: '5000' },
    days: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
  },
})
if (!values.out) {
  process.stderr.write('Say where to with --out DIR.\n')
  process.exit(2)
}
const horizonDays = 7
const history = simulateHistory({
  keywords: Number(values.keywords),
  days: Number(values.days),
  seed: Number(values.seed),
})
const split = holdOut(examplesOf(history, horizonDays), horizonDays)
if (!split) throw new RangeError('So few days leave nothing to learn from.')
mkdirSync(values.out, { recursive: true })
writeMatrix('train', split.past)
writeMatrix('holdout', split.future)
writeFileSync(join(values.out, 'features.json'), `${JSON.stringify(featureNames)}\n`)
process.stdout.write(
  `${split.past.labels.length} examples to learn from and ${split.future.labels.length} to be judged on, in ${values.out}\n`,
)

/** X as float32, feature after feature; y as class numbers: 0 rise, 1 hold, 2 fall. */
function writeMatrix(name: string, { columns, labels }: Examples): void {
  const bytes = columns.map((column) => Buffer.from(column.buffer, column.byteOffset, column.byteLength))
  writeNumpy(`${name}-x.npy`, '<f4', [labels.length, columns.length], Buffer.concat(bytes))
  writeNumpy(`${name}-y.npy`, '|u1', [labels.length], labels)
}

/** The format of numpy.save, version 1. */
function writeNumpy(file: string, type: string, shape: number[], data: Uint8Array): void {
  const header = `{'descr': '${type}', 'fortran_order': True, 'shape': (${shape.join(', ')},), }`
  const length = Math.ceil((header.length + 11) / 64) * 64
  const head = Buffer.alloc(length, ' ')
  head.write('\x93NUMPY\x01\x00', 0, 'latin1')
  head.writeUInt16LE(length - 10, 8)
  head.write(header, 10, 'latin1')
  head.write('\n', length - 1, 'latin1')
  writeFileSync(join(values.out!, file), Buffer.concat([head, data]))
}
