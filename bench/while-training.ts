import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchResult } from './result.ts'
import { openStage, type Stage } from './stage.ts'

const SECONDS = 3
const ROUNDS = 4

/** How quickly volumes are answered while the same process trains a classifier, against itself at rest. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await fill(stage)
    const { port, token } = await stage.start('./serve-process.ts')
    const ask = async () =>
      (
        await stage.load({
          port,
          connections: 32,
          seconds: SECONDS,
          method: 'GET',
          path: '/api/batch/volumes/word%201?workspace_id=ws_{n}',
          spread: 20_000,
          ...(token !== undefined && { token }),
        })
      ).perSecond
    await ask()
    const atRest = await medianOf(ask)

    await fetch(`http://127.0.0.1:${port}/api/batch/trigger`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: '{"task":"classifier"}',
    })
    while ((await runOf(stage)).progress < 0.06) await sleep(100)
    const whileTraining = await medianOf(ask)
    const { status } = await runOf(stage)
    if (status !== 'running') throw new Error(`The training was ${status} before the measurement ended.`)
    return [
      {
        promise: 'volumes answered while training, against the same at rest',
        unit: 'requests/s',
        ours: whileTraining,
        floor: atRest,
        ratio: whileTraining / atRest,
        goal: 'ratio >= 0.5 on 2 cores',
      },
    ]
  } finally {
    await stage.close()
  }
}

/** Enough ranks to train on for longer than the measurement takes. */
async function fill(stage: Stage): Promise<void> {
  await stage.db.query(`
    insert into batch.keyword (workspace_id, key, display, created_at)
    select 'ws_' || n % 20, 'word ' || n, 'word ' || n, now() from generate_series(1, 1500) n`)
  await stage.db.query(`
    select batch.ensure_rank_month(m::date) from generate_series('2026-01-01'::date, '2026-08-01', '1 month') m`)
  await stage.db.query(`
    insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, checked_at)
    select k.workspace_id, k.id, d::date, 'naver', 'mobile', 'KR', 'ranked',
           greatest(1, (20 + k.id % 60 + 15 * sin(extract(doy from d) / (3 + k.id % 11)) + 6 * (random() - 0.5))::int), 100, d
    from generate_series('2026-01-01'::date, '2026-07-19'::date, '1 day') d, batch.keyword k`)
  await stage.db.query(`
    insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, at_month_end, updated_at)
    select key, 'naver', m::date, 1000, 1000, 1000, 'reported', 30, 1000, now()
    from batch.keyword, generate_series('2025-08-01'::date, '2026-07-01', '1 month') m`)
  await stage.db.query('analyze')
}

async function runOf(stage: Stage): Promise<{ status: string; progress: number }> {
  const { rows } = await stage.db.query('select status, progress from batch.run order by id desc limit 1')
  return rows[0]
}

async function medianOf(measure: () => Promise<number>): Promise<number> {
  const values: number[] = []
  for (let round = 0; round < ROUNDS; round++) values.push(await measure())
  return values.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)]!
}
