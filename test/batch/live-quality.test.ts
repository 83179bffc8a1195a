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

test('one whose last day nobody checked is judged once that day is over in the service’s zone', async () => {
  // What was said on the 14th looks to the 21st.
  await store(world, 'ws_mine', [ranked('2030-01-19', 10), ranked('2030-01-20', 30)])
  await store(world, 'ws_early', [ranked('2030-01-21', 5)])
  expect(await score('2030-01-21T14:30:00Z', 'Asia/Seoul')).toMatchObject({ outcomes: 0 })
  expect(await score('2030-01-21T15:30:00Z', 'Asia/Seoul')).toMatchObject({ outcomes: 1 })
  expect((await told())[1]).toEqual({ day: '2030-01-14', outcome: 'fall' })
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
