import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BatchApp } from '../../src/batch/app.ts'
import { runDue } from '../../src/batch/due.ts'
import { batchJobs } from '../../src/batch/jobs.ts'
import type { RankObservation } from '../../src/batch/ranks/rank.ts'
import { workRun } from '../../src/batch/runs/work-run.ts'
import { openWorld, type World } from '../world.ts'
import { aimlessWeek, ended, run, store, trigger } from './batch-story.ts'

let world: World

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
})
afterAll(() => world.close())

/** As many ranks as asked for: 100 keywords a day, the last of them failed checks. */
function someRanks(count: number): RankObservation[] {
  return Array.from({ length: count }, (_, at) => {
    const checked = {
      keyword: `word ${at % 100}`,
      day: `2030-01-${String(1 + Math.floor(at / 100)).padStart(2, '0')}`,
    }
    return at % 10 === 9
      ? { ...checked, status: 'failed' }
      : { ...checked, status: 'ranked', position: 1 + (at % 50) }
  })
}

/** No worker runs here, so a test ends a run by hand. */
async function endRuns(): Promise<void> {
  await world.query(
    `update batch.run set status = 'failed', error_code = 'internal_error', started_at = queued_at, finished_at = queued_at
     where status in ('queued', 'running')`,
  )
}

describe('what a trigger asks for', () => {
  test('training waits for the thousandth row, whatever its status, and says how many there are', async () => {
    await store(world, 'ws_a', someRanks(999))
    const refused = await trigger(world, 'train_classifier')
    expect(refused.status).toBe(409)
    expect(refused.body.error).toMatchObject({
      code: 'preconditions_unmet',
      details: [
        {
          path: 'rank_history',
          code: 'not_enough_rows',
          message: expect.any(String),
          required: 1000,
          actual: 999,
          days: 10,
        },
      ],
    })
    // The thousandth is in another workspace, and failed.
    await store(world, 'ws_b', [{ keyword: 'other', day: '2030-01-11', status: 'failed' }])
    const accepted = await trigger(world, 'classifier')
    expect(accepted.status).toBe(202)
    expect(accepted.body.data).toEqual({
      run_id: expect.stringMatching(/^run_[0-9a-z]{26}$/),
      task: 'train_classifier',
      status: 'queued',
      preconditions: { rank_rows: 1000, rank_rows_required: 1000, usable_rows: 900, days: 11 },
    })
  })

  test('a second trigger of the task is told the run that is in the way; another task is not', async () => {
    const [run] = (await world.get('/api/batch/runs')).body.data.runs
    for (const name of ['train_classifier', 'classifier']) {
      const refused = await trigger(world, name)
      expect(refused.status).toBe(409)
      expect(refused.body.error.code).toBe('run_in_progress')
      expect(refused.body.error.details[0].run_id).toBe(run.run_id)
    }
    const aggregation = await trigger(world, 'aggregate_volumes')
    expect(aggregation.status).toBe(202)
    expect(aggregation.body.data.task).toBe('aggregate_volumes')
    await endRuns()
  })

  test('a run in the way is told before a missing row', async () => {
    const empty = await openWorld({ now: '2030-01-15T12:00:00Z' })
    try {
      await empty.query(
        `insert into batch.run (id, task, trigger, status, queued_at, leased_until)
         values ('run_x', 'train_classifier', 'manual', 'queued', now(), now())`,
      )
      expect((await trigger(empty, 'classifier')).body.error.code).toBe('run_in_progress')
      await empty.query(`delete from batch.run`)
      expect((await trigger(empty, 'classifier')).body.error.details[0]).toMatchObject({ actual: 0, days: 0 })
    } finally {
      await empty.close()
    }
  })

  test('of many triggers at once one starts a run', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => trigger(world, 'classifier')))
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses).toEqual([202, ...Array(9).fill(409)])
    const started = answers.find(({ status }) => status === 202)!.body.data.run_id
    for (const { status, body } of answers)
      if (status === 409) expect(body.error.details[0].run_id).toBe(started)
    const jobs = await world.query(`select 1 from graphile_worker.jobs where key = $1`, [started])
    expect(jobs.length).toBe(1)
    await endRuns()
  })

  test('predictions wait for an active model', async () => {
    const refused = await trigger(world, 'predict')
    expect(refused.status).toBe(409)
    expect(refused.body.error).toMatchObject({
      code: 'preconditions_unmet',
      details: [{ code: 'no_active_model', path: 'model', message: expect.any(String) }],
    })
  })

  test.each([
    [{ task: 'dance' }, 'unknown_task'],
    [{ task: '' }, 'unknown_task'],
    [{ task: 'TRAIN_CLASSIFIER' }, 'unknown_task'],
    [{}, 'validation_failed'],
    [{ task: 7 }, 'validation_failed'],
    [{ task: 'predict', force: true }, 'validation_failed'],
    [{ task: 'predict', workspace_id: 'a b' }, 'validation_failed'],
  ])('%j is malformed: %s', async (body, code) => {
    const answer = await world.post('/api/batch/trigger', body)
    expect([answer.status, answer.body.error.code]).toEqual([400, code])
  })

  test('a trigger needs the right to write, and its workspace has to be the token’s', async () => {
    const reader = await world.makeToken({ scopes: ['batch:read'], workspace: 'ws_a' })
    const writer = await world.makeToken({ scopes: ['batch:write'], workspace: 'ws_a' })
    expect((await trigger(world, 'classifier', reader)).status).toBe(403)
    expect(
      (await world.post('/api/batch/trigger', { task: 'predict', workspace_id: 'ws_b' }, { token: writer }))
        .status,
    ).toBe(403)
    expect((await trigger(world, 'aggregate_volumes', writer)).status).toBe(202)
    await endRuns()
  })
})

