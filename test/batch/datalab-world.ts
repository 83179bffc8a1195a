import { naverSearchWire } from '../../src/sandbox/sources/naver-search-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'

export type DatalabWorld = { readonly world: World; readonly datalab: SourceSandbox; close(): Promise<void> }

/** A world whose only source is DataLab's simulator, with keywords registered in workspace `ws`. */
export async function openDatalabWorld(words: readonly string[], budget: number): Promise<DatalabWorld> {
  const datalab = await openSourceSandbox({ wire: naverSearchWire, slowMs: 5 })
  const world = await openWorld({
    now: '2030-01-15T12:00:00Z',
    environment: {
      NAVER_DATALAB_CLIENT_ID: 'client',
      NAVER_DATALAB_CLIENT_SECRET: 'good-key',
      NAVER_DATALAB_BASE_URL: datalab.url,
      NAVER_DATALAB_BUDGET_PER_DAY: String(budget),
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: words })
  return {
    world,
    datalab,
    async close() {
      await world.close()
      await datalab.close()
    },
  }
}
