import { readFileSync } from 'node:fs'
import { predictWithReasons } from '../src/batch/models/explain.ts'
import type { Samples } from '../src/batch/models/manifest.ts'
import { decodeModel } from '../src/batch/models/model-codec.ts'
import { addMovingRanks } from './moving-ranks.ts'
import { memoryOf } from './process-memory.ts'
import { type BenchResult, median } from './result.ts'
import { runTask } from './run-task.ts'
import { sized } from './size.ts'
import { openStage, type Stage } from './stage.ts'

const KEYWORDS = Number(process.env['BENCH_KEYWORDS'] ?? sized(1_000_000, 2_000))
const DAYS = 3
const MOST_MEGABYTES = 500
const MOST_MS = 100
/** Hundredths of a second that the host may take in a second and a little for the second to count as ours. */
const MOST_STOLEN_TICKS = 2

/** Every keyword of a large installation is scored while the same process answers: how long it takes, how much it holds. */
export async function bench(): Promise<BenchResult[]> {
  const stage = await openStage()
  try {
    await fillToTrain(stage)
    const trainer = await stage.start('./serve-process.ts')
    await runTask(stage, trainer, 'classifier')
    trainer.process.kill('SIGKILL')
    await fillToScore(stage)

    // A process of its own, so that what it holds is what scoring takes.
    const scorer = await stage.start('./serve-process.ts')
    const scoring = runTask(stage, scorer, 'predict')
    let mostMs = 0
    let mostMsOnOwnCores = 0
    let ended = false
    void scoring.finally(() => {
      ended = true
    })
    while (!ended) {
      const stolen = stolenTicks()
      const { mostMs: slowest } = await stage.load({
        port: scorer.port,
        connections: 2,
        seconds: 1,
        pauseMs: 20,
        method: 'GET',
        path: '/healthz',
        spread: 1,
      })
      mostMs = Math.max(mostMs, slowest)
      if (stolenTicks() - stolen <= MOST_STOLEN_TICKS) mostMsOnOwnCores = Math.max(mostMsOnOwnCores, slowest)
    }
    const { seconds, predictions } = await scoring
    const peak = memoryOf(scorer.process.pid!, 'peak')
    const alone = await modelAlone(stage)
    const scored = `scoring ${predictions.toLocaleString('en')} keywords`
    return [
      {
        promise: `${scored}, peak memory of API and worker together`,
        unit: 'MB',
        ours: peak,
        floor: MOST_MEGABYTES,
        ratio: peak / MOST_MEGABYTES,
        goal: `at most ${MOST_MEGABYTES} MB`,
      },
      {
        promise: `${scored}, slowest answer of the same process meanwhile`,
        unit: 'ms',
        ours: mostMs,
        floor: MOST_MS,
        ratio: mostMs / MOST_MS,
        goal: `at most ${MOST_MS} ms where nobody else uses the cores`,
      },
      {
        promise: 'the same, in the seconds in which the host left the cores to this machine',
        unit: 'ms',
        ours: mostMsOnOwnCores,
        floor: MOST_MS,
        ratio: mostMsOnOwnCores / MOST_MS,
        goal: `at most ${MOST_MS} ms`,
      },
      {
        promise: `${scored}, from trigger to end`,
        unit: 'keywords/s',
        ours: predictions / seconds,
        floor: 2_000,
        ratio: predictions / seconds / 2_000,
        goal: 'at least 2,000 keywords/s',
      },
      {
        promise: 'the same, beside the model alone on a ready matrix in one thread, with reasons',
        unit: 'keywords/s',
        ours: predictions / seconds,
        floor: alone,
        ratio: predictions / seconds / alone,
        goal: 'at least 0.6 of it',
      },
    ]
  } finally {
    await stage.close()
  }
}

/** How many rows a second the active model tells, with its reasons, where nothing is read and nothing written. */
async function modelAlone(stage: Stage): Promise<number> {
  const { rows } = await stage.db.query<{ artifact: Buffer; samples: Samples }>(
    "select artifact, samples from batch.model where status = 'active'",
  )
  const model = decodeModel(rows[0]!.artifact)
  const samples = rows[0]!.samples.rows
  const columns = Array.from({ length: model.features }, (_, feature) =>
    Float32Array.from(
      { length: matrixRows },
      (__, row) => samples[row % samples.length]![feature] ?? Number.NaN,
    ),
  )
  const rates = Array.from({ length: 5 }, () => {
    const startedAt = performance.now()
    predictWithReasons(model, columns)
    return matrixRows / ((performance.now() - startedAt) / 1000)
  })
  return median(rates)
}

const matrixRows = 20_000

async function fillToTrain(stage: Stage): Promise<void> {
  await stage.db.query(`
    insert into batch.keyword (workspace_id, key, display, created_at)
    select 'ws_train', 'word ' || n, 'word ' || n, now() from generate_series(1, 300) n`)
  await addMovingRanks(stage, '2026-05-01')
}

async function fillToScore(stage: Stage): Promise<void> {
  await stage.db.query(`
    insert into batch.keyword (workspace_id, key, display, created_at)
    select 'ws_' || n % 200, 'term ' || n, 'term ' || n, now() from generate_series(1, ${KEYWORDS}) n`)
  await stage.db.query(`
    insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, checked_at)
    select k.workspace_id, k.id, d::date, 'naver', 'mobile', 'KR', 'ranked', 1 + (k.id + extract(doy from d)::int * 7) % 100, 100, d
    from generate_series('2026-07-19'::date - ${DAYS - 1}, '2026-07-19'::date, '1 day') d, batch.keyword k
    where k.workspace_id <> 'ws_train'`)
  await stage.db.query('analyze')
}

/** Processor time that the host gave to others while this machine wanted it; Linux alone tells it. */
function stolenTicks(): number {
  if (process.platform !== 'linux') return 0
  return Number(readFileSync('/proc/stat', 'utf8').split('\n')[0]!.split(/\s+/)[8])
}
