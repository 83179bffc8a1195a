import { examplesOf } from '../src/batch/dataset/features.ts'
import { readHistory } from '../src/batch/dataset/history-rows.ts'
import { openDb, openPool } from '../src/platform/database/db.ts'
import { cpuMsOf, cpuOfServer } from './process-cpu.ts'
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
    const serverMs = await cpuOfServer(stage)
    const cpuMs = () => serverMs() + cpuMsOf(process.pid)
    const passing = await costOf(cpuMs, () =>
      stage.db.query('select sum(position), sum(searched_depth), count(url) from batch.rank'),
    )
    const reading = await costOf(cpuMs, () => readHistory(openDb(pool)))
    const building = await costOf(cpuMs, async () => examplesOf(reading.result.history, 7))
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
      {
        promise: 'reading a million stored ranks as training and scoring do, beside a bare pass over them',
        unit: 'CPU s',
        ours: (reading.cpuSeconds / rows) * 1e6,
        floor: (passing.cpuSeconds / rows) * 1e6,
        ratio: reading.cpuSeconds / passing.cpuSeconds,
        goal: 'told in docs/scaling.md',
      },
    ]
  } finally {
    await pool.end()
    await stage.close()
  }
}

type Cost<T> = { readonly result: T; readonly seconds: number; readonly cpuSeconds: number }

async function costOf<T>(cpuMs: () => number, work: () => Promise<T>): Promise<Cost<T>> {
  const [startedAt, cpu] = [performance.now(), cpuMs()]
  const result = await work()
  return { result, seconds: (performance.now() - startedAt) / 1000, cpuSeconds: (cpuMs() - cpu) / 1000 }
}
