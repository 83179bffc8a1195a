import { expect } from 'vitest'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import {
  openSourceSandbox,
  type SourceSandbox,
  type SourceSandboxOptions,
} from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'
import { trackerBody } from './tracker-body.ts'

/** A world whose keywords are known, and the source at which a tracker may check them. */
export type WorldAtSource = {
  readonly world: World
  readonly source: SourceSandbox
  close(): Promise<void>
}

export type SerpapiWorld = WorldAtSource & {
  /** Moves the clocks of both. */
  turnTo(instant: string): Promise<void>
  /** Triggers a run and works it here. */
  collect(): Promise<void>
}

export async function openWorldAtSerpapi(
  keywords: readonly string[],
  options: {
    workspaceId?: string
    /** When the clock starts. */
    now?: string
    source?: Partial<SourceSandboxOptions>
    environment?: Record<string, string>
  } = {},
): Promise<WorldAtSource> {
  const { workspaceId = 'ws', now = '2030-01-15T00:00:00Z' } = options
  const source = await openSourceSandbox({ wire: serpapiWire, slowMs: 1, ...options.source })
  const world = await openWorld({
    now,
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: source.url,
      SERPAPI_RATE: '900',
      ...options.environment,
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: workspaceId, keywords })
  return {
    world,
    source,
    async close() {
      await world.close()
      await source.close()
    },
  }
}

/** A day of January 2030 at midnight, with keywords that tracker `main` checks at a source from 06:00 to 08:00 UTC. */
export async function openSerpapiWorld(
  workspaceId: string,
  keywords: readonly string[],
): Promise<SerpapiWorld> {
  const opened = await openWorldAtSerpapi(keywords, { workspaceId })
  const { world, source } = opened
  const body = trackerBody({ workspace_id: workspaceId, window: { from: '06:00', to: '08:00', zone: 'UTC' } })
  expect((await world.ask('PUT', '/api/batch/trackers/main', { body })).status).toBe(200)

  return {
    ...opened,
    async turnTo(instant) {
      const moved = JSON.stringify({ advance_to: instant })
      await fetch(`${source.url}/__sandbox/clock`, { method: 'POST', body: moved })
      await world.app.clock.moveTo(new Date(instant))
    },
    async collect() {
      const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
      const { run_id: runId } = started.body.data
      await collectRanks(world.app.batch, { runId })
      expect((await world.get(`/api/batch/runs/${runId}`)).body.data.status).toBe('succeeded')
    },
  }
}
