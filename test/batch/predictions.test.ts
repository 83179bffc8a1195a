import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { endRun, insertQueuedRun, takeRun } from '../../src/batch/runs/run-rows.ts'
import { fenceOfRun } from '../../src/batch/runs/work-run.ts'
import { writeCursor } from '../../src/platform/page.ts'
import { openWorld, type World } from '../world.ts'
import { aimlessWeek, run, store } from './batch-story.ts'

let world: World
let modelId: string

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z', worker: true })
  await store(world, 'ws_mine', aimlessWeek())
  modelId = (await run(world, 'classifier')).model_id
})
afterAll(() => world.close())

const predictionOf = (keyword: string, workspace = 'ws_mine', token?: string) =>
  world.get(
    `/api/batch/predictions/${encodeURIComponent(keyword)}?workspace_id=${workspace}`,
    token === undefined ? {} : { token },
  )
const ranked = (keyword: string, day: string, position: number, more = {}) => ({
  keyword,
  day,
  status: 'ranked' as const,
  position,
  searched_depth: 10_000,
  ...more,
})

test('before the first run there is none', async () => {
  const { status, body } = await predictionOf('aimless 1')
  expect([status, body.error.code]).toEqual([404, 'prediction_not_found'])
})

test('every registered keyword with a usable rank is predicted, and no other', async () => {
  await store(world, 'ws_other', [
    ranked('aimless 1', '2030-01-13', 5),
    { keyword: 'only failed', day: '2030-01-13', status: 'failed' },
    { keyword: 'not found', day: '2030-01-12', status: 'not_in_depth' },
    ranked('removed', '2030-01-13', 5),
  ])
  await world.post('/api/batch/keywords', { workspace_id: 'ws_other', keywords: ['never checked'] })
  await world.ask('DELETE', '/api/batch/keywords', {
    body: { workspace_id: 'ws_other', keywords: ['removed'] },
  })

  const finished = await run(world, 'predict')
  expect(finished).toMatchObject({ status: 'succeeded', model_id: modelId, metrics: { predictions: 202 } })
  const { status, body } = await predictionOf('AIMLESS 1')
  expect(status).toBe(200)
  expect(body.data).toEqual({
    keyword: 'aimless 1',
    engine: 'naver',
    device: 'mobile',
    location: 'KR',
    day: '2030-01-14',
    horizon_days: 1,
    probabilities: { rise: expect.any(Number), hold: expect.any(Number), fall: expect.any(Number) },
    predicted: expect.stringMatching(/^(rise|hold|fall)$/),
    // Class shares say the same of every keyword, for no reason.
    moved_by: [],
    model_id: modelId,
  })
  const { rise, hold, fall } = body.data.probabilities
  expect(rise + hold + fall).toBeCloseTo(1, 12)
  expect(body.data.probabilities[body.data.predicted]).toBe(Math.max(rise, hold, fall))
  expect((await predictionOf('not found', 'ws_other')).body.data.day).toBe('2030-01-12')
  for (const keyword of ['only failed', 'never checked', 'removed', 'unknown']) {
    expect((await predictionOf(keyword, 'ws_other')).status).toBe(404)
  }
})

test('a thread that lost its run, because another worker took it up or it ended, writes nothing', async () => {
  const { db, clock } = world.app.batch
  const run = { id: 'run_fenced', task: 'aggregate_volumes', trigger: 'manual', queuedAt: clock() } as const
  await db.transaction().execute((tx) => insertQueuedRun(tx, run))
  const pass = (take: number) => db.transaction().execute(fenceOfRun({ id: run.id, take }))
  const first = (await takeRun(db, run.id, clock()))!
  await expect(pass(first)).resolves.toBeUndefined()
  const second = (await takeRun(db, run.id, clock()))!
  await expect(pass(first)).rejects.toThrow('Another worker is in charge')
  await expect(pass(second)).resolves.toBeUndefined()
  await db.transaction().execute((tx) => endRun(tx, run.id, { status: 'succeeded' }, clock()))
  await expect(pass(second)).rejects.toThrow('Another worker is in charge')
})

test('probabilities come out as they were computed, to the last bit', async () => {
  const [row] = await world.query<{ rise: number }>(
    `select rise from batch.prediction where workspace_id = 'ws_mine' limit 1`,
  )
  expect((await predictionOf('aimless 1')).body.data.probabilities.rise).toBe(row!.rise)
})

