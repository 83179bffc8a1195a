import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openProgress } from '../../src/cli/progress.ts'
import { runCampaign, summaryOf, tableOf, type Violation } from './campaign.ts'
import { openService, openThrowawayDatabase } from './service.ts'

/** `npm run fuzz -- --requests 100000 --seed 1`: exit 0 only if every answer was right and every route was reached. */
const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '100000' },
    seed: { type: 'string', default: '1' },
    /** Sends one request of the seed alone. */
    only: { type: 'string' },
    /** Stop after so many wrong answers. */
    failures: { type: 'string', default: '20' },
    /** What the service may log meanwhile: `error` tells the place of a fault. */
    log: { type: 'string', default: 'silent' },
    /** Where the summary goes as JSON. */
    json: { type: 'string' },
  },
})
const [requests, seed] = [Number(values.requests), Number(values.seed)]

const database = await openThrowawayDatabase()
try {
  const service = await openService(database.url, values.log)
  const progress = openProgress('requests', requests)
  try {
    const campaign = await runCampaign(service, {
      requests,
      seed,
      mostViolations: Number(values.failures),
      ...(values.only !== undefined && { only: Number(values.only) }),
      onViolation: (violation) => console.log(describe(violation)),
      onRequest: (done, wrong) => progress.show(done, `${wrong} wrong`),
    })
    progress.end()
    console.log(tableOf(campaign))
    for (const missing of campaign.unreached) console.log(missing)
    const perSecond = Math.round(campaign.requests / campaign.seconds)
    console.log(
      `seed ${seed}: ${campaign.requests} requests in ${campaign.seconds.toFixed(0)} s (${perSecond}/s), slowest ` +
        `${campaign.slowestMs.toFixed(0)} ms, ${campaign.wounds.size} kinds, ${campaign.violations.length} wrong`,
    )
    if (values.json !== undefined)
      writeFileSync(values.json, `${JSON.stringify({ seed, ...summaryOf(campaign) }, null, 2)}\n`)
    process.exitCode = campaign.violations.length === 0 && campaign.unreached.length === 0 ? 0 : 1
  } finally {
    await service.close()
  }
} finally {
  await database.close()
}

function describe({ k, operation, wound, faults, sent }: Violation): string {
  return [
    `--seed ${seed} --only ${k} --requests ${requests}   (${operation}, ${wound})`,
    ...faults.map((fault) => `  ${fault}`),
    `  ${sent}`,
  ].join('\n')
}
