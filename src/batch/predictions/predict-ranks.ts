import { threadScript } from '../../platform/package-files.ts'
import { pieces } from '../../platform/pieces.ts'
import type { BatchApp } from '../app.ts'
import { columnOf, featureNames, featuresOf } from '../dataset/features.ts'
import { dayName, dayOrdinal } from '../dataset/history.ts'
import { type HistoryInParts, type HistoryPart, withHistoryInParts } from '../dataset/history-rows.ts'
import { lastCompleteDay } from '../dataset/last-complete-day.ts'
import { gatherSurroundings, type Surroundings } from '../dataset/surroundings.ts'
import { type NaiveRule, naiveRules, signOf } from '../learning/rivals.ts'
import { loadModel } from '../models/artifact.ts'
import { predictWithReasons, type Reasons } from '../models/explain.ts'
import { classes, type RegisteredModel } from '../models/manifest.ts'
import type { Model } from '../models/model.ts'
import { CorruptModel } from '../models/model-codec.ts'
import { findActive } from '../models/model-rows.ts'
import { oneBehind } from '../one-behind.ts'
import { RunFailed } from '../runs/run.ts'
import { workInThread } from '../runs/work-in-thread.ts'
import { workRun } from '../runs/work-run.ts'
import { type NewPrediction, type Reason, storePredictions } from './prediction-rows.ts'
import { forgetOldPredictions, type ScoringApp, scorePastPredictions } from './score-past-predictions.ts'

const blockSize = 2_000
/** After so many rows what is being stored and read meanwhile may take its next step. */
const rowsAtOnce = 256
const surroundingsShare = 0.3

/** Predicts every series of a registered keyword that has a usable rank, then looks how earlier predictions turned out. */
export async function predictRanks(app: BatchApp, { runId }: { runId: string }): Promise<void> {
  await workRun(app, runId, async (run) => {
    const active = await findActive(app.db, 'train_classifier')
    if (!active) throw new RunFailed('no_active_model')
    const model = await loadActive(app, active)
    const work: ScoringWork = {
      run: run.id,
      take: run.take,
      now: app.clock(),
      timeZone: app.timeZone,
      connection: app.connection,
      active,
      model,
    }
    const metrics = await workInThread<ScoringMetrics>(threadScript('score'), work, {
      signal: run.signal,
      onProgress: run.report,
    })
    return async () => ({ modelId: active.id, metrics })
  })
}

/** What a thread needs to score on its own, with a connection of its own. */
export type ScoringWork = {
  run: string
  take: number
  now: Date
  timeZone: string
  connection: BatchApp['connection']
  active: RegisteredModel
  model: Model
}

type ScoringMetrics = { predictions: number; outcomes: number }

/**
 * The work itself, which a thread does: once through the history to learn what surrounds each rank, once more to predict
 * and to look back, some thousand series at a time, so that memory does not grow with the number of keywords.
 */
export async function scoreAll(
  app: ScoringApp,
  { active, model }: Pick<ScoringWork, 'active' | 'model'>,
  report: (fraction: number) => void,
): Promise<ScoringMetrics> {
  const metrics: ScoringMetrics = { predictions: 0, outcomes: 0 }
  // What surrounds a rank is told by the keywords that it was told by when the model learnt.
  const { keywords_kept: keywordsKept = 1 } = active.manifest.data
  const scoreParts = async ({ calendar, each, eachWithoutVolumes }: HistoryInParts) => {
    if (!calendar) return
    const ranks = calendar.rows.reduce((sum, count) => sum + count, 0)
    let passed = 0
    const gathering = gatherSurroundings(calendar, keywordsKept < 1)
    await eachWithoutVolumes(async ({ history }) => {
      gathering.add(history)
      passed += history.days.length
      report(surroundingsShare * (passed / ranks))
    })
    const around = gathering.end()
    const knownUntil = calendar.days.at(-1)!
    const lastDay = lastCompleteDay(app)
    const completeUntil = Math.min(knownUntil, dayOrdinal(lastDay))
    const horizonDays = active.manifest.label.horizon_days
    passed = 0
    const storing = oneBehind<void>()
    const store = async (block: NewPrediction[]) => {
      await storing.begin(() =>
        app.db.transaction().execute(async (tx) => {
          await app.fence(tx)
          const saying = { modelId: active.id, horizonDays, lastCompleteDay: lastDay, now: app.clock() }
          await storePredictions(tx, saying, block)
        }),
      )
    }
    await each(async (part) => {
      metrics.predictions += await predictPart(store, active, model, part, around)
      metrics.outcomes += await scorePastPredictions(app, part, { knownUntil, completeUntil })
      passed += part.history.days.length
      report(surroundingsShare + (1 - surroundingsShare) * (passed / ranks))
    })
    await storing.ended()
    await forgetOldPredictions(app, completeUntil)
  }
  await withHistoryInParts(app.db, scoreParts, { keywordsKept })
  return metrics
}

async function loadActive(app: BatchApp, active: RegisteredModel): Promise<Model> {
  if (active.manifest.features.join() !== featureNames.join()) throw new RunFailed('other_features')
  try {
    return await loadModel(app, active)
  } catch (error) {
    if (error instanceof CorruptModel) throw new RunFailed('corrupt_model')
    throw error
  }
}

/** Predicts the series of a part whose keywords are registered. */
async function predictPart(
  store: (block: NewPrediction[]) => Promise<void>,
  active: RegisteredModel,
  model: Model,
  { history, series }: HistoryPart,
  around: Surroundings,
): Promise<number> {
  const chosen = series.flatMap(({ isRegistered }, at) => (isRegistered ? [at] : []))
  const latest = Int32Array.from(chosen, (at) => history.starts[at + 1]! - 1)
  const columns = featuresOf(
    history,
    latest,
    latest.map((_, row) => row),
    around,
  )
  const naive = columns[columnOf[naiveRules[active.manifest.rivals.naive.rule as NaiveRule]]]!
  for (let from = 0; from < chosen.length; from += blockSize) {
    const block: NewPrediction[] = []
    for await (const rows of pieces(chosen.slice(from, from + blockSize), rowsAtOnce)) {
      const first = from + block.length
      const part = columns.map((column) => column.subarray(first, first + rows.length))
      const { probabilities, tops, reasons } = predictWithReasons(model, part)
      for (const [row, at] of rows.entries()) {
        block.push({
          series: series[at]!,
          day: dayName(history.days[latest[first + row]!]!),
          probabilities: {
            rise: probabilities[row * classes.length]!,
            hold: probabilities[row * classes.length + 1]!,
            fall: probabilities[row * classes.length + 2]!,
          },
          predicted: classes[tops[row]!]!,
          usableDays: history.starts[at + 1]! - history.starts[at]!,
          naiveSign: signOf(naive[first + row]!),
          reasons: reasonsOf(reasons, row),
        })
      }
    }
    await store(block)
  }
  return chosen.length
}

function reasonsOf({ columns, contributions, perRow }: Reasons, row: number): Reason[] {
  const places = Array.from({ length: perRow }, (_, at) => row * perRow + at)
  return places
    .filter((at) => columns[at]! >= 0)
    .map((at) => ({ feature: featureNames[columns[at]!]!, contribution: contributions[at]! }))
}
