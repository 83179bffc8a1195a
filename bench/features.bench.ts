import { examplesOf } from '../src/batch/dataset/features.ts'
import { readHistory } from '../src/batch/dataset/history-rows.ts'
import { openDb, openPool } from '../src/platform/database/db.ts'
import type { BenchResult } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'

const KEYWORDS = sized(5_000, 200)
const DAYS = 300
const MOST_SECONDS = 18

/** From 1.5 million stored ranks to examples with features: what a night's training does before it learns. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  const pool = openPool({ url: stage.url, max: 2, name: 'bench', onError() {} })
  try {
    await stage.db.query(`
      insert into batch.keyword (workspace_id, key, display, created_at)
      select 'ws_' || n % 20, 'word ' || n, 'word ' || n, now() from generate_series(1, ${KEYWORDS}) n`)
    await stage.db.query(`
      select batch.ensure_month('rank', m::date) from generate_series('2026-01-01'::date, '2026-12-01', '1 month') m`)
    await stage.db.query(`
      insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, url, checked_at)
      select k.workspace_id, k.id, d::date, 'naver', 'mobile', 'KR', 'ranked', 1 + (abs(hashint8(k.id * 1000 + extract(doy from d)::int)) % 100),
             100, 'https://shop.example/' || k.id % 7, d
      from generate_series('2026-01-01'::date, '2026-01-01'::date + ${DAYS - 1}, '1 day') d, batch.keyword k`)
    await stage.db.query(`
      insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, at_month_end, updated_at)
      select key, 'naver', m::date, 1000, 1000, 1000, 'reported', 30, 1000, now()
      from batch.keyword, generate_series('2025-01-01'::date, '2026-09-01', '1 month') m`)
    await stage.db.query('analyze')
    const reading = await secondsOf(() => readHistory(openDb(pool)))
    const building = await secondsOf(async () => examplesOf(reading.result.history, 7))
    const rows = reading.result.history.days.length
    const seconds = reading.seconds + building.seconds
    process.stderr.write(
      `read ${rows} ranks in ${reading.seconds.toFixed(1)} s, built ${building.result.labels.length} examples in ${building.seconds.toFixed(1)} s\n`,
    )
    return [
      {
        promise: `features of ${rows.toLocaleString('en')} stored ranks`,
        unit: 's',
        ours: seconds,
        floor: MOST_SECONDS,
        ratio: seconds / MOST_SECONDS,
        goal: `under ${MOST_SECONDS} s`,
      },
    ]
  } finally {
    await pool.end()
    await stage.close()
  }
}

async function secondsOf<T>(work: () => Promise<T>): Promise<{ result: T; seconds: number }> {
  const start = performance.now()
  const result = await work()
  return { result, seconds: (performance.now() - start) / 1000 }
}
