import type { BenchResult } from './result.ts'
import { interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'

const keywords = sized(166_667, 1_000)

/** A day's aggregation of many observations, against its statements with nothing worked out in between. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await stage.db.query(`select batch.ensure_month('volume_observation', '2026-09-01')`)
    await stage.db.query(
      `insert into batch.volume_observation (key, source, day, kind, volume)
       select 'keyword ' || k, 'naver', '2026-09-01'::date + d, 'day', k + d from generate_series(1, $1) k, generate_series(0, 29) d`,
      [keywords],
    )
    await stage.db.query('vacuum analyze')
    const { process: child } = await stage.start('./aggregation-process.ts')
    const perSecond = async (kind: 'ours' | 'bare') => {
      await stage.db.query('truncate batch.monthly_volume, batch.dirty_month')
      await stage.db.query(
        `insert into batch.dirty_month (key, source, month) select 'keyword ' || k, 'naver', '2026-09-01' from generate_series(1, $1) k`,
        [keywords],
      )
      await stage.db.query('vacuum analyze batch.dirty_month')
      const seconds = await new Promise<number>((resolve) => {
        child.once('message', (message) => resolve(Number(message)))
        child.send(kind)
      })
      const { rows } = await stage.db.query('select count(*)::int as n from batch.monthly_volume')
      if (rows[0].n !== keywords) throw new Error(`${rows[0].n} of ${keywords} months were stored.`)
      return (keywords * 30) / seconds
    }
    const measured = await interleave({
      rounds: 3,
      ours: () => perSecond('ours'),
      floor: () => perSecond('bare'),
    })
    const promise = `aggregating ${(keywords * 30).toLocaleString('en')} observations`
    return [{ promise, unit: 'rows/s', ...measured, goal: 'ratio >= 0.8' }]
  } finally {
    await stage.close()
  }
}
