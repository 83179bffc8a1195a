import { parseArgs } from 'node:util'
import { describeCampaign, describeFailure, enoughSeeds, runCampaign } from './campaign.ts'
import { leakingStages } from './log-stages.ts'
import { openServer } from './server.ts'

/** `npm run simulate -- --seeds 2000 --from 1`: exit 0 only if no invariant broke and every kind of trouble came. */
const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '200' },
    from: { type: 'string', default: '1' },
    /** Stop after so many seeds with violations. */
    failures: { type: 'string', default: '5' },
    /** How much of the history of a failed seed is shown. */
    tail: { type: 'string', default: '15' },
    /** A PostgreSQL server that runs already; without it one is started and thrown away. */
    server: { type: 'string' },
  },
})

const server =
  values.server === undefined ? await openServer() : { url: values.server, close: async () => {} }
try {
  const leaks = leakingStages(Number(values.from))
  if (leaks.length > 0) console.log(`leaks: ${leaks.join(', ')}`)
  const startedAt = performance.now()
  let done = 0
  const campaign = await runCampaign(server.url, {
    from: Number(values.from),
    seeds: leaks.length > 0 ? 0 : Number(values.seeds),
    mostFailures: Number(values.failures),
    onSeed(result) {
      if (result.violations.length > 0) console.log(describeFailure(result, Number(values.tail)))
      if (++done % 100 === 0) console.log(`${done} seeds`)
    },
  })
  const ms = (performance.now() - startedAt) / campaign.seeds
  console.log(`${describeCampaign(campaign)}\n${ms.toFixed(0)} ms per seed`)
  const proven = campaign.seeds < enoughSeeds || campaign.neverFired.length === 0
  if (!proven) console.log(`never came: ${campaign.neverFired.join(', ')}`)
  process.exitCode = leaks.length === 0 && campaign.failures.length === 0 && proven ? 0 : 1
} finally {
  await server.close()
}
