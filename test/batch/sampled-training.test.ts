import { afterAll, beforeAll, expect, test } from 'vitest'
import { featuresOf } from '../../src/batch/dataset/features.ts'
import type { History, SeriesName } from '../../src/batch/dataset/history.ts'
import { readHistory, withHistoryInParts } from '../../src/batch/dataset/history-rows.ts'
import { gatherSurroundings, type Surroundings } from '../../src/batch/dataset/surroundings.ts'
import { loadModel } from '../../src/batch/models/artifact.ts'
import { checkModel } from '../../src/batch/models/check-model.ts'
import { predict } from '../../src/batch/models/model.ts'
import { findActive } from '../../src/batch/models/model-rows.ts'
import { predictRanks } from '../../src/batch/predictions/predict-ranks.ts'
import { scoreModel } from '../../src/batch/training/score-model.ts'
import { trainClassifier } from '../../src/batch/training/train-classifier.ts'
import { verifyModel } from '../../src/batch/training/verify-model.ts'
import { checkModelCommand } from '../../src/cli/check-model.ts'
import { demoKeywords, simulateRanks } from '../../src/demo/demo-batch.ts'
import { runCommand } from '../billing/run-command.ts'
import { openWorld, type World } from '../world.ts'
import { ended, run, store, trigger } from './batch-story.ts'

const lastDay = '2030-01-14'
/** Half of the keywords have fewer ranks than these, with all of their days. */
const mostRanks = 6_000

let world: World
let modelId: string

beforeAll(async () => {
  world = await openWorld({ now: '2030-01-15T12:00:00Z' })
  const words = demoKeywords()
  const ranks = (from: number, to: number, seed: number) =>
    simulateRanks(words.slice(from, to), { days: 60, lastDay, seed })
  await store(world, 'ws_large', ranks(0, 150, 1))
  await store(world, 'ws_small', ranks(150, 190, 2))
  await store(
    world,
    'ws_small',
    ranks(150, 160, 3).map((rank) => ({ ...rank, engine: 'google' })),
  )
})
afterAll(() => world.close())

/** As the worker does it, but for what is read at most. */
async function train(most: number) {
  const { data } = (await trigger(world, 'classifier')).body
  await trainClassifier(world.app.batch, { runId: data.run_id }, most)
  return { preconditions: data.preconditions, finished: await ended(world, data.run_id) }
}

const modelOf = async (id: string) => (await world.get(`/api/batch/models/${id}`)).body.data
const usable = async (where = 'true') =>
  (
    await world.query<{ n: number }>(
      `select count(*)::int as n from batch.rank where status <> 'failed' and ${where}`,
    )
  )[0]!.n
const read = (keywordsKept: number) => readHistory(world.app.batch.db, { until: lastDay, keywordsKept })
const idsOf = ({ series }: { series: readonly { workspaceId: string; keywordId: bigint }[] }) => [
  ...new Set(series.map(({ workspaceId, keywordId }) => `${workspaceId} ${keywordId}`)),
]

test('of more ranks than are read at most, a sample of the keywords trains a model, and the manifest says so', async () => {
  const stored = await usable()
  expect(stored).toBeGreaterThan(mostRanks)
  const { preconditions, finished } = await train(mostRanks)
  // What is told before speaks of all there is.
  expect(preconditions).toMatchObject({ usable_rows: stored, days: 60 })
  expect(finished).toMatchObject({ status: 'succeeded', metrics: { decision: 'promote' } })
  modelId = finished.model_id

  const { data, gate } = await modelOf(modelId)
  expect(gate.checks.map(({ name }: { name: string }) => name)).toContain('beats_naive_rule_ranked')
  expect(data).toMatchObject({ rows_stored: stored, keywords_kept: 0.5, days_kept: 1, last_day: lastDay })
  expect(data.rows).toBeLessThan(mostRanks * 1.2)
  expect(data.keywords).toBeLessThan(190)
  // Every rank of each keyword of the sample was read, in all of its series, and none of another.
  const sample = await read(0.5)
  const ids = idsOf(sample).map((name) => name.split(' ')[1])
  expect(sample.sha256).toBe(data.snapshot_sha256)
  expect(sample.history.days).toHaveLength(data.rows)
  expect(await usable(`keyword_id in (${ids.join(', ')})`)).toBe(data.rows)
  expect(sample.series.filter(({ engine }) => engine === 'google').length).toBeGreaterThan(0)
})

test('below that all are read, and nothing else comes of it than ever', async () => {
  const all = await read(1)
  expect(all.history.days).toHaveLength(await usable())
  expect(all.history.inSample).toBeUndefined()
  expect((await readHistory(world.app.batch.db, { until: lastDay })).sha256).toBe(all.sha256)
})

test('unchanged data train nothing, and another sample of them is not unchanged', async () => {
  expect((await train(mostRanks)).finished).toMatchObject({
    model_id: modelId,
    metrics: { decision: 'unchanged' },
  })
  expect((await read(0.5)).sha256).toBe((await read(0.5)).sha256)
  // Later keywords might belong to it, though none of today's does.
  const [half, hardlyLess] = [await read(0.5), await read(0.5 - 2 ** -40)]
  expect(idsOf(hardlyLess)).toEqual(idsOf(half))
  expect(hardlyLess.sha256).not.toBe(half.sha256)
})

