import { afterAll, beforeAll, expect, test } from 'vitest'
import { collectVolumes } from '../../src/batch/tracking/volumes/collect-volumes.ts'
import { dataforseoWire } from '../../src/sandbox/sources/dataforseo-wire.ts'
import { openSourceSandbox, type SourceSandbox } from '../../src/sandbox/sources/source-sandbox.ts'
import { openWorld, type World } from '../world.ts'

let world: World
let source: SourceSandbox
beforeAll(async () => {
  source = await openSourceSandbox({ wire: dataforseoWire })
  world = await openWorld({
    now: '2030-01-15T12:00:00Z',
    environment: {
      DATAFORSEO_LOGIN: 'login',
      DATAFORSEO_PASSWORD: 'sandbox-key-0001',
      DATAFORSEO_BASE_URL: source.url,
    },
  })
})
afterAll(async () => {
  await world.close()
  await source.close()
})

const collect = async () => {
  // No worker lives here to take up what the schedule has started.
  await world.query(`delete from batch.run where task = 'collect_volumes'`)
  const started = await world.post('/api/batch/trigger', { task: 'collect_volumes' })
  await collectVolumes(world.app.batch, { runId: started.body.data.run_id })
  return (await world.get(`/api/batch/runs/${started.body.data.run_id}`)).body.data
}
const turnTo = async (instant: string) => {
  const body = JSON.stringify({ advance_to: instant })
  await fetch(`${source.url}/__sandbox/clock`, { method: 'POST', body })
  await world.app.clock.moveTo(new Date(instant))
}

test('one keyword that empties the answer for a thousand is found in halves, and those without figures are not asked again', async () => {
  const words = Array.from({ length: 998 }, (_, n) => `keyword ${n}`)
  const keywords = [...words, 'bad 금지', 'rare 드묾']
  for (let at = 0; at < keywords.length; at += 100) {
    const body = { workspace_id: 'ws', keywords: keywords.slice(at, at + 100) }
    expect((await world.post('/api/batch/keywords', body)).status).toBe(200)
  }
  expect(await collect()).toMatchObject({
    status: 'succeeded',
    metrics: { asked: 1000, found: 998, no_data: 2, failed: 0, lost: 0 },
  })
  expect(source.book.calls).toBeLessThan(30)
  expect(
    await world.query(
      `select status, max(tries) as tries, count(*)::int as count from batch.volume_check group by 1 order by 1`,
    ),
  ).toEqual([
    { status: 'done', tries: 2, count: 998 },
    { status: 'no_data', tries: 2, count: 2 },
  ])
})

test('Google’s months are asked for when the newest of them is told, and each month is there before it is long over', async () => {
  const newest = () =>
    world.query(
      `select max(day)::text as day from batch.volume_observation where key = 'keyword 1' and source = 'dataforseo'`,
    )
  await turnTo('2030-02-25T12:00:00Z')
  await collect()
  expect(await newest()).toEqual([{ day: '2030-01-31' }])
  // Google has not counted February yet: whoever asks now hears nothing new, and must not take that for the month's answer.
  await turnTo('2030-03-01T12:00:00Z')
  expect((await collect()).metrics).toMatchObject({ asked: 0, calls: 0 })
  // A keyword that nobody has asked about does not wait.
  await world.post('/api/batch/keywords', { workspace_id: 'ws', keywords: ['new word'] })
  expect((await collect()).metrics).toMatchObject({ asked: 1, found: 1 })
  await turnTo('2030-03-21T12:00:00Z')
  expect((await collect()).metrics).toMatchObject({ asked: 1001 })
  expect(await newest()).toEqual([{ day: '2030-02-28' }])
  expect((await collect()).metrics).toMatchObject({ asked: 0, calls: 0 })
})
