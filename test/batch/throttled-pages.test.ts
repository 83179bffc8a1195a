import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import type { World } from '../world.ts'
import { openWorldAtSerpapi } from './serpapi-world.ts'
import { trackerBody } from './tracker-body.ts'

let world: World
let source: SourceSandbox
let close: () => Promise<void>
const words = Array.from({ length: 12 }, (_, n) => `word ${n}`)

beforeAll(async () => {
  ;({ world, source, close } = await openWorldAtSerpapi(words, {
    now: '2030-01-15T12:00:00Z',
    source: { callsPerSecond: 14 },
    environment: { SERPAPI_RATE: '100' },
  }))
})
afterAll(() => close())

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
