import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage, type Stage } from './stage.ts'

/** Registering a hundred keywords, new and known, against a bare handler with one set-based insert. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    const api = await stage.start('./api-process.ts')
    const bare = await stage.start('./bare-write-process.ts')
    const results: BenchResult[] = []
    for (const kind of ['new', 'known'] as const) {
      if (kind === 'known') await registerKnown(stage)
      // Each request of new keywords comes from a workspace of its own; known ones come round in a thousand.
      const order = {
        connections: 16,
        seconds: sized(3, 1),
        method: 'POST',
        body: JSON.stringify({
          workspace_id: `ws_${kind}_{n}`,
          keywords: Array.from({ length: 100 }, (_, at) => `keyword ${at}`),
        }),
        spread: kind === 'new' ? 1e9 : knownWorkspaces,
      }
      const measured = await interleave({
        warmUp: 3,
        rounds: 5,
        ours: async () => {
          const report = await stage.load({
            ...order,
            port: api.port,
            path: '/api/batch/keywords',
            token: api.token!,
          })
          return answered(report)
        },
        floor: async () => answered(await stage.load({ ...order, port: bare.port, path: '/keywords' })),
      })
      results.push({
        promise: `registering 100 ${kind} keywords`,
        unit: 'requests/s',
        ...measured,
        goal: kind === 'new' ? 'ratio >= 0.85' : 'ratio >= 0.95',
      })
    }
    return results
  } finally {
    await stage.close()
  }
}

const knownWorkspaces = sized(1000, 50)

async function registerKnown(stage: Stage): Promise<void> {
  await stage.db.query(
    `insert into batch.keyword (workspace_id, key, display, created_at)
     select 'ws_known_' || w, 'keyword ' || k, 'keyword ' || k, now()
     from generate_series(0, $1 - 1) w, generate_series(0, 99) k
     order by w, k`,
    [knownWorkspaces],
  )
  await stage.db.query('vacuum analyze batch.keyword')
}

function answered({ perSecond, statuses }: { perSecond: number; statuses: Record<string, number> }): number {
  if (Object.keys(statuses).join() !== '200')
    throw new Error(`Not all were answered: ${JSON.stringify(statuses)}`)
  return perSecond
}
