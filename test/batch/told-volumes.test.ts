import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { aggregateVolumes } from '../../src/batch/volumes/aggregate-volumes.ts'
import { packageFile } from '../../src/platform/package-files.ts'
import { openWorld, type World } from '../world.ts'

let world: World

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
})
afterAll(() => world.close())

const aggregate = () => aggregateVolumes(world.app.batch)
const volumesOf = async (keyword: string) =>
  (await world.get(`/api/batch/volumes/${encodeURIComponent(keyword)}`)).body.data
const atMonthEnd = (keyword: string) =>
  world.query('select month, at_month_end from batch.monthly_volume where key = $1 order by month', [keyword])

test('months that were worked out without a part that is known are worked out anew, and no others', async () => {
  await world.query(
    `select batch.ensure_month('volume_observation', day::date) from unnest('{2029-03-01,2029-12-01}'::text[]) day`,
  )
  // As the release before stored them: windows and a month, in part known, not known at all, or whole.
  await world.query(
    `insert into batch.volume_observation (key, source, day, kind, volume, volume_max, pc, mobile) values
       ('window', 'naver', '2029-12-10', 'rolling_30d', null, 5009, null, 5000),
       ('spans february', 'naver', '2029-03-01', 'rolling_30d', null, 109, 100, null),
       ('month', 'naver', '2029-12-31', 'month', null, 5009, null, 5000),
       ('unknown', 'naver', '2029-12-10', 'rolling_30d', null, 18, null, null),
       ('whole', 'naver', '2029-12-10', 'rolling_30d', 6000, null, 1000, 5000)`,
  )
  await world.query(
    readFileSync(packageFile('migrations/20261119T0100-batch-known-parts-of-volumes.sql'), 'utf8'),
  )
  expect(await world.query('select key, month from batch.dirty_month order by key, month')).toEqual([
    { key: 'month', month: '2029-12-01' },
    { key: 'spans february', month: '2029-01-01' },
    { key: 'spans february', month: '2029-02-01' },
    { key: 'spans february', month: '2029-03-01' },
    { key: 'window', month: '2029-11-01' },
    { key: 'window', month: '2029-12-01' },
  ])
  expect(await aggregate()).toEqual({ keywords: 3, months: 6 })
  expect((await volumesOf('month')).months).toMatchObject([
    { month: '2029-12', volume: null, volume_min: 5000, volume_max: 5009 },
  ])
})

test('what one surface tells exactly is the least a month can be, however little the other tells', async () => {
  const rare = { keyword: 'rare on pc', source: 'naver', kind: 'rolling_30d', day: '2029-11-30' }
  const stored = await world.post('/api/batch/volumes', {
    observations: [
      { ...rare, volume_max: 5009, mobile: 5000 },
      { ...rare, keyword: 'rare on both', volume_max: 18 },
      { ...rare, keyword: 'rare as a whole', volume_max: 18, pc: 4, mobile: 5 },
    ],
  })
  expect(stored.body.data).toEqual({ inserted: 3, updated: 0, unchanged: 0 })
  await aggregate()
  const [whole, both, parts] = await Promise.all(
    ['rare on pc', 'rare on both', 'rare as a whole'].map(volumesOf),
  )
  expect(whole.months.at(-1)).toMatchObject({
    month: '2029-11',
    volume: null,
    volume_min: 5000,
    volume_max: 5009,
  })
  expect(await atMonthEnd('rare on pc')).toEqual([{ month: '2029-11-01', at_month_end: 5004.5 }])
  expect(both.months.at(-1)).toMatchObject({ volume: null, volume_min: 0, volume_max: 18 })
  expect(parts.months.at(-1)).toMatchObject({ volume: null, volume_min: 9, volume_max: 18 })
})

test('reports of a month are one, whatever day of it they name: what is told last holds', async () => {
  const report = (day: string, volume: number) => ({
    keyword: 'reported',
    source: 'google',
    kind: 'month',
    day,
    volume,
  })
  const record = async (...observations: unknown[]) =>
    (await world.post('/api/batch/volumes', { observations })).body.data
  expect(await record(report('2029-10-31', 1000))).toMatchObject({ inserted: 1 })
  expect(await record(report('2029-10-01', 800))).toMatchObject({ updated: 1 })
  expect(await record(report('2029-10-15', 800), report('2029-10-02', 800))).toMatchObject({ unchanged: 2 })
  await aggregate()
  expect((await volumesOf('reported')).months).toMatchObject([{ month: '2029-10', volume: 800 }])

  // The release before kept each under the day it named.
  await world.query(
    `insert into batch.volume_observation (key, source, day, kind, volume)
     values ('reported', 'google', '2029-12-01', 'month', 1000), ('reported', 'google', '2029-12-30', 'month', 1100)`,
  )
  await record(report('2029-12-01', 900))
  await aggregate()
  expect((await volumesOf('reported')).months).toMatchObject([{ volume: 800 }, { volume: 900 }])
})
