import { afterAll, beforeAll, expect, test } from 'vitest'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let source: SourceSandbox
const words = Array.from({ length: 60 }, (_, n) => `word ${n}`)
const [gone, kept] = [words.slice(0, 50), words.slice(50)]

const turnTo = async (instant: string) => {
  const body = JSON.stringify({ advance_to: instant })
  await fetch(`${source.url}/__sandbox/clock`, { method: 'POST', body })
  await world.app.clock.moveTo(new Date(instant))
}
const collect = async () => {
  const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
  await collectRanks(world.app.batch, { runId: started.body.data.run_id })
  expect((await world.get(`/api/batch/runs/${started.body.data.run_id}`)).body.data.status).toBe('succeeded')
}

beforeAll(async () => {
  source = await openSourceSandbox({ wire: serpapiWire, slowMs: 1 })
  world = await openWorld({
    now: '2030-01-15T00:00:00Z',
    environment: {
      SERPAPI_API_KEY: 'sandbox-key-0001',
      SERPAPI_BASE_URL: source.url,
      SERPAPI_RATE: '900',
    },
  })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: words })
  const body = {
    workspace_id: 'ws',
    site: 'example.com',
    match: 'domain',
    engine: 'google',
    device: 'mobile',
    location: 'KR',
    // One page, so that a check is a call.
    depth: 10,
    source: 'serpapi',
    every: 'day',
    window: { from: '06:00', to: '08:00', zone: 'UTC' },
    keywords: 'all',
  }
  expect((await world.ask('PUT', '/api/batch/trackers/main', { body })).status).toBe(200)
})
afterAll(async () => {
  await world.close()
  await source.close()
})

test('nothing is paid for a keyword that was removed after its day was planned; the others are checked', async () => {
  await turnTo('2030-01-15T06:00:00Z')
  await collect()
  expect(source.book.calls).toBe(0)
  const removed = await world.ask('DELETE', '/api/batch/keywords', {
    body: { workspace_id: 'ws', keywords: gone },
  })
  expect(removed.body.data.removed).toBe(gone.length)

  await turnTo('2030-01-15T09:00:00Z')
  await collect()
  expect(source.book.calls).toBe(kept.length)
  const spent = await world.query<{ reserved: number; spent: number }>(
    'select distinct reserved, spent from batch.source_spending',
  )
  expect(spent).toEqual([{ reserved: 0, spent: kept.length }])
  const tracker = await world.get('/api/batch/trackers/main?workspace_id=ws')
  expect(tracker.body.data).toMatchObject({ checked_today: kept.length, failed_today: 0 })
  const ranked = await world.query<{ keyword: string }>(
    `select k.display as keyword from batch.rank r
     join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id order by k.id`,
  )
  expect(ranked.map(({ keyword }) => keyword)).toEqual(kept)
})

test('one that is back by its slot is checked like any other', async () => {
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: gone })
  await turnTo('2030-01-16T06:00:00Z')
  await collect()
  const before = source.book.calls
  await world.ask('DELETE', '/api/batch/keywords', { body: { workspace_id: 'ws', keywords: gone } })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: gone })
  await turnTo('2030-01-16T09:00:00Z')
  await collect()
  expect(source.book.calls - before).toBe(words.length)
})
