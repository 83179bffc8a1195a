import { type Model, predictScores } from '../models/model.ts'
import { fitTemperature, goldenSection, lossOfScores, temper } from './calibration.ts'
import { type Examples, rollingSplits, type TimeSplit } from './examples.ts'
import { type BoosterSettings, firstRounds, logShares, lowest, trainBooster } from './gbdt.ts'
import { trainSoftmax } from './softmax.ts'
import { partOf, type Watch } from './watch.ts'

export type RungName = 'prior' | 'softmax' | 'gbdt' | 'blend'

/** How every rung is to be trained, and which one has earned its place. */
export type LadderPlan = {
  /** The rungs there are rows enough for, with their loss on days they had not seen. */
  rungs: PlannedRung[]
  choice: RungName
  softmaxL2: number
  booster: BoosterSettings
  /** What the booster has to say in the blend; the rest is the regression's. */
  boosterShare: number
}

export type PlannedRung = { name: RungName; temperature: number; loss: number | undefined }

export type PlanOptions = Watch & {
  classes: number
  /** How far a label looks ahead; as many days are left out between learning and judging. */
  horizonDays: number
  seed: number
}

/** Below this many rows a booster learns the noise by heart. */
const BOOSTER_ROWS = 1000
const SOFTMAX_L2 = [10, 100]
/** A richer model has to be better by this much, or the simpler one stays. */
const LEAST_STEP = 0.0005

/**
 * Learns penalty, rounds, temperatures and the shares of the blend from rolling windows: each is foretold
 * from the days before it, and all are judged together, because one alone may be an odd fortnight.
 */
export function planLadder(past: Examples, options: PlanOptions): LadderPlan {
  const { classes, seed } = options
  const windows = rollingSplits(past, options.horizonDays)
  const plan: LadderPlan = {
    rungs: [{ name: 'prior', temperature: 1, loss: undefined }],
    choice: 'prior',
    softmaxL2: SOFTMAX_L2.at(-1)!,
    booster: { ...boosterFor(past.labels.length), seed },
    boosterShare: 0,
  }
  if (windows.length === 0) return plan

  const labels = joinLabels(windows)
  const rate = (name: RungName, scores: Float64Array): PlannedRung => {
    const temperature = name === 'prior' ? 1 : fitTemperature(scores, labels, classes)
    return { name, temperature, loss: lossOfScores(temper(scores, temperature), labels, classes) }
  }
  plan.rungs = [
    rate(
      'prior',
      foretell(windows, (split) => classSharesOf(split.past, classes)),
    ),
  ]

  const regression = planSoftmax(windows, labels, partOf(options, 0, 0.2), classes)
  plan.softmaxL2 = regression.l2
  plan.rungs.push(rate('softmax', regression.scores))

  if (past.labels.length >= BOOSTER_ROWS) {
    const boosted = planBooster(windows, plan.booster, partOf(options, 0.2, 1), classes)
    plan.booster = { ...plan.booster, rounds: boosted.rounds }
    plan.rungs.push(rate('gbdt', boosted.scores))

    const parts = [regression.scores, boosted.scores].map((scores, at) =>
      temper(scores, plan.rungs[at + 1]!.temperature),
    )
    const mixAt = (share: number) =>
      parts[0]!.map((score, at) => (1 - share) * score + share * parts[1]![at]!)
    plan.boosterShare = goldenSection(0, 1, (share) => lossOfScores(mixAt(share), labels, classes))
    plan.rungs.push(rate('blend', mixAt(plan.boosterShare)))
  }
  return { ...plan, choice: lastWorthClimbing(plan.rungs) }
}

export function classSharesOf(examples: Examples, classes: number): Model {
  const features = examples.columns.length
  return { kind: 'prior', classes, features, temperature: 1, scores: logShares(examples.labels, classes) }
}

/** Trees grow with the rows there are to fill them; a round never sees more rows than it needs. */
function boosterFor(rows: number): BoosterSettings {
  return {
    rounds: 300,
    learningRate: rows > 100_000 ? 0.1 : 0.05,
    maxLeaves: Math.min(31, Math.max(3, Math.round(Math.sqrt(rows) / 9))),
    minLeafRows: 20,
    l2: 5,
    rowSample: Math.min(0.8, 200_000 / rows),
    columnSample: 1,
    seed: 0,
  }
}

const PATIENCE = 20

/** Scores for the rows of all windows, one window after the other. */
function foretell(windows: TimeSplit[], modelFor: (split: TimeSplit, index: number) => Model): Float64Array {
  const parts = windows.map((split, index) => predictScores(modelFor(split, index), split.future.columns))
  const joined = new Float64Array(sum(parts.map((part) => part.length)))
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

function joinLabels(windows: TimeSplit[]): Uint8Array {
  return Buffer.concat(windows.map((split) => split.future.labels))
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

function planSoftmax(windows: TimeSplit[], labels: Uint8Array, watch: Watch, classes: number) {
  const tries = SOFTMAX_L2.map((l2, index) => {
    const part = partOf(watch, index / SOFTMAX_L2.length, (index + 1) / SOFTMAX_L2.length)
    const scores = foretell(windows, (split) => trainSoftmax(split.past, classes, l2, part))
    return { l2, scores }
  })
  return tries[lowest(tries.map(({ scores }) => lossOfScores(scores, labels, classes)))]!
}

/** The number of rounds that is best for all windows together. */
function planBooster(windows: TimeSplit[], settings: BoosterSettings, watch: Watch, classes: number) {
  const runs = windows.map((split, index) => {
    const part = partOf(watch, index / windows.length, (index + 1) / windows.length)
    return trainBooster(split.past, classes, settings, part, { examples: split.future, patience: PATIENCE })
  })
  const shortest = Math.min(...runs.map((run) => run.losses.length))
  const losses = Array.from({ length: shortest }, (_, round) =>
    sum(windows.map((split, index) => runs[index]!.losses[round]! * split.future.labels.length)),
  )
  const rounds = lowest(losses)
  return { rounds, scores: foretell(windows, (_, index) => firstRounds(runs[index]!.model, rounds)) }
}

function lastWorthClimbing(rungs: PlannedRung[]): RungName {
  let best = rungs[0]!
  for (const rung of rungs) if (rung.loss! < best.loss! - LEAST_STEP) best = rung
  return best.name
}
