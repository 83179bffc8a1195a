import { afterAll, beforeAll, expect, test } from 'vitest'
import { demoBatch, demoKeywords } from '../../src/demo/demo-batch.ts'
import { openWorld, type World } from '../world.ts'
import { trigger } from './batch-story.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
})
afterAll(() => world.close())

test('the demo fills a workspace up to yesterday, enough for training, and filling it again changes nothing', async () => {
  const progress: number[] = []
  const made = await demoBatch(world.app.batch, { onProgress: (done, of) => progress.push(done / of) })
  expect(made).toMatchObject({ workspace: 'demo', keywords: 200, volumes: 3200 })
  expect(progress.at(-1)).toBe(1)
  const counts = () =>
    world.query(
      `select count(*)::int as rows, sum(revision)::int as revisions, min(day) as first, max(day) as last,
              count(*) filter (where status = 'failed')::int as failed from batch.rank`,
    )
  const before = await counts()
  expect(before[0]).toMatchObject({
    rows: made.ranks,
    revisions: made.ranks,
    first: '2029-09-17',
    last: '2030-01-14',
  })
  expect(before[0]!['failed']).toBeGreaterThan(100)
  await demoBatch(world.app.batch)
  expect(await counts()).toEqual(before)
  expect((await trigger(world, 'classifier')).body.data.preconditions).toMatchObject({
    rank_rows: made.ranks,
    days: 120,
  })
  expect(made.next.join('\n')).toContain('train_classifier')
})

test('its tracker lives: each day that the clock passes brings checks of a web that moves', async () => {
  const tracker = () => world.get('/api/batch/trackers/demo?workspace_id=demo')
  expect((await tracker()).body.data).toMatchObject({
    source: 'sandbox',
    active: true,
    site: 'shop.example.com',
  })
  // Somebody's own choice is not taken back by filling the workspace again.
  await world.ask('PUT', '/api/batch/trackers/demo', { body: { ...form, depth: 30 } })
  await demoBatch(world.app.batch)
  expect((await tracker()).body.data.depth).toBe(30)

  await world.advanceBy('P4D')
  const rows = await world.query(
    `select day, count(*)::int as checks, count(*) filter (where status = 'failed')::int as failed from batch.rank
     where engine = 'google' and day < '2030-01-19' group by day order by day`,
  )
  expect(rows).toEqual(
    ['2030-01-15', '2030-01-16', '2030-01-17', '2030-01-18'].map((day) => ({ day, checks: 20, failed: 0 })),
  )
  const { movements, shares } = (
    await world.get('/api/batch/movements?workspace_id=demo&day=2030-01-18&limit=100')
  ).body.data
  expect(movements.length).toBeGreaterThan(0)
  expect(shares).toMatchObject([{ engine: 'google', keywords: 20, failed: 0 }])
})

const form = {
  workspace_id: 'demo',
  site: 'shop.example.com',
  match: 'host',
  engine: 'google',
  device: 'desktop',
  location: 'KR',
  depth: 50,
  source: 'sandbox',
  every: 'day',
  keywords: demoKeywords().slice(0, 20),
}
