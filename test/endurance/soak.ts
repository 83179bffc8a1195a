import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { median } from '../../bench/result.ts'
import { openProgress } from '../../src/cli/progress.ts'
import { type Arrivals, again } from './arrivals.ts'
import { type Client, openClient } from './client.ts'
import { type Fleet, type Member, openFleet } from './fleet.ts'
import { listLostRuns } from './lost-runs.ts'
import { postgresUsage, type Usage, usageOf } from './process-usage.ts'
import { type Check, endedWell, none, report } from './report.ts'
import { startTraffic } from './traffic.ts'
import { importHistory, registerTrainees } from './trained-history.ts'

/**
 * `npm run soak -- --minutes 60`: serve and work under a mixed, moderate load over every route. Exit 0 only if neither
 * holds more at the end than early on (by a tenth), no request failed, and the books agree.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    /** Things done a second; most of them are one to three requests. */
    pace: { type: 'string', default: '15' },
    seed: { type: 'string', default: '1' },
    json: { type: 'string' },
  },
})
const minutes = Number(values.minutes)
const growthAllowed = 1.1

const fleet = await openFleet({
  // The clock moves a day every few seconds here; training has a rhythm of its own.
  SCHEDULE_TRAINING: '30 3 1 1 *',
})
try {
  const { checks, details } = await soak(fleet)
  report('soak', checks, details, values.json)
} finally {
  await fleet.close()
}

async function soak(fleet: Fleet): Promise<{ checks: Check[]; details: Record<string, unknown> }> {
  const serve = fleet.start(['serve', '--no-worker'])
  const work = fleet.start(['work'])
  const url = await serve.started()
  await work.started()
  const client = openClient({ url: () => url, token: fleet.token, connections: 16 })
  await registerTrainees(client, 'trained')
  const imports = [await importHistory(fleet, 'trained', 0)]
  await train(client)
  const load = startLoad(fleet, client, imports)
  const samples = await watch(client, { serve, work }, fleet.postmasterPid())
  await Promise.all(load.map((one) => one.stop()))

  const lost = await listLostRuns(fleet.db)
  const missing = await unaskedRoutes(client)
  client.close()
  const ends = [await serve.stop(), await work.stop()]
  const logged = fleet.logged()
  const { tally } = client
  const checks = [
    ...growthOf('serve', samples),
    ...growthOf('work', samples),
    none('answers 5xx, or none at all', tally.failed, tally.surprises),
    none('answers that a correct service does not give', tally.unexpected, tally.surprises),
    none('routes never asked', missing.length, missing),
    none('faults and dead jobs in the log', (logged['http.failed'] ?? 0) + (logged['job.dead'] ?? 0)),
    none('imports that failed', imports.filter((code) => code !== 0).length),
    none('batch runs that failed or never ended', lost.length, lost),
    none('processes that did not end with 0', ends.filter(({ code }) => code !== 0).length),
    endedWell('check-ledger', await fleet.run(['check-ledger'])),
  ]
  const [cores, runs] = [coresUsed(samples), await countRuns(fleet)]
  return {
    checks,
    details: { minutes, seed: values.seed, cores, runs, logged, routes: tally.routes, samples },
  }
}

function startLoad(fleet: Fleet, client: Client, imports: (number | null)[]): Arrivals[] {
  const { webhookSecret } = fleet
  const everyFewMinutes = Math.min(180, minutes * 12) * 1000
  return [
    startTraffic({ client, webhookSecret, seed: Number(values.seed), perSecond: Number(values.pace) }),
    again(1_000, () => client.ask('GET /readyz', { expect: [200] })),
    again(5_000, () => client.ask('POST /api/sandbox/clock', { body: { advance_by: 'P1D' }, expect: [200] })),
    again(everyFewMinutes, () => train(client)),
    again(everyFewMinutes, async (turn) => imports.push(await importHistory(fleet, 'trained', turn))),
  ]
}

async function train(client: Client): Promise<void> {
  const body = { task: 'train_classifier', workspace_id: 'trained' }
  // The one before may still run on a busy machine.
  await client.ask('POST /api/batch/trigger', { body, expect: [202, 409] })
}

