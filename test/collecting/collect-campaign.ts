import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { openProgress } from '../../src/cli/progress.ts'
import { openFleet } from '../endurance/fleet.ts'
import { report } from '../endurance/report.ts'
import { collectForDays, dayStops, eveningStops, wordsOf } from './campaign.ts'
import { judge } from './judge.ts'
import { openSources } from './stage.ts'

/**
 * `npm run collect-campaign -- --keywords 5000 --days 30`: trackers at every source of ranks, and volumes and trends, over days of service time,
 * with sources that fail and workers that are killed, stopped and started. Exit 0 only if every keyword has one row a
 * day, no budget or rate was exceeded and nothing was paid for twice but what a crash explains. `--small`: in a minute.
 */
const { values } = parseArgs({
  options: {
    small: { type: 'boolean', default: false },
    keywords: { type: 'string' },
    days: { type: 'string' },
    rate: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    json: { type: 'string' },
  },
})
const words = wordsOf(Number(values.keywords ?? (values.small ? 70 : 5_000)))
const days = Number(values.days ?? (values.small ? 4 : 30))

// A machine that all of this runs on at once may stand still for seconds.
const fleet = await openFleet({ DATABASE_CONNECT_TIMEOUT_MS: '60000' })
const sources = await openSources(fleet.dataDir, { words, days, ratePerSecond: Number(values.rate) })
try {
  const url = await fleet.start(['serve', '--no-worker'], sources.environments[0]).started()
  const startWorker = (environment: Readonly<Record<string, string>>) => {
    const member = fleet.start(['work'], environment)
    const kill = async () => {
      member.child.kill('SIGKILL')
      await once(member.child, 'exit')
    }
    return { started: member.started, kill, stop: member.stop }
  }
  const progress = openProgress('stops', null)
  const beganAt = performance.now()
  const evidence = await collectForDays({ url, token: fleet.token, db: fleet.db, startWorker }, sources, {
    words,
    days,
    seed: Number(values.seed),
    stops: values.small ? eveningStops : dayStops,
    onStop: (done, of) => progress.show(done, `of ${of}`),
  })
  progress.end()
  const seconds = Math.round((performance.now() - beganAt) / 1000)
  report('collect campaign', judge(evidence), { seed: values.seed, seconds, evidence }, values.json)
} finally {
  await fleet.close()
  await sources.close()
}
