import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { retireModel } from '../../src/batch/models/change-model.ts'
import type { RankObservation } from '../../src/batch/ranks/rank.ts'
import { verifyModel } from '../../src/batch/training/verify-model.ts'
import { demoKeywords, simulateRanks } from '../../src/demo/demo-batch.ts'
import { release } from '../../src/platform/release.ts'
import { type ServiceProcess, startService } from '../processes/service-process.ts'
import { openWorld, type World } from '../world.ts'
import { aimlessWeek, ended, run, runUntil, store, trigger } from './batch-story.ts'

const now = '2030-01-15T12:00:00Z'
const lastDay = '2030-01-14'

/** Enough to learn something, and small enough to learn it in seconds. */
const smallWorld = () => simulateRanks(demoKeywords().slice(0, 60), { days: 60, lastDay, seed: 1 })

const modelsOf = async (world: World) => (await world.get('/api/batch/models?limit=100')).body.data.models

describe('a first model', () => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({ now, worker: true })
    await store(world, 'ws', smallWorld())
  })
  afterAll(() => world.close())

  test('is trained, judged on the latest days and put to use, with a manifest that says how', async () => {
    const finished = await run(world, 'train_classifier')
    expect(finished).toMatchObject({
      status: 'succeeded',
      progress: 1,
      error: null,
      model_id: expect.any(String),
    })
    const { status, body } = await world.get(`/api/batch/models/${finished.model_id}`)
    expect(status).toBe(200)
    const model = body.data
    expect(Object.keys(model).sort()).toEqual(
      [
        'model_id',
        'task',
        'version',
        'status',
        'status_history',
        'run_id',
        'algorithm',
        'label',
        'features',
        'data',
        'metrics',
        'rivals',
        'gate',
        'calibration',
        'artifact',
        'environment',
        'created_at',
        'activated_at',
        'live_quality',
      ].sort(),
    )
    expect(model).toMatchObject({
      model_id: finished.model_id,
      run_id: finished.run_id,
      task: 'train_classifier',
      version: 1,
      status: 'active',
      algorithm: {
        name: expect.stringMatching(/^(softmax|gbdt|blend)$/),
        params: expect.any(Object),
        seed: 1,
      },
      label: { classes: ['rise', 'hold', 'fall'], horizon_days: 7 },
      data: {
        keywords: 60,
        last_day: lastDay,
        first_day: '2029-11-16',
        snapshot_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
      gate: { decision: 'promote' },
      artifact: {
        bytes: expect.any(Number),
        sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        format: expect.any(String),
      },
      created_at: expect.stringMatching(/\+00:00$/),
      activated_at: expect.stringMatching(/\+00:00$/),
    })
    expect(model.status_history.map(({ status }: { status: string }) => status)).toEqual([
      'candidate',
      'active',
    ])
    const { holdout, baseline_prior, baseline_naive, active_same_holdout } = model.metrics
    expect(baseline_prior.log_loss - holdout.log_loss).toBeGreaterThanOrEqual(0.002)
    expect(baseline_naive.log_loss - holdout.log_loss).toBeGreaterThanOrEqual(0.002)
    expect(active_same_holdout).toBeNull()
    expect(holdout).toEqual({
      examples: expect.any(Number),
      log_loss: expect.any(Number),
      accuracy: expect.any(Number),
      auc_ovr: expect.any(Number),
      auc_rise_fall: expect.any(Number),
      calibration_error: expect.any(Number),
      reliability: expect.any(Array),
      confusion: expect.any(Array),
      ranked: { examples: expect.any(Number), log_loss: expect.any(Number) },
    })
    const confused = holdout.confusion.flat().reduce((sum: number, count: number) => sum + count, 0)
    expect(confused).toBe(holdout.examples)
    const counted = holdout.reliability.reduce(
      (sum: number, { examples }: { examples: number }) => sum + examples,
      0,
    )
    expect(counted).toBe(holdout.examples)
    // The best of the three rules speaks, on all rows and on ranked ones.
    const { rules } = baseline_naive
    expect(rules.map(({ rule }: { rule: string }) => rule)).toEqual([
      'last_move',
      'week_slope',
      'distance_from_mean',
    ])
    const losses = rules.map(({ log_loss }: { log_loss: number }) => log_loss)
    expect(baseline_naive.log_loss).toBe(Math.min(...losses))
    expect(baseline_naive.ranked.log_loss - holdout.ranked.log_loss).toBeGreaterThanOrEqual(0.002)
    expect(model.gate.checks.map(({ name }: { name: string }) => name)).toEqual([
      'beats_class_shares',
      'beats_naive_rule',
      'beats_class_shares_ranked',
      'beats_naive_rule_ranked',
      'calibrated',
    ])
    const rows = await world.query(`select count(*)::int as count from batch.rank where status <> 'failed'`)
    expect(model.data.rows).toBe(rows[0]!['count'])
  })

  test('unchanged data train nothing: the run ends with the active model’s id', async () => {
    const [{ model_id }] = await modelsOf(world)
    // Today's ranks still come in, and no model looks at them before the day is over.
    await store(world, 'ws', [
      { keyword: demoKeywords()[0]!, day: '2030-01-15', status: 'ranked', position: 3 },
    ])
    expect(await run(world, 'classifier')).toMatchObject({
      status: 'succeeded',
      model_id,
      metrics: { decision: 'unchanged', model_status: 'active' },
    })
    expect(await modelsOf(world)).toHaveLength(1)
  })

  test('trained again on the same rows has the same bytes, if none is active', async () => {
    const [{ model_id }] = await modelsOf(world)
    await retireModel(world.app.batch, model_id)
    const again = await run(world, 'classifier')
    const [second, first] = await modelsOf(world)
    expect(second.model_id).toBe(again.model_id)
    expect(second.artifact.sha256).toBe(first.artifact.sha256)
    expect(second.data.snapshot_sha256).toBe(first.data.snapshot_sha256)
    expect([second.version, first.version]).toEqual([2, 1])
    expect([second.status, first.status]).toEqual(['active', 'retired'])
    expect(second.environment.release).toBe(release)
  })

  test('is verified by training it once more; later days do not matter', async () => {
    const [{ model_id }] = await modelsOf(world)
    expect(await verifyModel(world.app.batch, model_id)).toMatchObject({ verdict: 'same', changes: [] })
  })

  test('a corrected or added rank of earlier days is told as what it is', async () => {
    const [{ model_id, data }] = await modelsOf(world)
    await store(world, 'ws', [
      { keyword: demoKeywords()[0]!, day: '2030-01-10', status: 'ranked', position: 99 },
    ])
    const corrected = await verifyModel(world.app.batch, model_id)
    expect(corrected).toMatchObject({
      verdict: 'data_changed',
      changes: [expect.stringContaining('some were corrected')],
    })
    await store(world, 'ws_late', [{ keyword: 'late', day: '2030-01-10', status: 'ranked', position: 9 }])
    const added = await verifyModel(world.app.batch, model_id)
    expect(added.changes).toEqual([
      expect.stringContaining(`${data.rows + 1} usable rows of 61 keywords instead of ${data.rows} of 60`),
    ])
  })

  test('changed data are trained on, and the two are compared on the same days', async () => {
    const finished = await run(world, 'classifier')
    const [second, first] = await modelsOf(world)
    expect(second.model_id).toBe(finished.model_id)
    expect(second.gate).toMatchObject({ compared_with: first.model_id, not_comparable: null })
    expect(second.metrics.active_same_holdout.examples).toBe(second.metrics.holdout.examples)
    expect(second.gate.checks.at(-1)).toMatchObject({ name: 'not_worse_than_active', passed: true })
  })

  test('an active model whose judged copy is damaged is not compared with, and an alarm says so', async () => {
    const [active] = await modelsOf(world)
    await world.query(`update batch.model set judged = judged || '\\x00' where id = $1`, [active.model_id])
    // The data are as they were, and yet it is trained: what is damaged does not stay.
    const finished = await run(world, 'classifier')
    const [latest] = await modelsOf(world)
    expect(latest.model_id).toBe(finished.model_id)
    expect(latest.model_id).not.toBe(active.model_id)
    expect(latest.gate).toMatchObject({ compared_with: active.model_id, not_comparable: 'corrupt' })
    expect(latest.gate.checks.at(-1)).toMatchObject({ outcome: 'not_comparable', passed: null })
    expect(latest.metrics.active_same_holdout).toBeNull()
    // It took the other one's place, so nobody has to do anything any more.
    expect(latest.status).toBe('active')
    expect(await world.query(`select * from platform.alarm where kind = 'model_not_comparable'`)).toEqual([])
  })

  test('gives way to nothing worse: a candidate that has learnt from noise is rejected', async () => {
    const before = (await modelsOf(world))[0]
    await world.query('truncate batch.rank')
    await store(world, 'ws_noise', aimlessWeek())
    // Nor does one that could not be compared with: the alarm stays as long as it is in use.
    await world.query(`update batch.model set judged = judged || '\\x00' where id = $1`, [before.model_id])
    const finished = await run(world, 'classifier')
    expect(await world.query('select kind, subject from platform.alarm')).toEqual([
      { kind: 'model_not_comparable', subject: before.model_id },
    ])
    expect(finished).toMatchObject({
      status: 'succeeded',
      metrics: { decision: 'reject', model_status: 'rejected' },
    })
    const models = await modelsOf(world)
    expect(models[0]).toMatchObject({ model_id: finished.model_id, status: 'rejected', activated_at: null })
    expect(models[1]).toEqual(before)
  })

  test('stays when the history says nothing: a thousand rows of one day are no labels', async () => {
    const before = await modelsOf(world)
    await world.query('truncate batch.rank')
    const oneDay = Array.from(
      { length: 1000 },
      (_, at): RankObservation => ({
        keyword: `single ${at}`,
        day: lastDay,
        status: 'ranked',
        position: 1 + (at % 100),
      }),
    )
    await store(world, 'ws_day', oneDay)
    const finished = await run(world, 'classifier')
    expect(finished).toMatchObject({
      status: 'failed',
      error: { code: 'insufficient_labels' },
      model_id: null,
    })
    expect(await modelsOf(world)).toEqual(before)
  })
})

