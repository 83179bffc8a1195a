import { type Examples, rollingSplits, type TimeSplit, thinDays } from '../dataset/examples.ts'
import { fitShare, fitTemperature, lossOfScores, temper } from '../learning/calibration.ts'
import { type BoosterSettings, growTogether, logShares, openBooster } from '../learning/gbdt.ts'
import { createDesign, fitSoftmax, trainSoftmax } from '../learning/softmax.ts'
import { partOf, type Watch } from '../learning/watch.ts'
import { type Model, predictScores } from '../models/model.ts'
import { sum } from '../sum.ts'

export type RungName = 'prior' | 'softmax' | 'gbdt' | 'blend'

/** How every rung is to be trained, and which one has earned its place. */
export type LadderPlan = {
  /** The rungs there are rows enough for, with their loss on days they had not seen. */
  rungs: PlannedRung[]
  choice: RungName
  softmaxL2: number
  booster: BoosterSettings
  /** How many rows the boosters had that told how many rounds are best. */
  boosterRows: number
  /** What the booster has to say in the blend; the rest is the regression's. */
  boosterShare: number
}

export type PlannedRung = { name: RungName; temperature: number; loss: number | undefined }

export type PlanOptions = Watch & {
  classes: number
  /** How far a label looks ahead; as many days are left out between learning and judging. */
  horizonDays: number
  seed: number
  /** Finds the rounds elsewhere, at the same time. Otherwise one question follows the other. */
  planRoundsAside?: PlanRoundsAside | undefined
}

export type PlanRoundsAside = (work: RoundsWork, watch: Watch) => Promise<PlannedRounds>

/** How many rounds are best for boosters of these windows, all together? */
export type RoundsWork = { windows: TimeSplit[]; settings: BoosterSettings; classes: number }
export type PlannedRounds = {
  rounds: number
  /** What the boosters then say of the rows of all windows, one window after the other. */
  scores: Float64Array
}

/** Below this many rows a booster learns the noise by heart. */
const boosterRows = 1000
const penalties = [10, 100]
/** A richer model has to be better by this much, or the simpler one stays. */
const leastStep = 0.0005

/** Questions of planning are answered by so many rows as well as by all of them, in a fraction of the time. */
const mostPlanningRows = 60_000
const mostPlanningLaterRows = 40_000
/** A regression has some hundred weights; more rows move none of them. */
const mostSoftmaxRows = 30_000

/**
 * Learns penalty, rounds, temperatures and the shares of the blend from rolling windows: each is predicted
 * from the days before it, and all are judged together, because one alone may be an odd fortnight.
 */
export async function planLadder(past: Examples, options: PlanOptions): Promise<LadderPlan> {
  const { classes, seed } = options
  const rows = past.labels.length
  const windows = rollingSplits(past, options.horizonDays).map((split) => ({
    ...split,
    past: thinDays(split.past, mostPlanningRows),
    future: thinDays(split.future, mostPlanningLaterRows),
  }))
  const plan: LadderPlan = {
    rungs: [{ name: 'prior', temperature: 1, loss: undefined }],
    choice: 'prior',
    softmaxL2: penalties.at(-1)!,
    booster: { ...boosterFor(rows), seed },
    boosterRows: rows,
    boosterShare: 0,
  }
  if (windows.length === 0) return plan

  const labels = joinLabels(windows)
  const rate = (name: RungName, scores: Float64Array): PlannedRung => {
    const temperature = name === 'prior' ? 1 : fitTemperature(scores, labels, classes)
    return { name, temperature, loss: lossOfScores(scores, labels, classes, temperature) }
  }
  plan.rungs = [
    rate(
      'prior',
      predictAll(windows, (split) => classSharesOf(split.past, classes)),
    ),
  ]

  const work: RoundsWork = { windows, settings: plan.booster, classes }
  const boosting = partOf(options, 0.3, 1)
  const aside = rows >= boosterRows ? options.planRoundsAside?.(work, boosting) : undefined
  const regression = planSoftmax(windows, labels, partOf(options, 0, 0.3), classes)
  plan.softmaxL2 = regression.l2
  plan.rungs.push(rate('softmax', regression.scores))

  if (rows >= boosterRows) {
    const boosted = aside ? await aside : planRounds(work, boosting)
    plan.booster = { ...plan.booster, rounds: boosted.rounds }
    plan.boosterRows = sum(windows.map((split) => split.past.labels.length)) / windows.length
    plan.rungs.push(rate('gbdt', boosted.scores))

    const [linear, trees] = [regression.scores, boosted.scores].map((scores, at) =>
      temper(scores, plan.rungs[at + 1]!.temperature),
    )
    const share = fitShare(linear!, trees!, labels, classes)
    const mixture = linear!.map((score, at) => (1 - share) * score + share * trees![at]!)
    plan.boosterShare = share
    plan.rungs.push(rate('blend', mixture))
  }
  return { ...plan, choice: lastWorthClimbing(plan.rungs) }
}

