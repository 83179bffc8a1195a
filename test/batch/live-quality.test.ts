import { afterAll, beforeAll, expect, test } from 'vitest'
import { featureNames } from '../../src/batch/dataset/features.ts'
import { classes, type Manifest, type RegisteredModel } from '../../src/batch/models/manifest.ts'
import type { Prior } from '../../src/batch/models/model.ts'
import { insertCandidate } from '../../src/batch/models/model-rows.ts'
import { scoreAll } from '../../src/batch/predictions/predict-ranks.ts'
import { insertQueuedRun } from '../../src/batch/runs/run-rows.ts'
import { openWorld, type World } from '../world.ts'
import { store } from './batch-story.ts'

let world: World

/** Class shares that look a week ahead: the ends of a move are medians of three days. */
const model: Prior = {
  kind: 'prior',
  classes: classes.length,
  features: featureNames.length,
  temperature: 1,
  scores: Float64Array.of(Math.log(0.2), Math.log(0.5), Math.log(0.3)),
}
const manifest = {
  label: { classes, horizon_days: 7 },
  features: featureNames,
  data: {},
  rivals: {
    class_shares: [0.2, 0.5, 0.3],
    naive: { rule: 'last_move', shares: Array(4).fill([0.2, 0.5, 0.3]) },
  },
  artifact: { bytes: 1, sha256: '', format: '' },
} as unknown as Manifest
const active = { id: 'mdl_week', manifest } as RegisteredModel

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-21T04:30:00Z' })
  const now = world.app.batch.clock()
  const run = { id: 'run_week', task: 'train_classifier', trigger: 'manual', queuedAt: now } as const
  const stored = { artifact: Buffer.of(0), judged: Buffer.of(0), judgedSha256: '' }
  const samples = { rows: [], probabilities: [] }
  await world.app.batch.db.transaction().execute(async (tx) => {
    await insertQueuedRun(tx, run)
    const candidate = { id: active.id, task: run.task, runId: run.id, manifest, samples, createdAt: now }
    await insertCandidate(tx, { ...candidate, ...stored })
  })
})
afterAll(() => world.close())

/** What the thread that scores does, at a moment and in a zone. */
const score = (now: string, timeZone = 'UTC') =>
  scoreAll(
    { db: world.app.batch.db, fence: async () => {}, clock: () => new Date(now), timeZone },
    { active, model },
    () => {},
  )
const ranked = (day: string, position: number) => ({
  keyword: 'shoes',
  day,
  status: 'ranked' as const,
  position,
})
const told = () =>
  world.query(
    `select day, outcome from batch.prediction where workspace_id = 'ws_mine' and day > '2029-01-01' order by day`,
  )
const firstOf = async (workspace: string) =>
  (
    await world.query(
      'select day, outcome from batch.prediction where workspace_id = $1 order by day limit 1',
      [workspace],
    )
  )[0]

test('a prediction is judged by its own last day, whatever others have told of that day and the next', async () => {
  await store(world, 'ws_mine', [ranked('2030-01-07', 10), ranked('2030-01-08', 10)])
  expect(await score('2030-01-09T04:30:00Z')).toEqual({ predictions: 1, outcomes: 0 })

  // It looks a week ahead, to the 15th, of which others have told something, and even of the 16th.
  await store(world, 'ws_mine', [ranked('2030-01-13', 10), ranked('2030-01-14', 30)])
  await store(world, 'ws_early', [ranked('2030-01-15', 5)])
  await store(world, 'ws_ahead', [ranked('2030-01-16', 5)])
  expect(await score('2030-01-15T04:30:00Z')).toEqual({ predictions: 3, outcomes: 0 })
  // Nor do they move the day from which this one is predicted.
  expect(await told()).toEqual([
    { day: '2030-01-08', outcome: null },
    { day: '2030-01-14', outcome: null },
  ])

  // Without the rank of the 15th it would have fallen.
  await store(world, 'ws_mine', [ranked('2030-01-15', 10)])
  expect(await score('2030-01-15T04:40:00Z')).toMatchObject({ outcomes: 1 })
  expect(await told()).toEqual([
    { day: '2030-01-08', outcome: 'hold' },
    { day: '2030-01-14', outcome: null },
    { day: '2030-01-15', outcome: null },
  ])
  expect(await world.query('select day, examples from batch.live_quality')).toEqual([
    { day: '2030-01-08', examples: 1 },
  ])
})

