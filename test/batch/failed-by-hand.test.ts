import { afterAll, beforeAll, expect, test } from 'vitest'
import { collectRanks } from '../../src/batch/tracking/collect-ranks.ts'
import { serpapiWire } from '../../src/sandbox/sources/serpapi-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let source: SourceSandbox

const turnTo = async (time: string) => {
  const body = JSON.stringify({ advance_to: `2030-01-15T${time}Z` })
  await fetch(`${source.url}/__sandbox/clock`, { method: 'POST', body })
  await world.app.clock.moveTo(new Date(`2030-01-15T${time}Z`))
}
const collect = async () => {
  const started = await world.post('/api/batch/trigger', { task: 'collect_ranks' })
  await collectRanks(world.app.batch, { runId: started.body.data.run_id })
  expect((await world.get(`/api/batch/runs/${started.body.data.run_id}`)).body.data.status).toBe('succeeded')
}
const checks = () =>
  world.query<{ keyword: string; status: string; tries: number }>(
    `select k.display as keyword, c.status, c.tries from batch.rank_check c
     join batch.keyword k on k.workspace_id = c.workspace_id and k.id = c.keyword_id order by k.display`,
  )

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
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: ['shoes', 'boots', 'hats'] })
  const body = {
    workspace_id: 'ws',
    site: 'example.com',
    match: 'domain',
    engine: 'google',
    device: 'mobile',
    location: 'KR',
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
    await collect()
  }
  await turnTo('00:30:00')
  await check('boots')
  source.setFaults({ unavailable: 1 })
  await check('shoes')
  for (const time of ['00:45:00', '02:00:00']) {
    await turnTo(time)
    await collect()
  }
  expect(await checks()).toEqual([
    { keyword: 'boots', status: 'done', tries: 1 },
    { keyword: 'shoes', status: 'failed', tries: 3 },
  ])

  source.setFaults({ unavailable: 0 })
  const before = source.book.calls
  await turnTo('06:00:00')
  await collect()
  await turnTo('09:00:00')
  await collect()
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
