import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openProgress } from '../../src/cli/progress.ts'
import { again } from './arrivals.ts'
import { type Balancer, openBalancer } from './balancer.ts'
import { openClient, type Tally } from './client.ts'
import { type Fleet, type Member, openFleet } from './fleet.ts'
import { listLostRuns } from './lost-runs.ts'
import { type Check, endedWell, none, report } from './report.ts'
import { startTraffic } from './traffic.ts'
import { untilSettled } from './unsettled.ts'

/**
 * `npm run rolling-restart -- --restarts 20`: two serves and two works behind a proxy that follows /readyz are stopped
 * and started one after the other, under mixed load from clients that never try again. Exit 0 only if no request failed.
 */
const { values } = parseArgs({
  options: {
    restarts: { type: 'string', default: '20' },
    pace: { type: 'string', default: '40' },
    seed: { type: 'string', default: '1' },
    json: { type: 'string' },
  },
})

type Place = { readonly args: readonly string[]; member: Member; url: string | undefined }
type Ended = { readonly code: number | null; readonly ms: number }
type Restart = Ended & { readonly name: string; readonly startMs: number }

// A stop gives what is under way fifteen seconds, and whoever follows /readyz five to notice.
const drainWithinMs = 20_000

const fleet = await openFleet()
try {
  const { checks, details } = await restartAll(fleet)
  report('rolling restart', checks, details, values.json)
} finally {
  await fleet.close()
}

async function restartAll(fleet: Fleet): Promise<{ checks: Check[]; details: Record<string, unknown> }> {
  const balancer = await openBalancer()
  const places: Place[] = []
  for (const args of [['serve', '--no-worker'], ['work'], ['serve', '--no-worker'], ['work']])
    places.push(await start(fleet, balancer, args))
  const client = openClient({ url: () => balancer.url, token: fleet.token })
  const traffic = startTraffic({
    client,
    webhookSecret: fleet.webhookSecret,
    seed: Number(values.seed),
    perSecond: Number(values.pace),
  })
  // Renewals, dunning and the daily batch work fall due in the middle of it all.
  const clock = again(3_000, () =>
    client.ask('POST /api/sandbox/clock', { body: { advance_by: 'P1D' }, expect: [200] }),
  )

  const restarts = await restartInTurn(fleet, balancer, places)
  await clock.stop()
  await traffic.stop()
  client.close()

  const settledMs = await untilSettled(fleet.db, 60_000)
  const lost = await listLostRuns(fleet.db)
  const ends = await Promise.all(places.map(({ member }) => member.stop()))
  balancer.close()
  const checks = [
    ...checksOfAnswers(client.tally),
    ...checksOfEnds(restarts, ends),
    ...checksOfWork(fleet, lost, settledMs),
    endedWell('check-ledger', await fleet.run(['check-ledger'])),
    endedWell('reconcile', await fleet.run(['reconcile', '--from', '2020-01-01', '--to', '2060-01-01'])),
  ]
  const { seed } = values
  return { checks, details: { seed, restarts, logged: fleet.logged(), routes: client.tally.routes } }
}

async function restartInTurn(fleet: Fleet, balancer: Balancer, places: readonly Place[]): Promise<Restart[]> {
  const restarts: Restart[] = []
  const wanted = Number(values.restarts)
  const progress = openProgress('restarts', wanted)
  while (restarts.length < wanted) {
    await sleep(1_000)
    const one = await restart(fleet, balancer, places[restarts.length % places.length]!)
    restarts.push(one)
    progress.show(restarts.length, `${one.name}: drained in ${one.ms} ms, back after ${one.startMs} ms`)
  }
  await sleep(1_000)
  progress.end()
  for (const { name, ms, code } of restarts)
    process.stdout.write(`${name.padEnd(18)} drained in ${String(ms).padStart(6)} ms, exit ${code}\n`)
  return restarts
}

function checksOfAnswers(tally: Tally): Check[] {
  return [
    {
      what: 'requests answered',
      measured: String(tally.asked),
      goal: 'over 1,000, or it proves little',
      held: tally.asked > 1_000,
    },
    none('requests that failed (reset, 5xx)', tally.failed, tally.surprises),
    none('answers that a correct service does not give', tally.unexpected, tally.surprises),
  ]
}

function checksOfEnds(restarts: readonly Restart[], ends: readonly Ended[]): Check[] {
  const longest = Math.max(...restarts.map(({ ms }) => ms))
  return [
    none('processes that did not end with 0', [...restarts, ...ends].filter(({ code }) => code !== 0).length),
    {
      what: 'longest drain',
      measured: `${longest} ms`,
      goal: `within ${drainWithinMs} ms`,
      held: longest <= drainWithinMs,
    },
  ]
}

function checksOfWork(fleet: Fleet, lost: readonly string[], settledMs: number | undefined): Check[] {
  const logged = fleet.logged()
  return [
    none('faults and dead jobs in the log', (logged['http.failed'] ?? 0) + (logged['job.dead'] ?? 0)),
    none('batch runs that failed or never ended', lost.length, lost),
    {
      what: 'all charges and refunds settled',
      measured: settledMs === undefined ? 'not within 60 s' : `after ${settledMs} ms`,
      goal: 'within 60 s',
      held: settledMs !== undefined,
    },
  ]
}

async function start(fleet: Fleet, balancer: Balancer, args: readonly string[]): Promise<Place> {
  const member = fleet.start(args)
  const url = await member.started()
  if (args[0] !== 'serve') return { args, member, url: undefined }
  balancer.add(url)
  await balancer.ready(url)
  return { args, member, url }
}

async function restart(fleet: Fleet, balancer: Balancer, place: Place): Promise<Restart> {
  const ended = await place.member.stop()
  if (place.url !== undefined) balancer.remove(place.url)
  const startedAt = performance.now()
  Object.assign(place, await start(fleet, balancer, place.args))
  return { ...ended, name: place.args.join(' '), startMs: Math.round(performance.now() - startedAt) }
}
