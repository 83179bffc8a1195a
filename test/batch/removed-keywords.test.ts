import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSerpapiWorld, type SerpapiWorld } from './serpapi-world.ts'

let stage: SerpapiWorld
let world: SerpapiWorld['world']
let source: SerpapiWorld['source']
const words = Array.from({ length: 60 }, (_, n) => `word ${n}`)
const [gone, kept] = [words.slice(0, 50), words.slice(50)]

beforeAll(async () => {
  stage = await openSerpapiWorld('ws', words)
  world = stage.world
  source = stage.source
})
afterAll(() => stage.close())

test('nothing is paid for a keyword that was removed after its day was planned; the others are checked', async () => {
  await stage.turnTo('2030-01-15T06:00:00Z')
  await stage.collect()
  expect(source.book.calls).toBe(0)
  const removed = await world.ask('DELETE', '/api/batch/keywords', {
    body: { workspace_id: 'ws', keywords: gone },
  })
  expect(removed.body.data.removed).toBe(gone.length)

  await stage.turnTo('2030-01-15T09:00:00Z')
  await stage.collect()
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
  await stage.turnTo('2030-01-16T06:00:00Z')
  await stage.collect()
  const before = source.book.calls
  await world.ask('DELETE', '/api/batch/keywords', { body: { workspace_id: 'ws', keywords: gone } })
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: gone })
  await stage.turnTo('2030-01-16T09:00:00Z')
  await stage.collect()
  expect(source.book.calls - before).toBe(words.length)
})