describe('looking at runs', () => {
  test('any token that may read sees all runs, newest first, page by page', async () => {
    const reader = await world.makeToken({ scopes: ['batch:read'], workspace: 'ws_other', account: null })
    const all = (await world.get('/api/batch/runs?limit=100', { token: reader })).body.data
    const ids = all.runs.map(({ run_id }: { run_id: string }) => run_id)
    expect(ids.length).toBeGreaterThan(3)
    expect(ids).toEqual([...ids].sort().reverse())
    expect(all.next_cursor).toBeNull()
    const seen: string[] = []
    let cursor = ''
    do {
      const { runs, next_cursor } = (await world.get(`/api/batch/runs?limit=2${cursor}`, { token: reader }))
        .body.data
      seen.push(...runs.map(({ run_id }: { run_id: string }) => run_id))
      cursor = next_cursor === null ? '' : `&cursor=${next_cursor}`
    } while (cursor)
    expect(seen).toEqual(ids)
  })

  test('a run shows every field', async () => {
    const started = await trigger(world, 'aggregate_volumes')
    const { status, body } = await world.get(`/api/batch/runs/${started.body.data.run_id}`)
    expect(status).toBe(200)
    expect(body.data).toEqual({
      run_id: started.body.data.run_id,
      task: 'aggregate_volumes',
      trigger: 'manual',
      status: 'queued',
      queued_at: expect.stringMatching(/^2030-01-15T12:.*\+00:00$/),
      started_at: null,
      finished_at: null,
      progress: 0,
      error: null,
      model_id: null,
      metrics: null,
    })
    await endRuns()
  })

  test.each(['run_00000000000000000000000000', 'run_1', 'nonsense', 'mdl_00000000000000000000000000'])(
    '%s is no run',
    async (id) => {
      const { status, body } = await world.get(`/api/batch/runs/${id}`)
      expect([status, body.error.code]).toEqual([404, 'run_not_found'])
    },
  )

  test('a foreign cursor is refused', async () => {
    const cursor = Buffer.from('["x"]').toString('base64url')
    expect((await world.get(`/api/batch/runs?cursor=${cursor}`)).status).toBe(400)
  })
})

