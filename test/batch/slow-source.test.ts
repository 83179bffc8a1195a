import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { naverSearchWire } from '../../src/sandbox/sources/naver-search-wire.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let slow: SourceSandbox
let quick: SourceSandbox
const words = Array.from({ length: 60 }, (_, n) => `word ${n}`)

beforeAll(async () => {
  slow = await openSourceSandbox({ wire: serpapiWire })
  quick = await openSourceSandbox({ wire: naverSearchWire })
  world = await openWorld({
    now: '2030-01-15T00:00:00Z',
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: slow.url,
      SERPAPI_RATE: '8',
      NAVER_CLIENT_ID: 'sandbox-client-01',
      NAVER_CLIENT_SECRET: 'sandbox-secret-01',
      NAVER_SEARCH_BASE_URL: quick.url,
      NAVER_SEARCH_RATE: '900',
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: words })
})
afterAll(async () => {
  await world.close()
  await slow.close()
  await quick.close()
})

const put = (source: string, engine: string, window: { from: string; to: string }) =>
  world.ask('PUT', `/api/batch/trackers/${source}`, {
    body: trackerBody({ engine, source, window: { ...window, zone: 'UTC' } }),
  })

test('a window that opens while another source is still at work is planned and checked meanwhile', async () => {
  expect((await put('serpapi', 'google', { from: '01:00', to: '02:00' })).status).toBe(200)
  expect((await put('naver_search', 'naver_web_api', { from: '22:00', to: '22:10' })).status).toBe(200)
  await world.app.clock.moveTo(new Date('2030-01-15T21:00:00Z'))
  const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
  const collecting = collectRanks(world.app.batch, { runId: started.body.data.run_id })
  await sleep(500)
  await world.app.clock.moveTo(new Date('2030-01-15T22:30:00Z'))
  await collecting
  const rows = await world.query<{ engine: string; count: number }>(
    `select engine, count(*)::int as count from batch.rank
     where workspace_id = 'ws' and day = '2030-01-15' and status <> 'failed' group by engine order by engine`,
  )
  expect(rows).toEqual([
    { engine: 'google', count: words.length },
    { engine: 'naver_web_api', count: words.length },
  ])
  const { body } = await world.get(`/api/batch/runs/${started.body.data.run_id}`)
  expect(body.data.metrics).toMatchObject({ planned: 120, checks: 120 })
})
