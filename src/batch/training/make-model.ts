import { release } from '../../platform/release.ts'
import { countRows, type Examples, holdOut, rowsFrom, sliceExamples } from '../dataset/examples.ts'
import { daysKept, examplesOf, featureNames, horizonOfHistory } from '../dataset/features.ts'
import { calendarOf, dayName, dayOrdinal, type History, spanOf } from '../dataset/history.ts'
import { leastPlaces, leastShare, medianDaysFor } from '../dataset/label.ts'
import { importances } from '../learning/importance.ts'
import {
  type ClassifierMetrics,
  logLoss,
  logLossAmong,
  measure,
  type PairedDifference,
  pairedBootstrap,
  rowLosses,
} from '../learning/metrics.ts'
import { meetRivals, naiveRuleNames, type RivalLosses, sharesOf } from '../learning/rivals.ts'
import type { Watch } from '../learning/watch.ts'
import { withExpectations } from '../models/explain.ts'
import {
  classes,
  type Figures,
  type JudgedFigures,
  type Manifest,
  type NaiveFigures,
  type RankedLoss,
  type Samples,
} from '../models/manifest.ts'
import { type Model, predict } from '../models/model.ts'
import { artifactFormat, decodeModel, encodeModel, sha256Of } from '../models/model-codec.ts'
import { calibrationLimit, type GateVerdict, judge } from './gate.ts'
import { type Climb, climbLadder, type LadderOptions } from './ladder.ts'
import { classSharesOf, type LadderPlan, type RungName } from './ladder-plan.ts'

export type MakeRequest = {
  seed: number
  snapshot: { sha256: string; ranksSha256: string; volumesSha256: string }
  /** Of which keywords the history is. */
  sample: Sample
  /** The active model as it was judged, to be met on the same days, or why it cannot be; absent if there is none. */
  active: ActiveRival | { id: string; notComparable: string } | undefined
  /** What comes of a candidate that does not pass: it is kept as rejected, or class shares take its place. */
  onReject: 'keep' | 'class_shares'
}

/** Which share of the keywords was read, and about how many usable ranks all of them have; absent: what was read is all. */
export type Sample = { keywordsKept: number; ranksStored?: number }

/** `holdoutFrom`: the first day that it did not learn from. */
type ActiveRival = { id: string; judged: Uint8Array; holdoutFrom: string }

export type MadeModel =
  | { kind: 'insufficient_labels' }
  | {
      kind: 'made'
      manifest: Manifest
      artifact: Uint8Array
      judged: Uint8Array
      judgedSha256: string
      samples: Samples
    }

type Climbed = Extract<Climb, { kind: 'climbed' }>

/** Makes a model from a history and judges it. The same history, seed and rules give the same bytes. */
export async function makeModel(
  history: History,
  request: MakeRequest,
  options: Watch & Pick<LadderOptions, 'asideFor'> = {},
): Promise<MadeModel> {
  const horizonDays = horizonOfHistory(history)
  const examples = examplesOf(history, horizonDays)
  const climb = await climbLadder(examples, {
    classes: classes.length,
    horizonDays,
    seed: request.seed,
    ...options,
  })
  if (climb.kind === 'insufficient_labels') return climb

  const rivals = rivalsOf(examples, climb, horizonDays)
  const active = meet(climb, request)
  const verdict = judge({
    all: {
      examples: climb.chosen.holdout.examples,
      candidate: climb.chosen.holdout.logLoss,
      classShares: climb.classShares.logLoss,
      naiveRule: rivals.all.rules[rivals.all.best],
    },
    ranked: {
      examples: countRows(climb.holdout, 'ranked'),
      candidate: lossOnRanked(climb.chosen, climb.holdout),
      classShares: rivals.ranked.classShares,
      naiveRule: rivals.ranked.rules[rivals.ranked.best],
    },
    calibrationError: climb.chosen.holdout.calibrationError,
    againstActive: active && ('difference' in active ? active.difference : 'not_comparable'),
  })
  const fallsBack = verdict.decision === 'reject' && request.onReject === 'class_shares'
  const name = fallsBack ? ('prior' as const) : climb.plan.choice
  const judgedAs = fallsBack ? climb.rungs[0]! : climb.chosen
  const metrics: Manifest['metrics'] = {
    holdout: judgedFigures(judgedAs.holdout, judgedAs, climb.holdout),
    baseline_prior: {
      ...figuresOf(climb.classShares),
      confusion: climb.classShares.confusion,
      ranked: rankedLoss(rivals.ranked.classShares, climb.holdout),
    },
    baseline_naive: naiveFigures(rivals, climb.holdout),
    active_same_holdout:
      active && 'metrics' in active ? judgedFigures(active.metrics, active, active.holdout) : null,
    rungs: climb.rungs.map(({ name, validationLoss, holdout }) => ({
      name,
      validation_log_loss: validationLoss ?? null,
      holdout: figuresOf(holdout),
    })),
    importances: importancesOf(judgedAs.model, climb.holdout, request.seed),
  }
  // Waited for only now: what stands above was worked out while another thread trained it.
  const trained = await climb.model
  const model = fallsBack
    ? classSharesOf(examples, classes.length)
    : withExpectations(trained, someRows(examples))

  const artifact = encodeModel(model)
  const judged = encodeModel(judgedAs.model)
  const manifest: Manifest = {
    algorithm: { name, params: paramsOf(name, climb.plan), seed: request.seed },
    label: {
      classes,
      horizon_days: horizonDays,
      least_share: leastShare,
      least_places: leastPlaces,
      median_days: medianDaysFor(horizonDays),
    },
    features: featureNames,
    data: dataOf(history, examples, climb, request),
    metrics,
    rivals: {
      class_shares: sharesOf(examples, classes.length)[0]!,
      naive: { rule: rivals.all.best, shares: sharesOf(examples, classes.length, rivals.all.best) },
    },
    gate: gateOf(verdict, fallsBack, request.active?.id, active),
    calibration: {
      method: name === 'prior' ? 'none' : 'temperature',
      temperature: model.temperature,
      error: judgedAs.holdout.calibrationError,
      limit: calibrationLimit(judgedAs.holdout.examples),
    },
    artifact: { bytes: artifact.length, sha256: sha256Of(artifact), format: artifactFormat },
    environment: {
      release,
      node: process.version,
      v8: process.versions.v8,
      platform: process.platform,
      arch: process.arch,
    },
  }
  const samples = samplesOf(model, climb.holdout)
  return { kind: 'made', manifest, artifact, judged, judgedSha256: sha256Of(judged), samples }
}

