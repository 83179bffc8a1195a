import { setTimeout as sleep } from 'node:timers/promises'
import { movableClock } from '../src/platform/clock.ts'
import { openPool } from '../src/platform/database/db.ts'
import { trackerBody } from '../test/batch/tracker-body.ts'
import { memoryOf } from './process-memory.ts'
import { type BenchResult, median } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Stage, type Started } from './stage.ts'

const KEYWORDS = Number(process.env['BENCH_KEYWORDS'] ?? sized(5_000, 300))
const DAYS = sized(8, 2)
const LEAST_PER_SECOND = 100
const MOST_GROWTH = 1.1

const firstDay = Date.parse('2030-03-01T00:00:00Z')
const dayMs = 86_400_000
const never = '0 0 30 2 *'

/** A tracker's checks of whole days, all due at once, at a source that is as quick as this machine lets it be. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const pool = openPool({ url: stage.url, max: 1, name: 'bench clock', onError() {} })
  try {
    const source = await stage.start('./source-process.ts', ['serpapi'])
    Object.assign(stage.environment, {
      SERPAPI_API_KEY: 'key-of-the-bench',
      SERPAPI_BASE_URL: `http://127.0.0.1:${source.port}`,
      SERPAPI_RATE: '1000',
      SERPAPI_BUDGET_PER_DAY: '1000000',
      SCHEDULE_TRAINING: never,
      SCHEDULE_PREDICTION: never,
      SCHEDULE_AGGREGATION: never,
    })
    const clock = await movableClock(pool)
    await clock.moveTo(new Date(firstDay))
    await stage.db.query(
      `insert into batch.keyword (workspace_id, key, display, created_at)
       select 'ws', 'word ' || n, 'word ' || n, $1 from generate_series(1, $2::int) n`,
      [new Date(firstDay), KEYWORDS],
    )
    const service = await stage.start('./serve-process.ts')
    await track(service)

    const rates: number[] = []
    let early = 0
    for (let day = 0; day < DAYS; day++) {
      const startedAt = performance.now()
      await clock.moveTo(new Date(firstDay + day * dayMs + dayMs - 60_000))
      await untilChecked(stage, KEYWORDS * (day + 1))
      rates.push(KEYWORDS / ((performance.now() - startedAt) / 1000))
      process.stderr.write(`day ${day + 1} of ${DAYS}: ${Math.round(rates.at(-1)!)} checks/s\n`)
      if (day === Math.floor(DAYS / 4)) early = memoryOf(service.process.pid!, 'peak')
    }
    const late = memoryOf(service.process.pid!, 'peak')
    return [
      {
        promise: `checks of ${KEYWORDS.toLocaleString('en')} keywords, found due, asked, stored; source, API, worker and database here`,
        unit: 'checks/s',
        ours: median(rates),
        floor: LEAST_PER_SECOND,
        ratio: median(rates) / LEAST_PER_SECOND,
        goal: `at least ${LEAST_PER_SECOND} a second`,
      },
      {
        promise: `peak memory of API and worker after ${DAYS} such days, beside after ${Math.floor(DAYS / 4) + 1}`,
        unit: 'MB',
        ours: late,
        floor: early,
        ratio: late / early,
        goal: `at most ${MOST_GROWTH} times as much`,
      },
    ]
  } finally {
    await pool.end()
    await stage.close()
  }
}

async function track({ port, token }: Started): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}/api/batch/trackers/bench`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(trackerBody({ window: { from: '00:00', to: '24:00', zone: 'UTC' } })),
  })
  if (!answer.ok) throw new Error(`The tracker was refused: ${await answer.text()}`)
}

/** Until so many checks have an end, with a row each. */
async function untilChecked(stage: Stage, wanted: number): Promise<void> {
  for (;;) {
    const { rows } = await stage.db.query<{ n: number }>(
      `select count(*)::int as n from batch.rank_check where status in ('done', 'failed')`,
    )
    if (rows[0]!.n >= wanted) return
    await sleep(100)
  }
}
