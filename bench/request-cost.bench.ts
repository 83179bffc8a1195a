import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'
import { storeYearOfShoes } from './stored-volumes.ts'

/**
 * The fixed cost of a batch request: token, limit, schema, envelope and log, all on, against a bare handler with the
 * same select. Twenty thousand workspaces, because a thousand may only ask 1,667 times a second between them.
 */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await storeYearOfShoes(stage.db)
    const api = await stage.start('./api-process.ts')
    const bare = await stage.start('./bare-select-process.ts')
    const seconds = sized(3, 1)
    const refused: Record<string, number> = {}

    const { ours, floor, ratio } = await interleave({
      rounds: 7,
      ours: async () => {
        const report = await stage.load({
          port: api.port,
          connections: 64,
          seconds,
          method: 'GET',
          path: '/api/batch/volumes/shoes?workspace_id=ws_{n}',
          spread: 20_000,
          ...(api.token !== undefined && { token: api.token }),
        })
        for (const [status, count] of Object.entries(report.statuses))
          refused[status] = (refused[status] ?? 0) + count
        return report.perSecond
      },
      floor: async () =>
        (
          await stage.load({
            port: bare.port,
            connections: 64,
            seconds,
            method: 'GET',
            path: '/volumes/shoes',
            spread: 1,
          })
        ).perSecond,
    })
    if (Object.keys(refused).some((status) => status !== '200'))
      throw new Error(`Not all were answered: ${JSON.stringify(refused)}`)
    return [
      {
        promise: 'a volume lookup: the fixed cost of a batch request',
        unit: 'requests/s',
        ours,
        floor,
        ratio,
        goal: 'ratio >= 0.6',
      },
    ]
  } finally {
    await stage.close()
  }
}
