import { afterAll, beforeAll, expect, test } from 'vitest'
import { demoBatch } from '../../src/demo/demo-batch.ts'
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