// A cluster's spread tables have no triggers.
test.skipIf(inject('citusNodes').length > 0)(
  'the thread that scores keeps to the settings of the database as the service does',
  async () => {
    const environment = { DATABASE_QUERY_TIMEOUT_MS: '47000' }
    const careful = await openWorld({ now: '2030-01-15T12:00:00Z', worker: true, environment })
    try {
      await careful.query(`create table public.seen (application text, patience text)`)
      await careful.query(
        `create function public.see() returns trigger language plpgsql as $$ begin
           insert into public.seen select current_setting('application_name'), current_setting('statement_timeout');
           return null;
         end $$`,
      )
      await careful.query(
        'create trigger see after insert or update on batch.prediction for each statement execute function public.see()',
      )
      await store(careful, 'ws_mine', aimlessWeek())
      await run(careful, 'classifier')
      await run(careful, 'predict')
      expect(await careful.query('select distinct application, patience from public.seen')).toEqual([
        { application: 'rankledger scoring', patience: '47s' },
      ])
    } finally {
      await careful.close()
    }
  },
)

test('a token sees the predictions of its own workspace only', async () => {
  const other = await world.makeToken({ scopes: ['batch:read'], workspace: 'ws_other', account: null })
  expect((await predictionOf('aimless 1', 'ws_mine', other)).status).toBe(403)
  expect((await predictionOf('aimless 1', 'ws_other', other)).body.data.day).toBe('2030-01-13')
  expect((await predictionOf('aimless 2', 'ws_other', other)).status).toBe(404)
  const unnamed = await world.get('/api/batch/predictions/aimless%201', { token: other })
  expect(unnamed.body.data.day).toBe('2030-01-13')
})

test('a keyword that is none is refused as one', async () => {
  const { status, body } = await predictionOf('x'.repeat(81))
  expect([status, body.error.code]).toEqual([400, 'invalid_keyword'])
  expect((await world.get('/api/batch/predictions/a')).status).toBe(400)
})

test('every series is predicted; the one with most usable days speaks for a keyword unless another is named', async () => {
  await store(world, 'ws_series', [
    ranked('a', '2030-01-12', 5),
    ranked('a', '2030-01-13', 5),
    ranked('a', '2030-01-14', 5, { engine: 'google' }),
    ranked('b', '2030-01-14', 5, { engine: 'bing' }),
    ranked('b', '2030-01-14', 5, { engine: 'naver', device: 'desktop' }),
    ranked('b', '2030-01-13', 5, { engine: 'naver' }),
  ])
  await run(world, 'predict')
  const of = async (keyword: string, more = '') =>
    (await world.get(`/api/batch/predictions/${keyword}?workspace_id=ws_series${more}`)).body.data
  expect(await of('a')).toMatchObject({ engine: 'naver', day: '2030-01-13' })
  expect(await of('a', '&engine=google')).toMatchObject({ engine: 'google', day: '2030-01-14' })
  // As many days each: the one checked last, then the first by name.
  expect(await of('b')).toMatchObject({ engine: 'bing', device: 'mobile', location: 'KR' })
  expect(await of('b', '&engine=naver&device=mobile&location=KR')).toMatchObject({ day: '2030-01-13' })
  expect(await of('b', '&device=desktop')).toMatchObject({ engine: 'naver', device: 'desktop' })
  const none = await world.get('/api/batch/predictions/b?workspace_id=ws_series&engine=yahoo')
  expect([none.status, none.body.error.code]).toEqual([404, 'prediction_not_found'])
  const count = await world.query(
    `select count(*)::int as count from batch.prediction where workspace_id = 'ws_series'`,
  )
  expect(count).toEqual([{ count: 5 }])
})

