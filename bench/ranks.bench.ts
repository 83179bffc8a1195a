import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'

const workspaces = sized(5000, 200)
const keywords = 40
const devices = 25

/** Recording a thousand new ranks, against a bare handler with one set-based insert. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await stage.db.query(
      `insert into batch.keyword (workspace_id, key, display, created_at)
       select 'ws_' || w, 'keyword ' || k, 'keyword ' || k, now()
       from generate_series(0, $1 - 1) w, generate_series(0, $2 - 1) k`,
      [workspaces, keywords],
    )
    await stage.db.query('vacuum analyze batch.keyword')
    await stage.db.query(`select batch.ensure_month('rank', '2026-10-01')`)
    const api = await stage.start('./api-process.ts')
    const bare = await stage.start('./bare-write-process.ts')

    // What a workspace stores goes into a day of its own for ours and for the floor, so that all of it is new.
    const order = (day: string) => ({
      connections: 8,
      seconds: sized(4, 1),
      method: 'POST',
      body: JSON.stringify({
        workspace_id: 'ws_{n}',
        observations: Array.from({ length: keywords * devices }, (_, at) => ({
          keyword: `keyword ${at % keywords}`,
          day,
          status: 'ranked',
          position: (at % 100) + 1,
          device: `d${Math.floor(at / keywords)}`,
        })),
      }),
      spread: workspaces,
    })
    const measured = await interleave({
      warmUp: 2,
      rounds: 5,
      ours: async () =>
        answered(
          await stage.load({
            ...order('2026-10-01'),
            port: api.port,
            path: '/api/batch/ranks',
            token: api.token!,
          }),
        ),
      floor: async () =>
        answered(await stage.load({ ...order('2026-10-02'), port: bare.port, path: '/ranks' })),
    })
    return [{ promise: 'recording 1,000 ranks', unit: 'requests/s', ...measured, goal: 'ratio >= 0.95' }]
  } finally {
    await stage.close()
  }
}

function answered({ perSecond, statuses }: { perSecond: number; statuses: Record<string, number> }): number {
  if (Object.keys(statuses).join() !== '200')
    throw new Error(`Not all were answered: ${JSON.stringify(statuses)}`)
  return perSecond
}
