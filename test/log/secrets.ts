import { parseArgs } from 'node:util'
import { openProgress } from '../../src/cli/progress.ts'
import { type Leak, leaksOf } from './leaks.ts'

/** `npm run secrets [-- --count N --seed N]`: that many secrets go through the log; exit 0 only if none is seen. */
const { values } = parseArgs({
  options: { count: { type: 'string', default: '1000000' }, seed: { type: 'string', default: '1' } },
})
const [count, seed] = [Number(values.count), Number(values.seed)]
const piece = 10_000
const progress = openProgress('secrets', count)
let leaks: readonly Leak[] = []
for (let done = 0; done < count && leaks.length === 0; done += piece) {
  leaks = leaksOf({}, { count: Math.min(piece, count - done), seed: seed + done / piece })
  progress.show(Math.min(done + piece, count))
}
progress.end()
console.log(leaks.length === 0 ? `${count} secrets, none was seen.` : JSON.stringify(leaks, null, 2))
process.exitCode = leaks.length === 0 ? 0 : 1