test('once the horizon has passed, each model is told how its predictions turned out', async () => {
  expect((await world.get(`/api/batch/models/${modelId}`)).body.data.live_quality).toBeNull()
  const [{ probabilities }] = [(await predictionOf('aimless 1')).body.data]
  // One rises, one holds, one falls; the others are not checked on that day and stay open.
  const latest = await world.query<{ key: string; position: number }>(
    `select k.key, r.position from batch.rank r join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id
     where r.workspace_id = 'ws_mine' and r.day = '2030-01-14' and k.key in ('aimless 1', 'aimless 2', 'aimless 3') order by 1`,
  )
  const factors = [0.5, 1, 2]
  await store(
    world,
    'ws_mine',
    latest.map(({ key, position }, at) => ranked(key, '2030-01-15', Math.round(position * factors[at]!))),
  )
  expect(await run(world, 'predict')).toMatchObject({ metrics: { outcomes: 3 } })
  const { live_quality } = (await world.get(`/api/batch/models/${modelId}`)).body.data
  const losses = [probabilities.rise, probabilities.hold, probabilities.fall].map(
    (chance) => -Math.log(chance),
  )
  // The model is class shares, so it does as well as these; the naive rule on the same rows may do otherwise.
  const mean = (losses[0]! + losses[1]! + losses[2]!) / 3
  const quality = {
    examples: 3,
    log_loss: expect.closeTo(mean, 12),
    baseline_prior_log_loss: expect.closeTo(mean, 2),
    baseline_naive_log_loss: expect.any(Number),
    skill: expect.any(Number),
    until: '2030-01-14',
  }
  expect(live_quality).toEqual({ ...quality, last_28_days: quality })
  const { rivals } = (await world.get(`/api/batch/models/${modelId}`)).body.data
  const told = await world.query<{ naive_sign: number; outcome: string }>(
    `select naive_sign, outcome from batch.prediction where outcome is not null order by keyword_id`,
  )
  expect(told.map(({ outcome }) => outcome)).toEqual(['rise', 'hold', 'fall'])
  const naive = told.map(
    ({ naive_sign, outcome }) =>
      -Math.log(rivals.naive.shares[naive_sign][['rise', 'hold', 'fall'].indexOf(outcome)]),
  )
  expect(live_quality.baseline_naive_log_loss).toBeCloseTo((naive[0]! + naive[1]! + naive[2]!) / 3, 12)
  // Each counts once, and the next prediction stands on the new day.
  expect((await predictionOf('aimless 1')).body.data.day).toBe('2030-01-15')
  expect(await run(world, 'predict')).toMatchObject({ metrics: { outcomes: 0 } })
  expect((await world.get(`/api/batch/models/${modelId}`)).body.data.live_quality).toEqual(live_quality)
})

test('what was said and what came true stays, newest first', async () => {
  const historyOf = async (keyword: string, more = '') =>
    world.get(`/api/batch/predictions/${encodeURIComponent(keyword)}/history?workspace_id=ws_mine${more}`)
  const { status, body } = await historyOf('aimless 1')
  expect(status).toBe(200)
  expect(
    body.data.predictions.map(({ day, outcome, engine, model_id }: Record<string, string>) => [
      day,
      outcome,
      engine,
      model_id,
    ]),
  ).toEqual([
    ['2030-01-15', null, 'naver', modelId],
    ['2030-01-14', 'rise', 'naver', modelId],
  ])
  expect(body.data.next_cursor).toBeNull()
  const first = await historyOf('aimless 1', '&limit=1')
  expect(first.body.data.predictions[0].day).toBe('2030-01-15')
  const second = await historyOf('aimless 1', `&limit=1&cursor=${first.body.data.next_cursor}`)
  expect(second.body.data.predictions[0]).toMatchObject({ day: '2030-01-14', outcome: 'rise' })
  expect((await historyOf('unknown')).body.error.code).toBe('prediction_not_found')
  expect((await historyOf('aimless 1', '&cursor=nonsense')).status).toBe(400)
  const other = await world.makeToken({ scopes: ['batch:read'], workspace: 'ws_other', account: null })
  const foreign = await world.get('/api/batch/predictions/aimless%201/history?workspace_id=ws_mine', {
    token: other,
  })
  expect(foreign.status).toBe(403)
})

