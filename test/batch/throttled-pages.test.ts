import { afterAll, beforeAll, expect, test } from 'vitest'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let source: SourceSandbox
const words = Array.from({ length: 12 }, (_, n) => `word ${n}`)

beforeAll(async () => {
  source = await openSourceSandbox({ wire: serpapiWire, slowMs: 1, callsPerSecond: 14 })
  world = await openWorld({
    now: '2030-01-15T12:00:00Z',
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: source.url,
      SERPAPI_RATE: '100',
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: words })
})
afterAll(async () => {
  await world.close()
  await source.close()
})

test('a page that is asked for too fast costs none of the pages before it once more', async () => {
  const body = trackerBody({ depth: 40, site: 'nowhere.example' })
  expect((await world.ask('PUT', '/api/batch/trackers/main', { body })).status).toBe(200)
  await world.advanceTo('2030-01-16T00:00:00Z')
  expect(source.book.throttled).toBeGreaterThan(0)
  expect(source.book).toMatchObject({ paid: 4 * words.length, paidAgain: 0 })
  expect(await world.query('select distinct status, searched_depth from batch.rank')).toEqual([
    { status: 'not_in_depth', searched_depth: 40 },
  ])
})
