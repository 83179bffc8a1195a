import { readFileSync } from 'node:fs'
import { deserialize } from 'node:v8'
import type { History } from '../src/batch/dataset/history.ts'
import { trainInThread } from '../src/batch/training/train-in-thread.ts'

/** Trains a whole ladder on a history in a file, as a night's run does, and says what it cost. */
const stored: History = deserialize(readFileSync(process.argv[2]!))
// Read back, they are views of one buffer, and each has to move to the thread by itself.
const history = Object.fromEntries(
  Object.entries(stored).map(([name, array]) => [name, array.slice()]),
) as History
const ranks = history.days.length
const [cpu, startedAt] = [process.cpuUsage(), performance.now()]
const made = await trainInThread(history, {
  seed: 1,
  snapshot: { sha256: '', ranksSha256: '', volumesSha256: '' },
  sample: { keywordsKept: 1 },
  active: undefined,
  onReject: 'keep',
})
if (made.kind !== 'made') throw new Error(made.kind)
const { user, system } = process.cpuUsage(cpu)
process.send!({
  ranks,
  examples: made.manifest.data.examples,
  cpuSeconds: (user + system) / 1e6,
  seconds: (performance.now() - startedAt) / 1000,
  peakMegabytes: peakOf(),
  algorithm: made.manifest.algorithm,
  rungs: made.manifest.metrics.rungs.map(({ name, holdout }) => [name, holdout.log_loss]),
  sha256: made.manifest.artifact.sha256,
})

/** What the process had in memory at most, as Linux counts it; elsewhere as far as Node tells. */
function peakOf(): number {
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS / 1024
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))![1]) / 1024
}