test('whoever turns the pages of what was said stays on one series, whichever has the most days by then', async () => {
  const told = (device: string, day: string, usableDays: number) =>
    world.query(
      `insert into batch.prediction (workspace_id, keyword_id, engine, device, location, day, model_id, horizon_days, rise,
                                     hold, fall, predicted, usable_days, naive_sign, features, contributions,
                                     predicted_at)
       select 'ws_mine', id, 'google', $1, 'KR', $2, $3, 1, 0.2, 0.6, 0.2, 'hold', $4, 0, '{}', '{}', now()
       from batch.keyword where workspace_id = 'ws_mine' and key = 'aimless 2'`,
      [device, day, modelId, usableDays],
    )
  for (const day of ['2029-12-01', '2029-12-02', '2029-12-03']) await told('desktop', day, 900)
  const ask = async (more: string) =>
    world.get(`/api/batch/predictions/aimless%202/history?workspace_id=ws_mine&limit=2${more}`)
  const first = (await ask('')).body.data
  for (const day of ['2029-12-01', '2029-12-02', '2029-12-03']) await told('tablet', day, 901)
  const cursor = `&cursor=${first.next_cursor}`
  const second = (await ask(cursor)).body.data
  const pages = [...first.predictions, ...second.predictions]
  expect(pages.map(({ device, day }: Record<string, string>) => [device, day])).toEqual([
    ['desktop', '2029-12-03'],
    ['desktop', '2029-12-02'],
    ['desktop', '2029-12-01'],
  ])
  expect(second.next_cursor).toBeNull()
  expect((await ask(`${cursor}&device=desktop`)).body.data).toEqual(second)
  const foreign = await ask(`${cursor}&device=tablet`)
  expect([foreign.status, foreign.body.error.details[0].code]).toEqual([400, 'invalid_cursor'])
  // A release before named no series in it.
  const former = writeCursor(['2029-12-03'])
  expect((await ask(`&cursor=${former}`)).body.data.predictions[0]).toMatchObject({
    device: 'tablet',
    day: '2029-12-02',
  })
  await world.query(`delete from batch.prediction where engine = 'google'`)
})

test('after 400 days it goes, but not the newest of its series', async () => {
  const told = (at: number, day: string) =>
    world.query(
      `insert into batch.prediction (workspace_id, keyword_id, engine, device, location, day, model_id, horizon_days, rise, hold,
         fall, predicted, usable_days, naive_sign, features, contributions, predicted_at)
       select workspace_id, keyword_id, engine, device, location, $2::date, model_id, horizon_days, rise, hold, fall, predicted,
         usable_days, naive_sign, features, contributions, predicted_at
       from batch.prediction where workspace_id = 'ws_mine' and keyword_id = (select id from batch.keyword where key = $1) limit 1`,
      [`aimless ${at}`, day],
    )
  // The last day that is over is 14 January 2030: 400 days before it is 10 December 2028.
  await told(5, '2028-12-09')
  await told(5, '2028-12-10')
  await told(6, '2028-12-09')
  await world.ask('DELETE', '/api/batch/keywords', {
    body: { workspace_id: 'ws_mine', keywords: ['aimless 6'] },
  })
  await world.query(
    `delete from batch.prediction p using batch.keyword k where k.workspace_id = p.workspace_id and k.id = p.keyword_id and k.key = 'aimless 6' and day > '2029-12-01'`,
  )
  await run(world, 'predict')
  const left = await world.query(
    `select k.key, p.day from batch.prediction p join batch.keyword k on k.workspace_id = p.workspace_id and k.id = p.keyword_id
     where k.key in ('aimless 5', 'aimless 6') order by 1, 2`,
  )
  expect(left).toEqual([
    { key: 'aimless 5', day: '2028-12-10' },
    { key: 'aimless 5', day: '2030-01-14' },
    { key: 'aimless 6', day: '2028-12-09' },
  ])
})

test('a model that was trained on other features is told apart from one that cannot be read', async () => {
  const drop = `update batch.model set manifest = manifest #- '{features,0}' where id = $1`
  const [{ manifest }] = (await world.query<{ manifest: object }>(
    'select manifest from batch.model where id = $1',
    [modelId],
  )) as [{ manifest: object }]
  await world.query(drop, [modelId])
  expect(await run(world, 'predict')).toMatchObject({ status: 'failed', error: { code: 'other_features' } })
  await world.query('update batch.model set manifest = $2 where id = $1', [modelId, manifest])
})

test('a model that cannot be read ends the run, and the predictions stay', async () => {
  await world.query(`update batch.model set artifact = '\\x00' where id = $1`, [modelId])
  // A whole copy in the cache would do.
  expect(await run(world, 'predict')).toMatchObject({ status: 'succeeded' })
  rmSync(join(world.environment['RANKLEDGER_DATA']!, 'models'), { recursive: true })
  expect(await run(world, 'predict')).toMatchObject({ status: 'failed', error: { code: 'corrupt_model' } })
  expect((await predictionOf('aimless 1')).status).toBe(200)
})
