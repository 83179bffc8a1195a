import { setTimeout as sleep } from 'node:timers/promises'
import { addMovingRanks } from './moving-ranks.ts'
import { type BenchResult, median } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Stage } from './stage.ts'

const SECONDS = sized(3, 1)
const ROUNDS = 4
/** At this pace the API is far from its limit, so that an answer that comes late was made to wait. */
const GENTLE = { connections: 8, pauseMs: 20 }

/** How volumes are answered while the same process trains a classifier again and again, against itself at rest. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await fill(stage)
    const { port, token } = await stage.start('./serve-process.ts')
    const ask = (more: { connections: number; pauseMs?: number }) =>
      stage.load({
        port,
        seconds: SECONDS,
        method: 'GET',
        path: '/api/batch/volumes/word%201?workspace_id=ws_{n}',
        spread: 20_000,
        ...(token !== undefined && { token }),
        ...more,
      })
    const measure = async () => ({
      perSecond: median(await times(async () => (await ask({ connections: 32 })).perSecond)),
      p99Ms: median(await times(async () => (await ask(GENTLE)).p99Ms)),
    })
    await ask({ connections: 32 })
    const atRest = await measure()

    const training = keepTraining(stage, `http://127.0.0.1:${port}/api/batch/trigger`, token!)
    const whileTraining = await (async () => {
      while (((await runOf(stage))?.progress ?? 0) < 0.06) await sleep(100)
      return await measure()
    })().finally(training.end)
    const trained = await training.end()
    process.stderr.write(`${trained} trainings were begun meanwhile\n`)
    return [
      {
        promise: 'volumes answered while training, against the same at rest',
        unit: 'requests/s',
        ours: whileTraining.perSecond,
        floor: atRest.perSecond,
        ratio: whileTraining.perSecond / atRest.perSecond,
        goal: 'ratio >= 0.5 on 2 cores',
      },
      {
        promise: 'p99 at 400 requests/s or less while training, against the same at rest',
        unit: 'ms',
        ours: whileTraining.p99Ms,
        floor: atRest.p99Ms,
        ratio: whileTraining.p99Ms / atRest.p99Ms,
        goal: 'at most 10 ms more than at rest',
      },
    ]
  } finally {
    await stage.close()
  }
}

/** Begins a training whenever none is under way. A rank is corrected before each, or there would be nothing to learn. */
function keepTraining(stage: Stage, url: string, token: string) {
  let ended = false
  let begun = 0
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const work = (async () => {
    while (!ended) {
      await stage.db.query(
        `update batch.rank set position = 1 + position % 50
         where (workspace_id, keyword_id) = (select workspace_id, id from batch.keyword where key = 'word 1')
           and day = '2026-07-19'`,
      )
      const { status } = await fetch(url, { method: 'POST', headers, body: '{"task":"classifier"}' })
      if (status === 202) begun++
      await sleep(500)
    }
    return begun
  })()
  return {
    end: () => {
      ended = true
      return work
    },
  }
}

/** Enough ranks to train on for longer than the measurement takes. */
async function fill(stage: Stage): Promise<void> {
  await stage.db.query(`
    insert into batch.keyword (workspace_id, key, display, created_at)
    select 'ws_' || n % 20, 'word ' || n, 'word ' || n, now() from generate_series(1, 1500) n`)
  await addMovingRanks(stage, '2026-01-01')
  await stage.db.query(`
    insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, at_month_end, updated_at)
    select key, 'naver', m::date, 1000, 1000, 1000, 'reported', 30, 1000, now()
    from batch.keyword, generate_series('2025-08-01'::date, '2026-07-01', '1 month') m`)
  await stage.db.query('analyze')
}

/** The latest run, if there is one yet. */
async function runOf(stage: Stage): Promise<{ status: string; progress: number } | undefined> {
  const { rows } = await stage.db.query('select status, progress from batch.run order by id desc limit 1')
  return rows[0]
}

async function times(measure: () => Promise<number>): Promise<number[]> {
  const values: number[] = []
  for (let round = 0; round < ROUNDS; round++) values.push(await measure())
  return values
}