test('when nothing better can be had, class shares are the first model', async () => {
  const world = await openWorld({ now, worker: true })
  try {
    await store(world, 'ws', aimlessWeek())
    const finished = await run(world, 'classifier')
    expect(finished).toMatchObject({
      status: 'succeeded',
      metrics: { decision: 'fall_back', model_status: 'active' },
    })
    const models = await modelsOf(world)
    expect(models).toHaveLength(1)
    expect(models[0]).toMatchObject({
      status: 'active',
      algorithm: { name: 'prior' },
      gate: { decision: 'fall_back' },
    })
    expect(models[0].gate.checks.some(({ passed }: { passed: boolean }) => !passed)).toBe(true)
    expect(await verifyModel(world.app.batch, finished.model_id)).toMatchObject({ verdict: 'same' })
  } finally {
    await world.close()
  }
})

describe('real workers', () => {
  const workers: ServiceProcess[] = []
  const start = (world: World) => {
    const worker = startService(['work'], { ...world.environment, LOG_LEVEL: 'info' })
    workers.push(worker)
    return worker
  }
  afterEach(async () => {
    await Promise.all(workers.splice(0).map((worker) => worker.stop('SIGKILL')))
  })

  test('a worker that stops or is killed while it trains is replaced, and one model comes of it', async () => {
    const world = await openWorld({ now })
    try {
      await store(world, 'ws', simulateRanks(demoKeywords().slice(0, 150), { days: 90, lastDay, seed: 1 }))
      const polite = start(world)
      await polite.event('service.started')
      const { run_id } = (await trigger(world, 'classifier')).body.data
      await runUntil(world, run_id, ({ status, progress }) => status === 'running' && progress > 0.05)
      // Asked to stop, a worker gives its run back at once.
      const stoppingAt = performance.now()
      expect(await polite.stop('SIGTERM')).toBe(0)
      expect(performance.now() - stoppingAt).toBeLessThan(30_000)
      expect(await world.query('select status, takes from batch.run')).toEqual([
        { status: 'queued', takes: 0 },
      ])

      const first = start(world)
      await first.event('service.started')
      const underWay = await runUntil(
        world,
        run_id,
        ({ status, progress }) => status === 'running' && progress > 0.05,
      )
      expect((await trigger(world, 'classifier')).body.error.details[0].run_id).toBe(run_id)
      await first.stop('SIGKILL')

      await start(world).event('service.started')
      const finished = await ended(world, run_id)
      expect(finished).toMatchObject({ status: 'succeeded', started_at: underWay.started_at })
      expect(await world.query('select takes from batch.run where id = $1', [run_id])).toEqual([{ takes: 2 }])
      const models = await modelsOf(world)
      expect(models).toHaveLength(1)
      expect(models[0]).toMatchObject({ status: 'active', run_id, model_id: finished.model_id })
    } finally {
      await world.close()
    }
  })
})
