import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { movableClock } from '../../src/platform/clock.ts'
import { trackerBody } from '../batch/tracker-body.ts'
import { seededRandom } from '../simulation/random.ts'
import {
  type Evidence,
  readMonthlyEvidence,
  readSourceEvidence,
  type Watched,
  workspace,
} from './evidence.ts'
import type { Sources } from './stage.ts'

/** A service under campaign: somebody answers its API, and its workers are started, killed and stopped from here. */
export type Service = {
  readonly url: string
  readonly token: string
  readonly db: pg.Pool
  startWorker(environment: Readonly<Record<string, string>>): Worker
}

export type Worker = {
  started(): Promise<unknown>
  kill(): Promise<unknown>
  /** Asks it to end, and waits until it has. */
  stop(): Promise<unknown>
}

export type Plan = {
  readonly words: readonly string[]
  readonly days: number
  readonly seed: number
  readonly stops: Stops
  readonly onStop?: (done: number, of: number) => void
}

/** When checks are made on each day: times of the day, in order. `tries`: how often the last check of a day can be tried. */
export type Stops = { readonly times: readonly string[]; readonly tries: number }

/** Late enough for every slot of a day, and for a second try. */
export const eveningStops: Stops = { times: ['22:01', '23:20'], tries: 2 }
/** Checks spread over the day, as in a real one. */
export const dayStops: Stops = {
  times: ['00:05', '06:00', '12:00', '18:00', '22:01', '22:20', '23:40'],
  tries: 3,
}

export function wordsOf(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `word ${n}`)
}

const firstDay = Date.parse('2030-03-01T00:00:00Z')
const dayMs = 86_400_000
const workers = 2

/**
 * Tracks all keywords at every source for some days of service time, and asks for their volumes and trends. Two workers do so; at
 * every other stop they are killed in the middle of a run, or stopped and started. Halfway all of them start anew, with
 * the hosts to which sources have moved.
 */
export async function collectForDays(service: Service, sources: Sources, plan: Plan): Promise<Evidence> {
  const random = seededRandom(plan.seed)
  const clock = await movableClock(service.db)
  const stalls = monitorEventLoopDelay({ resolution: 10 })
  const ask = askerOf(service)
  const turnTo = async (instant: Date) => {
    await sources.turnClocks(instant)
    await clock.moveTo(instant)
  }
  await turnTo(new Date(firstDay))
  for (let at = 0; at < plan.words.length; at += 100) {
    const keywords = plan.words.slice(at, at + 100)
    await ask('POST', '/api/batch/keywords', { workspace_id: workspace, keywords })
  }
  for (const { source, engine, device, location, keywords = 'all' } of sources.tracked)
    await ask(
      'PUT',
      `/api/batch/trackers/${source}`,
      trackerBody({ workspace_id: workspace, engine, device, location, source, keywords }),
    )
  let environment = sources.environments[0]
  const crew = Array.from({ length: workers }, () => service.startWorker(environment))
  await Promise.all(crew.map((worker) => worker.started()))

  stalls.enable()
  const counts = { kills: 0, restarts: 0 }
  const watched: Watched = { orphaned: new Map(), keptBack: new Map() }
  const replace = async (which: readonly number[]) => {
    for (const n of which) crew[n] = service.startWorker(environment)
    await Promise.all(which.map((n) => crew[n]!.started()))
  }
  const everyone = crew.map((_, n) => n)
  const stops = Array.from({ length: plan.days }, (_, day) =>
    plan.stops.times.map((time, n) => ({
      at: new Date(firstDay + day * dayMs + minutesOf(time) * 60_000),
      isFirstOfHalf: n === 0 && day === Math.floor(plan.days / 2),
      isLastOfDay: n === plan.stops.times.length - 1,
    })),
  ).flat()
  for (const [at, stop] of stops.entries()) {
    if (stop.isFirstOfHalf) {
      environment = sources.environments[1]
      await Promise.all(crew.map((worker) => worker.stop()))
      await replace(everyone)
    }
    await turnTo(stop.at)
    await startRuns(ask)
    // The first two are sure to be hit, so that also a short campaign is one.
    const trouble = at === 0 ? 'kill all' : at === 1 ? 'restart' : random.pick(troubles)
    if (trouble === 'kill all' || trouble === 'kill one') {
      if (await isAsking(service.db)) {
        await sleep(random.between(0, 200))
        const hit = trouble === 'kill all' ? everyone : [random.between(0, workers - 1)]
        await Promise.all(hit.map((n) => crew[n]!.kill()))
        counts.kills += hit.length
        await addCounts(service.db, watched.orphaned, `status = 'asked'`)
        await replace(hit)
      }
    } else if (trouble === 'restart') {
      const n = random.between(0, workers - 1)
      await crew[n]!.stop()
      await replace([n])
      counts.restarts++
    }
    await untilQuiet(service.db, ask, clock)
    if (stop.isLastOfDay)
      await addCounts(
        service.db,
        watched.keptBack,
        `status = 'due' and due_at <= $1 and exists (select from batch.source s where s.name = c.source and s.until > $1)`,
        [clock()],
      )
    plan.onStop?.(at + 1, stops.length)
  }
  // The last day ends, and what was not made of it has failed.
  await turnTo(new Date(firstDay + plan.days * dayMs + 1_000))
  await startRun(ask, 'collect_ranks')
  await untilQuiet(service.db, ask, clock)
  stalls.disable()

  const training = await train(service.db, ask)
  await Promise.all(crew.map((worker) => worker.stop()))
  const days = { first: dayAt(0), last: dayAt(plan.days - 1) }
  const keywords = plan.words.length
  const found = []
  for (const tracked of sources.tracked)
    found.push(await readSourceEvidence(service.db, tracked, { keywords, days, watched }))
  const monthly = []
  for (const asked of sources.monthly) monthly.push(await readMonthlyEvidence(service.db, asked, days.last))
  return {
    keywords,
    days: plan.days,
    tries: plan.stops.tries,
    sources: found,
    monthly,
    ...counts,
    longestStallMs: stalls.max / 1e6,
    training,
  }
}