export function classSharesOf(examples: Examples, classes: number): Model {
  const features = examples.columns.length
  return { kind: 'prior', classes, features, temperature: 1, scores: logShares(examples.labels, classes) }
}

/** The regression as the ladder uses it, on as many rows as can move its weights. */
export function trainRegression(examples: Examples, classes: number, l2: number, watch: Watch): Model {
  return trainSoftmax(thinDays(examples, mostSoftmaxRows), classes, l2, watch)
}

/** More rows bear more rounds before the booster learns their noise, but far from in proportion. */
const roundsExponent = 0.2

/** The booster for so many rows, as the plan has it from fewer. */
export function boosterSettings({ booster, boosterRows }: LadderPlan, rows: number): BoosterSettings {
  return { ...booster, rounds: Math.round(booster.rounds * (rows / boosterRows) ** roundsExponent) }
}

const mostRounds = 400

/** Trees grow with the rows there are to fill them. */
function boosterFor(rows: number): BoosterSettings {
  return {
    rounds: mostRounds,
    learningRate: rows > 100_000 ? 0.1 : 0.05,
    maxLeaves: Math.min(31, Math.max(3, Math.round(Math.sqrt(rows) / 9))),
    minLeafRows: 20,
    l2: 20,
    columnSample: 1,
    seed: 0,
  }
}

const patience = 20

/** Scores for the rows of all windows, one window after the other. */
function predictAll(windows: TimeSplit[], modelFor: (split: TimeSplit) => Model): Float64Array {
  return joinScores(windows.map((split) => predictScores(modelFor(split), split.future.columns)))
}

function joinScores(parts: Float64Array[]): Float64Array {
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

function planSoftmax(windows: TimeSplit[], labels: Uint8Array, watch: Watch, classes: number) {
  const byWindow = windows.map((split, window) => {
    const design = createDesign(thinDays(split.past, mostSoftmaxRows))
    return penalties.map((l2, index) => {
      const done = (window + index / penalties.length) / windows.length
      const part = partOf(watch, done, done + 1 / (windows.length * penalties.length))
      return predictScores(fitSoftmax(design, classes, l2, part), split.future.columns)
    })
  })
  const tries = penalties.map((l2, index) => {
    const scores = joinScores(byWindow.map((parts) => parts[index]!))
    return { l2, scores, loss: lossOfScores(scores, labels, classes) }
  })
  return tries.reduce((best, one) => (one.loss < best.loss ? one : best))
}

export function planRounds({ windows, settings, classes }: RoundsWork, watch: Watch): PlannedRounds {
  const boosters = windows.map((split) => openBooster(split.past, classes, settings, split.future))
  const { rounds, scores } = growTogether(boosters, { ...settings, patience }, watch)
  return { rounds, scores: joinScores(scores) }
}

function lastWorthClimbing(rungs: PlannedRung[]): RungName {
  let best = rungs[0]!
  for (const rung of rungs) if (rung.loss! < best.loss! - leastStep) best = rung
  return best.name
}