type Rivals = { all: RivalLosses; ranked: RivalLosses }

/** What could be said without a model, learnt from the same days and met on the same hold-out. */
function rivalsOf(examples: Examples, { holdout }: Climbed, horizonDays: number): Rivals {
  const { past } = holdOut(examples, horizonDays)!
  return {
    all: meetRivals(past, holdout, classes.length, 'all'),
    ranked: meetRivals(past, holdout, classes.length, 'ranked'),
  }
}

/** What a model said of every row of the hold-out. */
type Said = { probabilities: Float64Array }

function lossOnRanked({ probabilities }: Said, holdout: Examples): number {
  return logLossAmong('ranked', probabilities, holdout, classes.length)
}

type Met =
  | (Said & { holdout: Examples; metrics: ClassifierMetrics; difference: PairedDifference })
  | { notComparable: string }

/**
 * How the active model does on those days of the candidate's hold-out that it has not learnt from either. That is all of
 * them unless older days were added since, or later ones taken away.
 */
function meet({ chosen, holdout: all }: Climbed, { active, seed }: MakeRequest): Met | undefined {
  if (!active) return undefined
  if ('notComparable' in active) return active
  const holdout = rowsFrom(all, dayOrdinal(active.holdoutFrom))
  const { columns, labels, groups } = holdout
  if (labels.length === 0) return { notComparable: 'no_common_days' }
  const ours = chosen.probabilities.subarray((all.labels.length - labels.length) * classes.length)
  const theirs = predict(decodeModel(active.judged), columns)
  const losses = [ours, theirs].map((probabilities) => rowLosses(probabilities, labels, classes.length))
  return {
    holdout,
    metrics: measure(theirs, labels, classes.length),
    probabilities: theirs,
    difference: pairedBootstrap(losses[0]!, losses[1]!, groups, seed),
  }
}

function paramsOf(name: RungName, plan: LadderPlan): Record<string, unknown> {
  const softmax = { l2: plan.softmaxL2 }
  const { seed: _, ...booster } = plan.booster
  const gbdt = {
    rounds: booster.rounds,
    learning_rate: booster.learningRate,
    max_leaves: booster.maxLeaves,
    min_leaf_rows: booster.minLeafRows,
    l2: booster.l2,
    column_sample: booster.columnSample,
  }
  switch (name) {
    case 'prior':
      return {}
    case 'softmax':
      return softmax
    case 'gbdt':
      return gbdt
    case 'blend':
      return { softmax, gbdt, gbdt_share: plan.boosterShare }
  }
}