describe('a run that loses its worker', () => {
  const queued = async () => (await trigger(world, 'aggregate_volumes')).body.data.run_id as string
  const found = async (id: string) => (await world.get(`/api/batch/runs/${id}`)).body.data

  test('ends as failed once every worker that took it up was lost', async () => {
    const runId = await queued()
    await world.query(
      `update batch.run set status = 'running', started_at = queued_at, takes = 3 where id = $1`,
      [runId],
    )
    await batchJobs['batch.aggregate-volumes']!.run(world.app.batch, { runId })
    expect(await found(runId)).toMatchObject({ status: 'failed', error: { code: 'worker_lost' } })
  })

  test('is put into the queue again when its job is gone', async () => {
    const runId = await queued()
    await world.query(`select graphile_worker.remove_job($1)`, [runId])
    expect(await runDue(world.app.batch)).toMatchObject({ runs_requeued: 0 })
    await world.query(
      `update batch.run set leased_until = clock_timestamp() - interval '1 second' where id = $1`,
      [runId],
    )
    expect(await runDue(world.app.batch)).toMatchObject({ runs_requeued: 1 })
    expect(await world.query(`select 1 from graphile_worker.jobs where key = $1`, [runId])).toHaveLength(1)
    expect(await runDue(world.app.batch)).toMatchObject({ runs_requeued: 0 })
    await endRuns()
  })

  test('cannot be settled by the one who wakes up late', async () => {
    const runId = await queued()
    let settled = false
    await workRun(world.app.batch, runId, async () => {
      // While this worker sleeps another takes the run up.
      await world.query('update batch.run set takes = takes + 1 where id = $1', [runId])
      return async () => {
        settled = true
        return {}
      }
    })
    expect(settled).toBe(false)
    expect(await found(runId)).toMatchObject({ status: 'running' })
    await endRuns()
  })

  test('a failure of ours ends it, and the job is told', async () => {
    const runId = await queued()
    const failing = workRun(world.app.batch, runId, async () => {
      throw new TypeError('a bug')
    })
    await expect(failing).rejects.toThrow(TypeError)
    expect(await found(runId)).toMatchObject({ status: 'failed', error: { code: 'internal_error' } })
    // The queue tries the job again; the run stays ended.
    await batchJobs['batch.aggregate-volumes']!.run(world.app.batch, { runId })
    expect(await found(runId)).toMatchObject({ status: 'failed' })
  })

  test('a process that stops gives its run back, and no worker counts as lost', async () => {
    const runId = await queued()
    const stopping = new AbortController()
    const app: BatchApp = { ...world.app.batch, stopping: stopping.signal }
    const stopped = workRun(app, runId, async (run) => {
      stopping.abort()
      run.signal.throwIfAborted()
      return async () => ({})
    })
    await expect(stopped).rejects.toThrow('goes back')
    expect(await found(runId)).toMatchObject({ status: 'queued' })
    expect(await world.query('select takes from batch.run where id = $1', [runId])).toEqual([{ takes: 0 }])
    await endRuns()
  })
})

test('tokens of one workspace start one training an hour, all of them together; a token for all starts any', async () => {
  const world = await openWorld({ now: '2030-01-15T12:00:00Z', worker: true })
  try {
    await store(world, 'ws_a', aimlessWeek())
    const tenant = (workspace: string) =>
      world.makeToken({ scopes: ['batch:write'], workspace, account: null })
    const [a, b] = [await tenant('ws_a'), await tenant('ws_b')]
    const first = await trigger(world, 'classifier', a)
    expect(first.status).toBe(202)
    // While it runs, that is the reason.
    await ended(world, first.body.data.run_id)
    for (const token of [a, b]) {
      const again = await trigger(world, 'classifier', token)
      expect([again.status, again.body.error.code]).toEqual([429, 'rate_limited'])
      const wait = Number(again.headers.get('retry-after'))
      expect(wait).toBeGreaterThan(3500)
      expect(wait).toBeLessThanOrEqual(3600)
    }
    expect((await trigger(world, 'predict', b)).status).toBe(202)
    expect(await run(world, 'classifier')).toMatchObject({ metrics: { decision: 'unchanged' } })
    await world.advanceBy('PT1H')
    const later = await trigger(world, 'classifier', b)
    expect(later.status).toBe(202)
    await ended(world, later.body.data.run_id)
    expect((await trigger(world, 'classifier', a)).status).toBe(429)
  } finally {
    await world.close()
  }
})
