import { classes, type Figures, type Manifest, type Samples } from '../models/manifest.ts'
import { type Model, predict } from '../models/model.ts'
import { artifactFormat, decodeModel, encodeModel, sha256Of } from '../models/model-codec.ts'
import { type Examples, sliceExamples } from './examples.ts'
import { examplesOf, featureNames, horizonOfHistory } from './features.ts'
import { calibrationLimit, judge, type Verdict } from './gate.ts'
import { dayName, type History, spanOf } from './history.ts'
import { leastPlaces, leastShare, medianDaysFor } from './label.ts'
import { type Climb, climbLadder } from './ladder.ts'
import { classSharesOf, type LadderPlan, type RungName } from './ladder-plan.ts'
import { type Metrics, measure, type PairedDifference, pairedBootstrap, rowLosses } from './metrics.ts'
import type { Watch } from './watch.ts'

export type MakeRequest = {
  seed: number
  snapshotSha256: string
  /** The active model as it was judged, to be met on the same hold-out; absent if there is none to compare with. */
  active: { id: string; judged: Uint8Array } | undefined
  /** What comes of a candidate that does not pass: it is kept as rejected, or class shares take its place. */
  onReject: 'keep' | 'class_shares'
}

export type Made =
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
export function makeModel(history: History, request: MakeRequest, watch: Watch = {}): Made {
  const horizonDays = horizonOfHistory(history)
  const examples = examplesOf(history, horizonDays)
  const climb = climbLadder(examples, { classes: classes.length, horizonDays, seed: request.seed, ...watch })
  if (climb.kind === 'insufficient_labels') return climb

  const rival = meet(climb, request)
  const verdict = judge({
    candidate: climb.chosen.holdout,
    classShares: climb.classShares,
    againstActive: rival?.difference,
  })
  const fallsBack = verdict.decision === 'reject' && request.onReject === 'class_shares'
  const outcome = fallsBack
    ? { model: classSharesOf(examples, classes.length), judged: climb.rungs[0]!, name: 'prior' as const }
    : { model: climb.model, judged: climb.chosen, name: climb.plan.choice }

  const artifact = encodeModel(outcome.model)
  const judged = encodeModel(outcome.judged.model)
  const manifest: Manifest = {
    algorithm: { name: outcome.name, params: paramsOf(outcome.name, climb.plan), seed: request.seed },
    label: {
      classes,
      horizon_days: horizonDays,
      least_share: leastShare,
      least_places: leastPlaces,
      median_days: medianDaysFor(horizonDays),
    },
    features: featureNames,
    data: dataOf(history, examples, climb, request),
    metrics: {
      holdout: figuresOf(outcome.judged.holdout),
      baseline_prior: figuresOf(climb.classShares),
      active_same_holdout: rival ? figuresOf(rival.metrics) : null,
      rungs: climb.rungs.map(({ name, validationLoss, holdout }) => ({
        name,
        validation_log_loss: validationLoss ?? null,
        holdout: figuresOf(holdout),
      })),
    },
    gate: gateOf(verdict, fallsBack, rival && request.active?.id),
    calibration: {
      method: outcome.name === 'prior' ? 'none' : 'temperature',
      temperature: outcome.model.temperature,
      error: outcome.judged.holdout.calibrationError,
      limit: calibrationLimit(outcome.judged.holdout.examples),
    },
    artifact: { bytes: artifact.length, sha256: sha256Of(artifact), format: artifactFormat },
    environment: {
      node: process.version,
      v8: process.versions.v8,
      platform: process.platform,
      arch: process.arch,
    },
  }
  const samples = samplesOf(outcome.model, climb.holdout)
  return { kind: 'made', manifest, artifact, judged, judgedSha256: sha256Of(judged), samples }
}

type Rival = { metrics: Metrics; difference: PairedDifference }

/** How the active model does on the candidate's hold-out. It has not seen these days either: it was judged earlier. */
function meet({ chosen, holdout }: Climbed, { active, seed }: MakeRequest): Rival | undefined {
  if (!active) return undefined
  const { columns, labels, groups } = holdout
  const [ours, theirs] = [chosen.model, decodeModel(active.judged)].map((model) => predict(model, columns))
  const losses = [ours!, theirs!].map((probabilities) => rowLosses(probabilities, labels, classes.length))
  return {
    metrics: measure(theirs!, labels, classes.length),
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
  const { firstDay, lastDay } = spanOf(history)!
  return {
    rows: history.days.length,
    examples: examples.labels.length,
    keywords: new Set(history.keywords).size,
    first_day: dayName(firstDay),
    last_day: dayName(lastDay),
    holdout_from: dayName(climb.holdoutFrom),
    snapshot_sha256: request.snapshotSha256,
  }
}

function gateOf(
  { decision, checks }: Verdict,
  fallsBack: boolean,
  comparedWith: string | undefined,
): Manifest['gate'] {
  return {
    decision: fallsBack ? 'fall_back' : decision,
    checks: checks.map((check) => ({ ...check })),
    compared_with: comparedWith ?? null,
  }
}

function figuresOf(metrics: Metrics): Figures {
  return {
    examples: metrics.examples,
    log_loss: metrics.logLoss,
    accuracy: metrics.accuracy,
    auc_ovr: metrics.aucOvr ?? null,
    calibration_error: metrics.calibrationError,
  }
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
