import { type BenchResult, interleave } from './result.ts'
import { openStage, type Stage } from './stage.ts'

const monthsEach = 12

/** What a lookup costs in a table of five million monthly volumes, against the same in one of fifty thousand. */
export async function bench(): Promise<BenchResult[]> {
  const stages: Stage[] = []
  try {
    const open = async (rows: number) => {
      const stage = await openStage()
      stages.push(stage)
      return { stage, api: await stage.start('./api-process.ts'), keywords: await fill(stage, rows) }
    }
    const small = await open(50_000)
    const large = await open(5_000_000)
    const costOf = async ({ stage, api, keywords }: typeof small) => {
      const { perSecond, statuses } = await stage.load({
        port: api.port,
        connections: 32,
        seconds: 3,
        method: 'GET',
        path: '/api/batch/volumes/keyword%20{n}?workspace_id=ws_{n}',
        spread: keywords,
        token: api.token!,
      })
      if (Object.keys(statuses).join() !== '200')
        throw new Error(`Not all were answered: ${JSON.stringify(statuses)}`)
      return 1_000_000 / perSecond
    }
    const measured = await interleave({ rounds: 5, ours: () => costOf(large), floor: () => costOf(small) })
    return [
      {
        promise: 'volume lookup among 5,000,000 rows, against 50,000',
        unit: 'µs/request',
        ...measured,
        goal: 'ratio <= 1.25',
      },
    ]
  } finally {
    for (const stage of stages) await stage.close()
  }
}

async function fill(stage: Stage, rows: number): Promise<number> {
  const keywords = Math.floor(rows / monthsEach)
  await stage.db.query(
    `insert into batch.monthly_volume
       (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
     select 'keyword ' || k, 'naver', m::date, k, k, k, 'reported', 30, now()
     from generate_series(0, $1 - 1) k, generate_series('2025-11-01'::date, '2026-10-01', '1 month') m`,
    [keywords],
  )
  await stage.db.query('vacuum analyze batch.monthly_volume')
  return keywords
}
