import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSerpapiWorld, type SerpapiWorld } from './serpapi-world.ts'

let stage: SerpapiWorld
let world: SerpapiWorld['world']
let source: SerpapiWorld['source']
const checks = () =>
  world.query<{ keyword: string; status: string; tries: number }>(
    `select k.display as keyword, c.status, c.tries from batch.rank_check c
     join batch.keyword k on k.workspace_id = c.workspace_id and k.id = c.keyword_id order by k.display`,
  )

beforeAll(async () => {
  stage = await openSerpapiWorld('ws', ['shoes', 'boots', 'hats'])
  world = stage.world
  source = stage.source
})
afterAll(() => stage.close())

test('a check by hand that failed before the window opens does not cost the keyword its check of the day', async () => {
  const check = async (keyword: string) => {
    const { status } = await world.post('/api/batch/trackers/main/check', {
      workspace_id: 'ws',
      keywords: [keyword],
    })
    expect(status).toBe(202)
    await world.query(
      `update batch.run set status = 'succeeded', started_at = queued_at, finished_at = queued_at`,
    )
    await stage.collect()
  }
  await stage.turnTo('2030-01-15T00:30:00Z')
  await check('boots')
  source.setFaults({ unavailable: 1 })
  await check('shoes')
  for (const time of ['00:45:00', '02:00:00']) {
    await stage.turnTo(`2030-01-15T${time}Z`)
    await stage.collect()
  }
  expect(await checks()).toEqual([
    { keyword: 'boots', status: 'done', tries: 1 },
    { keyword: 'shoes', status: 'failed', tries: 3 },
  ])

  source.setFaults({ unavailable: 0 })
  const before = source.book.calls
  await stage.turnTo('2030-01-15T06:00:00Z')
  await stage.collect()
  await stage.turnTo('2030-01-15T09:00:00Z')
  await stage.collect()
  expect(await checks()).toEqual([
    // What was told today already is not paid for again.
    { keyword: 'boots', status: 'done', tries: 1 },
    { keyword: 'hats', status: 'done', tries: 1 },
    { keyword: 'shoes', status: 'done', tries: 1 },
  ])
  expect(source.book.calls - before).toBe(2)
  const failed = await world.query(`select 1 from batch.rank where status = 'failed'`)
  expect(failed).toEqual([])
})