function dataOf(
  history: History,
  examples: Examples,
  climb: Climbed,
  request: MakeRequest,
): Manifest['data'] {
  const { firstDay } = spanOf(history)!
  return {
    rows: history.days.length,
    examples: examples.labels.length,
    keywords: new Set(history.keywords).size,
    rows_stored: request.sample.ranksStored ?? history.days.length,
    keywords_kept: request.sample.keywordsKept,
    first_day: dayName(firstDay),
    last_day: dayName(calendarOf(history)!.days.at(-1)!),
    holdout_from: dayName(climb.holdoutFrom),
    days_kept: daysKept(history),
    snapshot_sha256: request.snapshot.sha256,
    ranks_sha256: request.snapshot.ranksSha256,
    volumes_sha256: request.snapshot.volumesSha256,
  }
}

function gateOf(
  { decision, checks, notApplied }: GateVerdict,
  fallsBack: boolean,
  activeId: string | undefined,
  met: Met | undefined,
): Manifest['gate'] {
  return {
    decision: fallsBack ? 'fall_back' : decision,
    checks: checks.map((check) => ({ ...check })),
    not_applied: notApplied,
    compared_with: activeId ?? null,
    not_comparable: met && 'notComparable' in met ? met.notComparable : null,
  }
}

function judgedFigures(metrics: ClassifierMetrics, said: Said, holdout: Examples): JudgedFigures {
  return {
    ...figuresOf(metrics),
    ranked: rankedLoss(lossOnRanked(said, holdout), holdout),
    confusion: metrics.confusion,
  }
}

function rankedLoss(loss: number, holdout: Examples): RankedLoss {
  const examples = countRows(holdout, 'ranked')
  return { examples, log_loss: examples === 0 ? null : loss }
}

function naiveFigures({ all, ranked }: Rivals, holdout: Examples): NaiveFigures {
  return {
    rule: all.best,
    examples: holdout.labels.length,
    log_loss: all.rules[all.best],
    ranked: { rule: ranked.best, ...rankedLoss(ranked.rules[ranked.best], holdout) },
    rules: naiveRuleNames.map((rule) => ({
      rule,
      log_loss: all.rules[rule],
      ranked_log_loss: rankedLoss(ranked.rules[rule], holdout).log_loss,
    })),
  }
}

export function figuresOf(metrics: ClassifierMetrics): Figures {
  return {
    examples: metrics.examples,
    log_loss: metrics.logLoss,
    accuracy: metrics.accuracy,
    auc_ovr: metrics.aucOvr ?? null,
    auc_rise_fall: metrics.aucRiseFall ?? null,
    calibration_error: metrics.calibrationError,
    reliability: metrics.reliability.map(({ from, to, examples, meanProbability, hitShare }) => ({
      from,
      to,
      examples,
      mean_probability: meanProbability,
      hit_share: hitShare,
    })),
  }
}

function importancesOf(model: Model, holdout: Examples, seed: number) {
  const labels = spread(holdout.labels, Uint8Array)
  const lossOf = (columns: Float32Array[]) => logLoss(predict(model, columns), labels, classes.length)
  return importances(someRows(holdout), lossOf, seed)
    .map((increase, at) => ({ feature: featureNames[at]!, loss_increase: increase }))
    .sort((one, other) => other.loss_increase - one.loss_increase)
}

const fewRows = 5_000

/** Rows spread over all of them, enough to know what a branch expects or what a feature is worth. */
function someRows({ columns }: Examples): Float32Array[] {
  return columns.map((column) => spread(column, Float32Array))
}

function spread<Column extends Float32Array | Uint8Array>(
  column: Column,
  Kind: { from(source: { length: number }, pick: (_: unknown, at: number) => number): Column },
): Column {
  const count = Math.min(fewRows, column.length)
  return Kind.from({ length: count }, (_, at) => column[Math.floor((at * column.length) / count)]!)
}

const sampleCount = 32

/** Rows spread over the hold-out, with what the model says of them. */
function samplesOf(model: Model, holdout: Examples): Samples {
  const count = Math.min(sampleCount, holdout.labels.length)
  const rows = Array.from({ length: count }, (_, at) => {
    const row = Math.floor((at * holdout.labels.length) / count)
    return sliceExamples(holdout, row, row + 1).columns.map((column) => column[0]!)
  })
  const columns = Array.from({ length: model.features }, (_, feature) =>
    Float32Array.from(rows, (row) => row[feature]!),
  )
  const probabilities = predict(model, columns)
  return {
    rows: rows.map((row) => row.map((value) => (Number.isNaN(value) ? null : value))),
    probabilities: rows.map((_, at) =>
      Array.from(probabilities.subarray(at * model.classes, (at + 1) * model.classes)),
    ),
  }
}