test('one whose last day nobody has told is judged once that day is over for a week in the service’s zone', async () => {
  await store(world, 'ws_stopped', [ranked('2030-01-04', 10)])
  await score('2030-01-05T04:30:00Z')
  // It looks to the 11th, of which only others have told something.
  await store(world, 'ws_stopped', [ranked('2030-01-09', 10), ranked('2030-01-10', 30)])
  await store(world, 'ws_early', [ranked('2030-01-11', 5), ranked('2030-01-18', 5)])
  expect(await score('2030-01-18T14:30:00Z', 'Asia/Seoul')).toMatchObject({ outcomes: 0 })
  expect(await score('2030-01-18T15:30:00Z', 'Asia/Seoul')).toMatchObject({ outcomes: 1 })
  expect(await firstOf('ws_stopped')).toEqual({ day: '2030-01-04', outcome: 'fall' })
})

test('ranks that come days late, as those of Search Console do, all count', async () => {
  await store(world, 'ws_late', [ranked('2030-01-01', 10)])
  await score('2030-01-04T04:30:00Z')
  // It looks to the 8th. That day is over long before its rank is told, and the 6th alone would be a fall.
  await store(world, 'ws_late', [ranked('2030-01-06', 30)])
  expect(await score('2030-01-09T04:30:00Z')).toMatchObject({ outcomes: 0 })
  await store(world, 'ws_late', [ranked('2030-01-07', 10)])
  expect(await score('2030-01-10T04:30:00Z')).toMatchObject({ outcomes: 0 })
  await store(world, 'ws_late', [ranked('2030-01-08', 10)])
  expect(await score('2030-01-11T04:30:00Z')).toMatchObject({ outcomes: 1 })
  expect(await firstOf('ws_late')).toEqual({ day: '2030-01-01', outcome: 'hold' })
})

test('one whose series tells of a later day waits no longer', async () => {
  await store(world, 'ws_seldom', [ranked('2029-12-20', 10)])
  await score('2029-12-21T04:30:00Z')
  // It looks to the 27th.
  await store(world, 'ws_seldom', [ranked('2029-12-26', 30)])
  expect(await score('2029-12-30T04:30:00Z')).toMatchObject({ outcomes: 0 })
  await store(world, 'ws_seldom', [ranked('2029-12-29', 30)])
  expect(await score('2029-12-30T04:40:00Z')).toMatchObject({ outcomes: 1 })
  expect(await firstOf('ws_seldom')).toEqual({ day: '2029-12-20', outcome: 'fall' })
})

test('a rank that is dated ahead takes no day off what is kept', async () => {
  // 400 days before the 14th.
  await world.query(
    `insert into batch.prediction (workspace_id, keyword_id, engine, device, location, day, model_id, horizon_days, rise, hold,
       fall, predicted, usable_days, naive_sign, features, contributions, predicted_at)
     select workspace_id, keyword_id, engine, device, location, kept::date, model_id, horizon_days, rise, hold, fall, predicted,
       usable_days, naive_sign, features, contributions, predicted_at
     from batch.prediction, unnest('{2028-12-09,2028-12-10}'::text[]) kept
     where workspace_id = 'ws_mine' and day = '2030-01-08'`,
  )
  await score('2030-01-15T04:30:00Z')
  expect(
    await world.query(
      `select day from batch.prediction where workspace_id = 'ws_mine' and day < '2029-01-01'`,
    ),
  ).toEqual([{ day: '2028-12-10' }])
})
