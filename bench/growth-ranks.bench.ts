import { costOf, count, growthGoal, onTwoStages } from './growing.ts'
import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'

/** The history stands in the month that is written to, so that the tree which takes the new rows has grown. */
export async function bench(): Promise<BenchResult[]> {
  const [few, many] = [sized(1_000_000, 20_000), sized(50_000_000, 200_000)]
  return onTwoStages(async (open) => {
    const filled = async (rows: number) => {
      const stage = await open()
      const keywords = rows / 20
      await stage.db.query(
        `insert into batch.keyword (workspace_id, key, display, created_at)
         select 'ws_' || k / 100, 'keyword ' || k % 100, 'keyword ' || k % 100, now() from generate_series(0, $1 - 1) k`,
        [keywords],
      )
      await stage.db.query(`select batch.ensure_rank_month('2026-10-01')`)
      await stage.db.query(
        `insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, checked_at)
         select workspace_id, id, '2026-10-01'::date + d, 'naver', 'mobile', 'KR', 'ranked', 1 + id % 100, 100, now()
         from batch.keyword, generate_series(0, 19) d`,
      )
      await stage.db.query('vacuum analyze batch.rank')
      const api = await stage.start('./api-process.ts')
      return () => {
        const observations = Array.from({ length: 100 }, (_, at) => ({
          keyword: `keyword ${at}`,
          day: '2026-10-28',
          status: 'ranked',
          position: 1 + at,
          // Each turn through the workspaces tells new ranks: what is known already is cheaper, and few are through sooner.
          device: 'd{turn}',
        }))
        const body = JSON.stringify({ workspace_id: 'ws_{n}', observations })
        return costOf(stage, api, '/api/batch/ranks', { spread: keywords / 100, method: 'POST', body })
      }
    }
    const [large, small] = [await filled(many), await filled(few)]
    const measured = await interleave({ rounds: 5, ours: large, floor: small })
    const promise = `100 ranks written into a history of ${count(many)} rows, not ${count(few)}`
    return [{ promise, unit: 'µs/request', ...measured, goal: growthGoal }]
  })
}
