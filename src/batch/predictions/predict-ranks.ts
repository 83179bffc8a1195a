import { setImmediate as breathe } from 'node:timers/promises'
import type { BatchApp } from '../app.ts'
import { loadModel } from '../models/artifact.ts'
import { type ClassName, classes, type RegisteredModel } from '../models/manifest.ts'
import { type Model, predict } from '../models/model.ts'
import { CorruptModel } from '../models/model-codec.ts'
import { findActive } from '../models/model-rows.ts'
import { RunFailed } from '../runs/run.ts'
import { type RunInHand, workRun } from '../runs/work-run.ts'
import { featureNames, featuresOf } from '../training/features.ts'
import { dayName, type History, type SeriesName } from '../training/history.ts'
import { readHistory, type StoredHistory } from '../training/history-rows.ts'
import { listRegisteredIds, type NewPrediction, storePredictions } from './prediction-rows.ts'
import { scorePastPredictions } from './score-past-predictions.ts'

const blockSize = 2_000
const readingShare = 0.3
const scoringShare = 0.9

/** Foretells every registered keyword that has a usable rank, then looks how earlier predictions turned out. */
export async function predictRanks(app: BatchApp, { runId }: { runId: string }): Promise<void> {
  await workRun(app, runId, async (run) => {
    const active = await findActive(app.db, 'train_classifier')
    if (!active) throw new RunFailed('no_active_model')
    const model = await loadActive(app, active)
    const stored = await readHistory(app.db)
    run.report(readingShare)

    const predictions = await foretell(app, run, active, model, stored)
    run.report(scoringShare)
    const outcomes = await scorePastPredictions(app, stored)
    return async () => ({ modelId: active.id, metrics: { predictions, outcomes } })
  })
}

async function loadActive(app: BatchApp, active: RegisteredModel): Promise<Model> {
  try {
    const model = await loadModel(app, active)
    if (active.manifest.features.join() === featureNames.join()) return model
  } catch (error) {
    if (!(error instanceof CorruptModel)) throw error
  }
  throw new RunFailed('corrupt_model')
}

/** Block by block, with a pause after each: other requests of this process go on. */
async function foretell(
  app: BatchApp,
  run: RunInHand,
  active: RegisteredModel,
  model: Model,
  { history, series }: StoredHistory,
): Promise<number> {
  const leading = leadingSeries(history, series, await listRegisteredIds(app.db))
  const latest = Int32Array.from(leading, (at) => history.starts[at + 1]! - 1)
  const columns = featuresOf(
    history,
    latest,
    latest.map((_, row) => row),
  )
  const horizonDays = active.manifest.label.horizon_days
  for (let from = 0; from < leading.length; from += blockSize) {
    const to = Math.min(from + blockSize, leading.length)
    const probabilities = predict(
      model,
      columns.map((column) => column.subarray(from, to)),
    )
    const block = leading.slice(from, to).map(
      (at, row): NewPrediction => ({
        ...series[at]!,
        day: dayName(history.days[latest[from + row]!]!),
        ...verdictOf(probabilities.subarray(row * classes.length, (row + 1) * classes.length)),
      }),
    )
    await app.db.transaction().execute(async (tx) => {
      await app.fence(tx)
      await storePredictions(tx, active.id, horizonDays, block, app.clock())
    })
    run.report(readingShare + (scoringShare - readingShare) * (to / leading.length))
    run.signal.throwIfAborted()
    await breathe()
  }
  return leading.length
}

function verdictOf(row: Float64Array): { probabilities: Record<ClassName, number>; predicted: ClassName } {
  const top = row.indexOf(Math.max(...row))
  return { probabilities: { rise: row[0]!, hold: row[1]!, fall: row[2]! }, predicted: classes[top]! }
}

/**
 * The series that speaks for each registered keyword: the one checked last; of several, the one with most ranks, then
 * the first by engine, device and location. In the order of the history.
 */
export function leadingSeries(
  { starts, days }: History,
  series: readonly SeriesName[],
  registered: ReadonlySet<string>,
): number[] {
  const leading: number[] = []
  const lastDay = (at: number) => days[starts[at + 1]! - 1]!
  const ranks = (at: number) => starts[at + 1]! - starts[at]!
  for (const [at, { workspaceId, keywordId }] of series.entries()) {
    if (!registered.has(`${workspaceId}/${keywordId}`)) continue
    const before = leading.at(-1)
    const rival = before === undefined ? undefined : series[before]!
    if (before === undefined || rival?.keywordId !== keywordId || rival.workspaceId !== workspaceId) {
      leading.push(at)
    } else if (
      lastDay(at) > lastDay(before) ||
      (lastDay(at) === lastDay(before) && ranks(at) > ranks(before))
    ) {
      leading[leading.length - 1] = at
    }
  }
  return leading
}