type Sample = {
  readonly minute: number
  readonly serve: Usage
  readonly work: Usage
  readonly postgres: { readonly memoryMb: number; readonly cpuSeconds: number }
}

/** Looks on until the end, so often that a window holds a dozen looks however short the run is. */
async function watch(
  client: Client,
  { serve, work }: { serve: Member; work: Member },
  postmaster: number,
): Promise<readonly Sample[]> {
  const samples: Sample[] = []
  const progress = openProgress('soak, seconds', minutes * 60)
  const startedAt = performance.now()
  const secondsSoFar = () => (performance.now() - startedAt) / 1000
  const isAlive = ({ child }: Member) => child.exitCode === null && child.signalCode === null
  while (secondsSoFar() < minutes * 60 && isAlive(serve) && isAlive(work)) {
    const sample = {
      minute: secondsSoFar() / 60,
      serve: usageOf(serve.child.pid!),
      work: usageOf(work.child.pid!),
      postgres: postgresUsage(postmaster),
    }
    samples.push(sample)
    progress.show(
      Math.round(secondsSoFar()),
      `serve ${sample.serve.residentMb.toFixed(0)} MB, work ${sample.work.residentMb.toFixed(0)} MB, ` +
        `${client.tally.asked} requests, ${client.tally.unexpected} unexpected answers`,
    )
    await sleep(Math.min(10_000, (minutes * 60_000) / 360))
  }
  progress.end()
  return samples
}

/**
 * The last two minutes of an hour against the two around the tenth, and the last twentieth of a shorter run against one
 * around its sixth part. Files and threads come and go with connections and trainings; what leaks comes and stays.
 */
function growthOf(name: 'serve' | 'work', samples: readonly Sample[]): Check[] {
  const width = minutes >= 60 ? 2 : minutes / 20
  const within = (from: number, to: number, of: (usage: Usage) => number) =>
    median(samples.filter(({ minute }) => minute >= from && minute <= to).map((sample) => of(sample[name])))
  const compare = (
    what: string,
    goal: string,
    most: (early: number) => number,
    of: (usage: Usage) => number,
  ) => {
    const early = within(minutes / 6 - width / 2, minutes / 6 + width / 2, of)
    const late = within(minutes - width, minutes, of)
    const measured = `${early.toFixed(1)} early, ${late.toFixed(1)} late (${(late / early).toFixed(3)})`
    return { what: `${name}: ${what}`, measured, goal, held: late <= most(early) }
  }
  return [
    compare(
      'resident MB',
      `ratio <= ${growthAllowed}`,
      (early) => early * growthAllowed,
      ({ residentMb }) => residentMb,
    ),
    // A busier moment opens more connections to the database, up to a pool of them.
    compare(
      'open files',
      'at most 20 more',
      (early) => early + 20,
      ({ openFiles }) => openFiles,
    ),
    compare(
      'threads',
      'at most 2 more',
      (early) => early + 2,
      ({ threads }) => threads,
    ),
  ]
}

/** How many cores the service and its database kept busy, on average. */
function coresUsed(samples: readonly Sample[]): { service: number; postgres: number } {
  const [first, last] = [samples[0]!, samples.at(-1)!]
  const seconds = (last.minute - first.minute) * 60
  const used = (of: (sample: Sample) => number) => (of(last) - of(first)) / seconds
  return {
    service: used(({ serve, work }) => serve.cpuSeconds + work.cpuSeconds),
    postgres: used(({ postgres }) => postgres.cpuSeconds),
  }
}

async function countRuns(fleet: Fleet): Promise<Record<string, number>> {
  const { rows } = await fleet.db.query(`
    select task || ' ' || status as name, count(*)::int as count from batch.run group by 1 order by 1`)
  return Object.fromEntries(rows.map(({ name, count }) => [name, count]))
}

async function unaskedRoutes(client: Client): Promise<string[]> {
  const { paths } = JSON.parse((await client.ask('GET /openapi.json', { expect: [200] })).text)
  const known = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
  )
  return known.filter((route) => client.tally.routes[route] === undefined)
}