test('a smaller sample is part of a larger one', async () => {
  const [all, most, half, few] = [await read(1), await read(0.8), await read(0.5), await read(0.1)].map(
    (found) => new Set(idsOf(found)),
  )
  for (const id of few!) expect(half).toContain(id)
  for (const id of half!) expect(most).toContain(id)
  expect([few!.size, half!.size, most!.size].every((size) => size > 0)).toBe(true)
  expect(most!.size).toBeLessThan(all!.size)
})

test('is whole and recent for whoever checks it, and tells what it has learnt from', async () => {
  const { data } = await modelOf(modelId)
  expect(await checkModel(world.app.batch, 'train_classifier', 8 * 86_400_000)).toMatchObject({
    verdict: 'good',
  })
  const { code, output } = await runCommand(checkModelCommand, [], world.environment)
  expect(code).toBe(0)
  expect(output).toContain(`${data.rows} of about ${data.rows_stored} usable ranks`)
})

test('a keyword of the sample knows the same of its surroundings when it is scored as when it taught', async () => {
  const sample = await read(0.5)
  const trained = latestOf(sample.history)
  const scored = new Map<string, number[]>()
  await withHistoryInParts(
    world.app.batch.db,
    async ({ calendar, each, eachWithoutVolumes }) => {
      const gathering = gatherSurroundings(calendar!, true)
      await eachWithoutVolumes(async ({ history }) => gathering.add(history))
      const around = gathering.end()
      await each(async ({ history, series }) => {
        const rows = latestOf(history, around)
        for (const [at, name] of series.entries()) scored.set(nameOf(name), rows[at]!)
      })
    },
    { keywordsKept: 0.5, size: 30 },
  )
  expect(scored.size).toBe(200)
  expect(sample.series.map((name) => scored.get(nameOf(name)))).toEqual(trained)
})

/** The features of the latest rank of each series. */
function latestOf(history: History, around?: Surroundings): number[][] {
  const latest = history.starts.slice(1).map((end) => end - 1)
  const columns = featuresOf(
    history,
    latest,
    latest.map((_, row) => row),
    around,
  )
  return Array.from(latest, (_, row) => columns.map((column) => column[row]!))
}

function nameOf({ workspaceId, keywordId, engine }: SeriesName): string {
  return `${workspaceId} ${keywordId} ${engine}`
}

test('every keyword is predicted, those of the sample from what the model has learnt from', async () => {
  const { data } = (await trigger(world, 'predict')).body
  await predictRanks(world.app.batch, { runId: data.run_id })
  expect(await ended(world, data.run_id)).toMatchObject({
    model_id: modelId,
    metrics: { predictions: 200 },
  })
  const { series, history } = await read(0.5)
  const active = (await findActive(world.app.batch.db, 'train_classifier'))!
  const rows = latestOf(history)
  const columns = active.manifest.features.map((_, feature) =>
    Float32Array.from(rows, (row) => row[feature]!),
  )
  const expected = predict(await loadModel(world.app.batch, active), columns)
  const said = await world.query<{ keyword_id: string; engine: string; rise: number }>(
    'select keyword_id::text, engine, rise from batch.prediction',
  )
  expect(
    series.map(
      (one) =>
        said.find(({ keyword_id, engine }) => keyword_id === `${one.keywordId}` && engine === one.engine)
          ?.rise,
    ),
  ).toEqual(series.map((_, at) => expected[3 * at]))
})

test('a workspace is scored by all of its keywords', async () => {
  const score = await scoreModel(world.app.batch, 'ws_small')
  if (typeof score === 'string') throw new Error(score)
  // 50 series with nearly eleven days of the hold-out whose outcome is known.
  expect(score.figures.examples).toBeGreaterThan(50 * 8)
  expect(score.figures.examples).toBeLessThan(50 * 12)
})

test('is trained again to the same bytes, whatever is added later or corrected outside the sample', async () => {
  const later = Array.from({ length: 300 }, (_, at) => `later ${at}`)
  await store(
    world,
    'ws_later',
    later.map((keyword) => ({ keyword, day: '2030-01-15', status: 'ranked' as const, position: 7 })),
  )
  await correct(false)
  expect(await verifyModel(world.app.batch, modelId)).toMatchObject({ verdict: 'same', changes: [] })
})

test('what is corrected within the sample changes what it was made from', async () => {
  await correct(true)
  expect(await verifyModel(world.app.batch, modelId)).toMatchObject({
    verdict: 'data_changed',
    changes: [expect.stringContaining('of the keywords it was made from')],
  })
})

/** Changes a rank of a keyword of the sample, or of another. */
async function correct(isInSample: boolean) {
  const sample = new Set(idsOf(await read(0.5)))
  const { series } = await read(1)
  const { workspaceId, keywordId } = series.find(
    (one) => sample.has(idsOf({ series: [one] })[0]!) === isInSample,
  )!
  await world.query(
    `update batch.rank set position = 99, status = 'ranked', searched_depth = 100
     where workspace_id = $1 and keyword_id = $2 and day = '2030-01-02'`,
    [workspaceId, String(keywordId)],
  )
}

test('a worker reads all of so few', async () => {
  const grown = await openWorld({ now: '2030-01-15T12:00:00Z', worker: true })
  try {
    await store(grown, 'ws', simulateRanks(demoKeywords().slice(0, 30), { days: 60, lastDay, seed: 1 }))
    const { model_id } = await run(grown, 'classifier')
    const { data } = (await grown.get(`/api/batch/models/${model_id}`)).body.data
    expect(data).toMatchObject({ rows_stored: data.rows, keywords_kept: 1 })
  } finally {
    await grown.close()
  }
})
