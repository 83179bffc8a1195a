import { type BenchResult, interleave } from './result.ts'
import { sized } from './size.ts'
import { openStage } from './stage.ts'
import { storeYearOf } from './stored-volumes.ts'

/**
 * The fixed cost of a batch request: token, limit, schema, envelope and log, all on, against a bare handler with the
 * same select. Twenty thousand workspaces, because a thousand may only ask 1,667 times a second between them. Lookups that
 * come at once share statements, and those of one keyword its row too; so they are measured for one keyword that all ask
 * for, and for a keyword each.
 */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await storeYearOf(stage.db, 'shoes')
    await storeYearOf(stage.db, 'shoes-', keywords)
    const api = await stage.start('./api-process.ts')
    const bare = await stage.start('./bare-select-process.ts')
    const order = { connections: 64, seconds: sized(3, 1), method: 'GET' }
    const refused: Record<string, number> = {}
    const compare = (keyword: string, spread: number) =>
      interleave({
        rounds: 7,
        ours: async () => {
          const report = await stage.load({
            ...order,
            port: api.port,
            path: `/api/batch/volumes/${keyword}?workspace_id=ws_{n}`,
            spread: keywords,
            ...(api.token !== undefined && { token: api.token }),
          })
          for (const [status, count] of Object.entries(report.statuses))
            refused[status] = (refused[status] ?? 0) + count
          return report.perSecond
        },
        floor: async () =>
          (await stage.load({ ...order, port: bare.port, path: `/volumes/${keyword}`, spread })).perSecond,
      })

    const results: BenchResult[] = [
      {
        promise: 'a volume lookup: the fixed cost of a batch request',
        unit: 'requests/s',
        ...(await compare('shoes', 1)),
        goal: 'ratio >= 0.6',
      },
      {
        promise: 'a volume lookup, each of another keyword',
        unit: 'requests/s',
        ...(await compare('shoes-{n}', keywords)),
        goal: 'ratio >= 0.6',
      },
    ]
    if (Object.keys(refused).some((status) => status !== '200'))
      throw new Error(`Not all were answered: ${JSON.stringify(refused)}`)
    return results
  } finally {
    await stage.close()
  }
}

// As many as workspaces: the load counts both together.
const keywords = 20_000
