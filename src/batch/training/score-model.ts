import type { BatchApp } from '../app.ts'
import { type Among, countRows, type Examples, rowsBefore, rowsFrom } from '../dataset/examples.ts'
import { examplesOf, featureNames } from '../dataset/features.ts'
import { dayName, dayOrdinal } from '../dataset/history.ts'
import { readHistory } from '../dataset/history-rows.ts'
import { lastCompleteDay } from '../dataset/last-complete-day.ts'
import { logLossAmong, measure } from '../learning/metrics.ts'
import { lossOfShares, type NaiveRule, naiveRuleNames, sharesOf } from '../learning/rivals.ts'
import { classes, type Figures, type RegisteredModel } from '../models/manifest.ts'
import { type Model, predict } from '../models/model.ts'
import { CorruptModel, decodeModel, sha256Of } from '../models/model-codec.ts'
import { findActive, findJudged } from '../models/model-rows.ts'
import { figuresOf } from './make-model.ts'

export type ModelScore = {
  model: RegisteredModel
  horizonDays: number
  /** The first and the last day whose moves were predicted. */
  firstDay: string
  lastDay: string
  figures: Figures
  /** Log-losses on all rows and on those ranked at both ends, where there are any. */
  losses: Scored[]
}

export type Scored = { name: 'model' | 'class_shares' | NaiveRule; all: number; ranked: number | null }

export type Unscored = 'no_active_model' | 'corrupt_model' | 'other_features' | 'no_rows'

/**
 * How well the active model would have done on one workspace's own history, beside what anybody could have said. It is
 * scored as it was judged: without having seen the days it is asked about, nor those whose outcomes tell of them. Its
 * rivals have learnt from the same days as it.
 */
export async function scoreModel(app: BatchApp, workspaceId: string): Promise<ModelScore | Unscored> {
  const active = await findActive(app.db, 'train_classifier')
  if (!active) return 'no_active_model'
  if (active.manifest.features.join() !== featureNames.join()) return 'other_features'
  const judged = await readJudged(app, active)
  if (!judged) return 'corrupt_model'

  const { history, series } = await readHistory(app.db, {
    until: lastCompleteDay(app),
    keywordsKept: active.manifest.data.keywords_kept ?? 1,
    workspace: workspaceId,
  })
  const { horizon_days: horizonDays } = active.manifest.label
  const from = dayOrdinal(active.manifest.data.holdout_from)
  const own = rowsFrom(
    examplesOf(history, horizonDays, 1, (at) => series[at]!.workspaceId === workspaceId),
    from,
  )
  if (own.labels.length === 0) return 'no_rows'
  const past = rowsBefore(examplesOf(history, horizonDays), from - horizonDays)

  const probabilities = predict(judged, own.columns)
  return {
    model: active,
    horizonDays,
    firstDay: dayName(own.days[0]!),
    lastDay: dayName(own.days.at(-1)!),
    figures: figuresOf(measure(probabilities, own.labels, classes.length)),
    losses: [
      {
        name: 'model',
        ...both(own, (among) => logLossAmong(among, probabilities, own, classes.length)),
      },
      { name: 'class_shares', ...rivalLosses(past, own) },
      ...naiveRuleNames.map((rule) => ({ name: rule, ...rivalLosses(past, own, rule) })),
    ],
  }
}

async function readJudged(app: BatchApp, { id }: RegisteredModel): Promise<Model | undefined> {
  const judged = await findJudged(app.db, id)
  if (!judged || sha256Of(judged.bytes) !== judged.sha256) return undefined
  try {
    return decodeModel(judged.bytes)
  } catch (error) {
    if (error instanceof CorruptModel) return undefined
    throw error
  }
}

function both(rows: Examples, lossAmong: (among: Among) => number): { all: number; ranked: number | null } {
  return { all: lossAmong('all'), ranked: countRows(rows, 'ranked') === 0 ? null : lossAmong('ranked') }
}

/** On ranked rows a rival has learnt from ranked rows. */
function rivalLosses(
  past: Examples,
  own: Examples,
  rule?: NaiveRule,
): { all: number; ranked: number | null } {
  return both(own, (among) => lossOfShares(sharesOf(past, classes.length, rule, among), own, rule, among))
}
