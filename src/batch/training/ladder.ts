import { countClasses, type Examples, holdOut } from '../dataset/examples.ts'
import { growAlone, openBooster } from '../learning/gbdt.ts'
import { type ClassifierMetrics, measure } from '../learning/metrics.ts'
import { forwardOnly, partOf, type Watch } from '../learning/watch.ts'
import { type Model, predict, predictScores, softmaxRows } from '../models/model.ts'
import {
  boosterSettings,
  classSharesOf,
  type LadderPlan,
  type PlanOptions,
  type PlanRoundsAside,
  planLadder,
  type RungName,
  trainRegression,
} from './ladder-plan.ts'

export type Climb =
  | { kind: 'insufficient_labels' }
  | {
      kind: 'climbed'
      /** The model to use: the chosen rung, learnt again from all rows. Where that happens elsewhere, it may not be ready yet. */
      model: Promise<Model>
      /** How `model` was trained; the booster's rounds are those for all rows. */
      plan: LadderPlan
      /** The chosen rung as it was judged: it has seen no row later than the embargo before the hold-out. */
      chosen: Rung
      /** Every rung as it was judged, from class shares upwards. */
      rungs: Rung[]
      classShares: ClassifierMetrics
      holdout: Examples
      holdoutFrom: number
    }

export type Rung = {
  name: RungName
  model: Model
  /** Log-loss on the windows inside the training days, by which the rung was chosen. */
  validationLoss: number | undefined
  /** What it says of the hold-out, row after row. */
  probabilities: Float64Array
  holdout: ClassifierMetrics
}

export type LadderOptions = Omit<PlanOptions, 'planRoundsAside'> & {
  /** Somewhere else to work at the same time, where so many rows are worth it. Otherwise one work follows the other. */
  asideFor?: ((rows: number) => Aside | undefined) | undefined
}

export type Aside = { planRounds: PlanRoundsAside; trainRung(work: RungWork): Promise<Model> }

/** A rung to be trained as the plan says. */
export type RungWork = { name: RungName; plan: LadderPlan; examples: Examples; classes: number }

/**
 * Climbs from class shares over softmax regression and boosted trees to a blend of both, and stays on the
 * last rung that earned its place inside the training days. The hold-out decides nothing before it judges.
 * What it judges is the way of training; the model to use goes the same way, by the same plan, with the latest days too.
 */
export async function climbLadder(examples: Examples, options: LadderOptions): Promise<Climb> {
  refuseDisorder(examples, options.classes)
  const { classes, horizonDays } = options
  const split = holdOut(examples, horizonDays)
  if (!split || classesSeen(split.past, classes) < 2) return { kind: 'insufficient_labels' }

  const watch = forwardOnly(options)
  const elsewhere = options.asideFor?.(examples.labels.length)
  const plan = await planLadder(split.past, {
    ...options,
    ...partOf(watch, 0, 0.3),
    planRoundsAside: elsewhere?.planRounds,
  })
  const work: RungWork = { name: plan.choice, plan, examples, classes }
  // The two largest trainings need nothing of each other.
  const aside = elsewhere?.trainRung(work)
  const judged = trainRungs(
    plan.rungs.map((rung) => rung.name),
    { ...work, examples: split.past },
    partOf(watch, 0.3, aside ? 0.9 : 0.6),
    split.future,
  )
  const rungs = plan.rungs.map(({ name, loss }) => {
    const { model, scores } = judged.get(name)!
    // The chosen one speaks exactly as it will later, when it is met by the next candidate. A blend's scores come close only.
    const probabilities =
      name === 'blend' && name === plan.choice
        ? predict(model, split.future.columns)
        : probabilitiesOf(scores, classes)
    const holdout = measure(probabilities, split.future.labels, classes)
    return { name, model, validationLoss: loss, probabilities, holdout }
  })
  const model = (aside ?? Promise.resolve(trainRungOf(work, partOf(watch, 0.6, 1)))).then((trained) => {
    watch.onProgress?.(1)
    return trained
  })
  return {
    kind: 'climbed',
    model,
    plan: { ...plan, booster: boosterSettings(plan, examples.labels.length) },
    chosen: rungs.find((rung) => rung.name === plan.choice)!,
    rungs,
    classShares: rungs[0]!.holdout,
    holdout: split.future,
    holdoutFrom: split.futureFrom,
  }
}

/** Trains one rung, and those it is made of. */
export function trainRungOf(work: RungWork, watch: Watch): Model {
  const names: RungName[] = work.name === 'blend' ? ['softmax', 'gbdt', 'blend'] : [work.name]
  return trainRungs(names, work, watch).get(work.name)!.model
}

/** A model, and its tempered scores of later rows: those that `predictScores` would give, but for a blend's last bits. */
type Trained = { model: Model; scores: Float64Array }

/** Trains the rungs in the order given; a blend is made of the two before it. */
function trainRungs(
  names: RungName[],
  work: RungWork,
  watch: Watch,
  later?: Examples,
): Map<RungName, Trained> {
  const trained = new Map<RungName, Trained>()
  for (const [index, name] of names.entries()) {
    const part = partOf(watch, index / names.length, (index + 1) / names.length)
    trained.set(name, trainRung({ ...work, name }, part, trained, later))
  }
  return trained
}

function trainRung(
  { name, plan, examples, classes }: RungWork,
  watch: Watch,
  trained: Map<RungName, Trained>,
  later: Examples | undefined,
): Trained {
  const { temperature } = plan.rungs.find((rung) => rung.name === name)!
  const scored = (untempered: Model) => {
    const model = { ...untempered, temperature }
    return { model, scores: later ? predictScores(model, later.columns) : new Float64Array() }
  }
  switch (name) {
    case 'prior':
      return scored(classSharesOf(examples, classes))
    case 'softmax':
      return scored(trainRegression(examples, classes, plan.softmaxL2, watch))
    case 'gbdt': {
      // Later rows travel along while the trees grow, which is quicker than leading them through the trees afterwards.
      const settings = boosterSettings(plan, examples.labels.length)
      const booster = openBooster(examples, classes, settings, later, temperature)
      growAlone(booster, settings.rounds, watch)
      return { model: booster.model(), scores: booster.scores() }
    }
    case 'blend': {
      const weights = Float64Array.of(1 - plan.boosterShare, plan.boosterShare)
      const [regression, boosted] = [trained.get('softmax')!, trained.get('gbdt')!]
      const parts = [regression.model, boosted.model]
      return {
        model: { kind: 'blend', classes, features: examples.columns.length, temperature, weights, parts },
        scores: regression.scores.map(
          (score, at) => (weights[0]! * score + weights[1]! * boosted.scores[at]!) / temperature,
        ),
      }
    }
  }
}

function probabilitiesOf(scores: Float64Array, classes: number): Float64Array {
  softmaxRows(scores, classes)
  return scores
}

function classesSeen(examples: Examples, classes: number): number {
  return countClasses(examples.labels, classes).filter((count) => count > 0).length
}

function refuseDisorder({ days, labels }: Examples, classes: number): void {
  if (!days.every((day, row) => row === 0 || day >= days[row - 1]!)) {
    throw new RangeError('examples have to stand in day order')
  }
  if (!labels.every((label) => label < classes)) throw new RangeError('a label names no class')
}