/** Adds how many checks of each source are in a state. */
async function addCounts(
  db: pg.Pool,
  counts: Map<string, number>,
  where: string,
  values: readonly unknown[] = [],
): Promise<void> {
  const { rows } = await db.query<{ source: string; count: number }>(
    `select source, count(*)::int as count from batch.rank_check c where ${where} group by source`,
    [...values],
  )
  for (const { source, count } of rows) counts.set(source, (counts.get(source) ?? 0) + count)
}

const troubles = ['kill all', 'kill one', 'kill one', 'restart', 'restart', 'none', 'none', 'none'] as const

function dayAt(day: number): string {
  return new Date(firstDay + day * dayMs).toISOString().slice(0, 10)
}

function minutesOf(time: string): number {
  const [hours, minutes] = time.split(':').map(Number) as [number, number]
  return hours * 60 + minutes
}

type Asker = (method: string, path: string, body?: unknown, also?: readonly number[]) => Promise<Reply>
// biome-ignore lint/suspicious/noExplicitAny: the one who asked knows the shape
type Reply = { readonly status: number; readonly data: any }

/** Asks the API, and waits when it asks for patience. Whatever else is not a success ends the campaign. */
function askerOf({ url, token }: Service): Asker {
  return async (method, path, body, also = []) => {
    for (;;) {
      const answer = await fetch(url + path, {
        method,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      const text = await answer.text()
      if (answer.status === 429) {
        await sleep(Number(answer.headers.get('retry-after') ?? '1') * 1000)
        continue
      }
      if (!answer.ok && !also.includes(answer.status))
        throw new Error(`${method} ${path}: ${answer.status} ${text}`)
      return { status: answer.status, data: answer.ok ? JSON.parse(text).data : undefined }
    }
  }
}

async function startRuns(ask: Asker): Promise<void> {
  await startRun(ask, 'collect_ranks')
  await startRun(ask, 'collect_volumes')
}

/** A run that somebody else started a moment ago does as well. */
async function startRun(ask: Asker, task: 'collect_ranks' | 'collect_volumes'): Promise<void> {
  await ask('POST', '/api/batch/trigger', { task }, [409])
}

const patienceMs = 30_000

/** Waits until a worker has calls under way; false if there is nothing to ask. */
async function isAsking(db: pg.Pool): Promise<boolean> {
  for (const until = performance.now() + patienceMs; performance.now() < until; ) {
    const { rows } = await db.query<{ asked: boolean; busy: boolean }>(
      `select exists (select from batch.rank_check where status = 'asked') as asked,
              exists (select from batch.run where task = 'collect_ranks' and status in ('queued', 'running')) as busy`,
    )
    if (rows[0]!.asked) return true
    if (!rows[0]!.busy) return false
    await sleep(20)
  }
  return false
}

const quietWithinMs = 3_600_000

/** Waits until every check that is due and may be made was made. */
async function untilQuiet(db: pg.Pool, ask: Asker, clock: () => Date): Promise<void> {
  for (const until = performance.now() + quietWithinMs; performance.now() < until; await sleep(200)) {
    const { rows } = await db.query<{ busy: boolean; left: boolean }>(
      `select exists (select from batch.run
                      where task in ('collect_ranks', 'collect_volumes') and status in ('queued', 'running')) as busy,
              exists (select from batch.tracker where next_plan_at <= $1)
           or exists (select from batch.rank_check where status = 'asked')
           or exists (select from batch.rank_check where status = 'due' and closes_at <= $1)
           or exists (select from batch.rank_check c left join batch.source s on s.name = c.source
                      where c.status = 'due' and c.due_at <= $1 and c.reason is distinct from 'budget_exhausted'
                        and (s.state is null or s.state = 'ready' or s.until <= $1)) as left`,
      [clock()],
    )
    if (rows[0]!.busy) continue
    if (!rows[0]!.left) return
    await startRun(ask, 'collect_ranks')
  }
  throw new Error('the checks that are due are not made')
}

async function train(db: pg.Pool, ask: Asker): Promise<Evidence['training']> {
  const started = await ask('POST', '/api/batch/trigger', { task: 'train_classifier' }, [409])
  if (started.data === undefined) return { status: 'refused', error: String(started.status), modelId: null }
  for (;;) {
    const { rows } = await db.query<{ status: string; error_code: string | null; model_id: string | null }>(
      `select r.status, r.error_code, (select m.id from batch.model m where m.run_id = r.id) as model_id
       from batch.run r where r.id = $1`,
      [started.data.run_id],
    )
    const { status, error_code: error, model_id: modelId } = rows[0]!
    if (status !== 'queued' && status !== 'running') return { status, error, modelId }
    await sleep(200)
  }
}
