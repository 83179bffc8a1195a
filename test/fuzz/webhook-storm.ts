import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openProgress, type Progress } from '../../src/cli/progress.ts'
import { openService, openThrowawayDatabase } from './service.ts'
import { runStorm } from './storm.ts'

/** `npm run webhook-storm -- --deliveries 100000 --forged 20000`: exit 0 only if every event had its effect once. */
const { values } = parseArgs({
  options: {
    deliveries: { type: 'string', default: '100000' },
    forged: { type: 'string', default: '20000' },
    /** How many customers pay before the storm. */
    customers: { type: 'string', default: '3000' },
    seed: { type: 'string', default: '1' },
    /** Where the summary goes as JSON. */
    json: { type: 'string' },
  },
})

const database = await openThrowawayDatabase()
try {
  const service = await openService(database.url)
  const progress = openChangingProgress()
  try {
    const storm = await runStorm(service, {
      seed: Number(values.seed),
      deliveries: Number(values.deliveries),
      forged: Number(values.forged),
      customers: Number(values.customers),
      onProgress: progress.show,
    })
    progress.end()
    for (const fault of storm.faults) console.log(`WRONG: ${fault}`)
    const perSecond = Math.round((storm.deliveries + storm.forged) / storm.seconds)
    console.log(
      `seed ${values.seed}: ${storm.events} events delivered ${storm.deliveries} times among ${storm.forged} forgeries in ` +
        `${storm.seconds.toFixed(0)} s (${perSecond}/s); ${storm.settledByNotification} payments settled by the news; ` +
        `answers ${JSON.stringify(storm.statuses)}; ${storm.faults.length} wrong effects`,
    )
    if (values.json !== undefined)
      writeFileSync(
        values.json,
        `${JSON.stringify({ seed: Number(values.seed), perSecond, ...storm }, null, 2)}\n`,
      )
    process.exitCode = storm.faults.length === 0 ? 0 : 1
  } finally {
    await service.close()
  }
} finally {
  await database.close()
}

/** A new bar for each kind of work. */
function openChangingProgress() {
  let shown = ''
  let bar: Progress | undefined
  return {
    show(what: string, done: number, of: number): void {
      if (what !== shown) {
        bar?.end()
        bar = openProgress(what, of)
        shown = what
      }
      bar?.show(done)
    },
    end: () => bar?.end(),
  }
}
