import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openProgress } from '../../src/cli/progress.ts'
import { describeCampaign, describeFailure, enoughSeeds, runCampaign } from './campaign.ts'
import { leakingStages } from './log-stages.ts'
import { profileOf } from './model-provider.ts'
import { openServer } from './server.ts'

/** `npm run simulate -- --seeds 2000 --from 1`: exit 0 only if no invariant broke and every kind of trouble came. */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '200' },
    from: { type: 'string', default: '1' },
    /** How many processes share the seeds. */
    workers: { type: 'string', default: '1' },
    /** Stop after so many seeds with violations. */
    failures: { type: 'string', default: '5' },
    /** How much of the history of a failed seed is shown. */
    tail: { type: 'string', default: '15' },
    /** Where the summary is written. */
    json: { type: 'string' },
    /** Whose part the provider plays: sandbox, stripe, toss or portone. */
    provider: { type: 'string', default: 'sandbox' },
    /** A PostgreSQL server that runs already; without it one is started and thrown away. */
    server: { type: 'string' },
  },
})
process.env['SIMULATED_PROVIDER'] = values.provider
profileOf()
const from = Number(values.from)
const wanted = Number(values.seeds)
const workers = Number(values.workers)

// Broken off, it ends with the seed in hand, tells what came so far, and leaves no server running.
const broken = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => broken.abort())

const server =
  values.server === undefined ? await openServer() : { url: values.server, close: async () => {} }
try {
  const leaks = leakingStages(from)
  if (leaks.length > 0) console.log(`leaks: ${leaks.join(', ')}`)
  const seeds = leaks.length > 0 ? 0 : wanted
  const progress = openProgress('seeds', seeds)
  const startedAt = performance.now()
  const hashes = new Map<number, string>()
  let failed = 0
  const campaign = await runCampaign(server.url, {
    from,
    seeds,
    workers,
    mostFailures: Number(values.failures),
    signal: broken.signal,
    onSeed(report) {
      hashes.set(report.seed, report.hash)
      if (report.violations.length > 0) {
        failed++
        console.log(describeFailure(report, Number(values.tail)))
      }
      progress.show(hashes.size, `${failed} with violations`)
    },
  })
  progress.end()
  const ms = (performance.now() - startedAt) / campaign.seeds
  const isProven = campaign.seeds < enoughSeeds || campaign.neverFired.length === 0
  const isWhole = leaks.length === 0 && campaign.failures.length === 0 && isProven && !broken.signal.aborted
  console.log(`${describeCampaign(campaign)}\n${ms.toFixed(0)} ms per seed with ${workers} processes`)
  if (!isProven) console.log(`never came: ${campaign.neverFired.join(', ')}`)
  if (values.json !== undefined) {
    const { operations, counts, neverFired, failures } = campaign
    const summary = {
      from,
      to: from + wanted - 1,
      seeds: campaign.seeds,
      operations,
      msPerSeed: Math.round(ms),
      workers,
      leaks,
      counts,
      neverFired,
      violations: failures.flatMap(({ seed, violations }) => violations.map((one) => ({ seed, ...one }))),
      /** Two runs that met the same events in the same order have the same one. */
      hash: hashOfAll(hashes),
      passed: isWhole,
    }
    writeFileSync(values.json, `${JSON.stringify(summary, null, 2)}\n`)
  }
  process.exitCode = isWhole ? 0 : 1
} finally {
  await server.close()
}

function hashOfAll(hashes: ReadonlyMap<number, string>): string {
  const inOrder = [...hashes].sort(([a], [b]) => a - b).map(([seed, hash]) => `${seed} ${hash}`)
  return createHash('sha256').update(inOrder.join('\n')).digest('hex').slice(0, 16)
}
