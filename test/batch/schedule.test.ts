import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BatchApp } from '../../src/batch/app.ts'
import { runDue } from '../../src/batch/due.ts'
import { openSources } from '../../src/batch/sources/registry.ts'
import { openWorld, type World } from '../world.ts'
import { aimlessWeek, store } from './batch-story.ts'

let world: World
let now: Date
let app: BatchApp

/** The worker's sweep, at an instant of our choice. */
async function sweepAt(instant: string): Promise<Record<string, number>> {
  now = new Date(instant)
  return runDue(app)
}
const runs = () =>
  world.query<{ task: string; status: string; trigger: string; error_code: string | null }>(
    'select task, status, trigger, error_code from batch.run order by id',
  )

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
  app = {
    ...world.app.batch,
    clock: Object.assign(() => now, { sync: async () => {}, moveTo: async () => {} }),
    timeZone: 'Asia/Seoul',
    schedule: { aggregation: '30 0 * * *', training: '30 3 * * *', prediction: '30 4 * * *' },
  }
})
afterAll(() => world.close())

test('a fresh service waits for its first night, by the clocks of its zone', async () => {
  expect(await sweepAt('2030-01-15T12:00:00Z')).toMatchObject({ runs_queued: 0, runs_skipped: 0 })
  const slots = await world.query('select task, next_at from batch.schedule order by next_at')
  expect(slots).toEqual([
    { task: 'aggregate_volumes', next_at: new Date('2030-01-15T15:30:00Z') },
    { task: 'train_classifier', next_at: new Date('2030-01-15T18:30:00Z') },
    { task: 'predict', next_at: new Date('2030-01-15T19:30:00Z') },
  ])
  expect(await sweepAt('2030-01-15T15:29:59.999Z')).toMatchObject({ runs_queued: 0, runs_skipped: 0 })
})

test('at its time a task starts once, however many sweeps look', async () => {
  now = new Date('2030-01-15T15:30:00Z')
  const counts = await Promise.all(Array.from({ length: 5 }, () => runDue(app)))
  expect(counts.map(({ runs_queued }) => runs_queued).sort()).toEqual([0, 0, 0, 0, 1])
  expect(await runs()).toEqual([
    { task: 'aggregate_volumes', status: 'queued', trigger: 'schedule', error_code: null },
  ])
})

test('a run that cannot start is stored as skipped, with the reason', async () => {
  expect(await sweepAt('2030-01-15T18:30:00Z')).toMatchObject({ runs_queued: 0, runs_skipped: 1 })
  expect(await sweepAt('2030-01-15T19:30:00Z')).toMatchObject({ runs_queued: 0, runs_skipped: 1 })
  // Nobody has worked the aggregation of the day before.
  expect(await sweepAt('2030-01-16T15:30:00Z')).toMatchObject({ runs_queued: 0, runs_skipped: 1 })
  expect((await runs()).slice(1)).toEqual([
    { task: 'train_classifier', status: 'skipped', trigger: 'schedule', error_code: 'not_enough_rows' },
    { task: 'predict', status: 'skipped', trigger: 'schedule', error_code: 'no_active_model' },
    { task: 'aggregate_volumes', status: 'skipped', trigger: 'schedule', error_code: 'run_in_progress' },
  ])
  const [newest] = (await world.get('/api/batch/runs?limit=1')).body.data.runs
  expect(newest).toMatchObject({
    status: 'skipped',
    error: { code: 'run_in_progress', message: expect.any(String) },
  })
  expect(newest.finished_at).toBe(newest.queued_at)
})

test('a year of missed nights is one start of each task', async () => {
  await world.query('delete from batch.run')
  await store(world, 'ws', aimlessWeek())
  expect(await sweepAt('2031-01-15T12:00:00Z')).toMatchObject({ runs_queued: 2, runs_skipped: 1 })
  expect(await sweepAt('2031-01-15T12:00:01Z')).toMatchObject({ runs_queued: 0, runs_skipped: 0 })
  expect((await runs()).map(({ task, status }) => [task, status])).toEqual([
    ['aggregate_volumes', 'queued'],
    ['train_classifier', 'queued'],
    ['predict', 'skipped'],
  ])
  const [{ earliest }] = (await world.query<{ earliest: Date }>(
    'select min(next_at) as earliest from batch.schedule',
  )) as [{ earliest: Date }]
  expect(earliest).toEqual(new Date('2031-01-15T15:30:00Z'))
})

test('a changed timetable counts from now', async () => {
  app = { ...app, schedule: { ...app.schedule!, training: '0 6 * * 1' } }
  await sweepAt('2031-01-15T12:00:02Z')
  const [slot] = await world.query(`select next_at from batch.schedule where task = 'train_classifier'`)
  expect(slot).toEqual({ next_at: new Date('2031-01-19T21:00:00Z') })
})

test('moving the clock does not stop at the slots of the night', async () => {})

test('without a timetable nothing starts by itself', async () => {
  await world.query('delete from batch.schedule')
  const { schedule: _, ...bare } = app
  expect(await runDue(bare)).toMatchObject({ runs_queued: 0, runs_skipped: 0 })
  expect(await world.query('select 1 from batch.schedule')).toEqual([])
})

test('checks are looked for every five minutes, also in the hour that a zone repeats; nights keep to its clocks', async () => {
  await world.query('delete from batch.schedule')
  const serpapi = {
    name: 'serpapi',
    credentials: { key: 'sandbox-key-0001' },
    baseUrl: undefined,
    ratePerSecond: 1,
    budgetPerDay: 1,
    workspaceBudgetPerDay: 0,
  } as const
  const sources = openSources([serpapi])
  app = {
    ...app,
    sources,
    timeZone: 'Europe/Berlin',
    schedule: { aggregation: '30 2 * * *', training: '30 3 * * *', prediction: '30 4 * * *' },
  }
  const nextOf = async (task: string) =>
    (await world.query<{ next_at: Date }>('select next_at from batch.schedule where task = $1', [task]))[0]!
      .next_at
  // In Berlin it is two o'clock at 00:00 UTC, and again at 01:00 UTC.
  await sweepAt('2031-10-25T23:57:00Z')
  const looks: string[] = []
  for (const time of ['00:00', '00:55', '01:00', '01:55']) {
    await sweepAt(`2031-10-26T${time}:00Z`)
    looks.push((await nextOf('collect_ranks')).toISOString().slice(11, 16))
  }
  expect(looks).toEqual(['00:05', '01:00', '01:05', '02:00'])
  expect(await nextOf('aggregate_volumes')).toEqual(new Date('2031-10-27T01:30:00Z'))
  for (const source of sources.values()) source.close()
})
