import { type Model, predict } from '../models/model.ts'
import { countClasses, type Examples, holdOut } from './examples.ts'
import { trainBooster } from './gbdt.ts'
import {
  boosterSettings,
  classSharesOf,
  type LadderPlan,
  type PlanOptions,
  planLadder,
  type RungName,
  trainRegression,
} from './ladder-plan.ts'
import { type Metrics, measure } from './metrics.ts'
import { forwardOnly, partOf, type Watch } from './watch.ts'

export type Climb =
  | { kind: 'insufficient_labels' }
  | {
      kind: 'climbed'
      /** The model to use: the chosen rung, learnt again from all rows. */
      model: Model
      /** How `model` was trained; the booster's rounds are those of all rows. */
      plan: LadderPlan
      /** The chosen rung as it was judged: it has seen no row later than the embargo before the hold-out. */
      chosen: Rung
      /** Every rung as it was judged, from class shares upwards. */
      rungs: Rung[]
      classShares: Metrics
      holdout: Examples
      holdoutFrom: number
    }

export type Rung = {
  name: RungName
  model: Model
  /** Log-loss on the windows inside the training days, by which the rung was chosen. */
  validationLoss: number | undefined
  holdout: Metrics
}

/**
 * Climbs from class shares over softmax regression and boosted trees to a blend of both, and stays on the
 * last rung that earned its place inside the training days. The hold-out decides nothing before it judges.
 * What it judges is the way of training; the model to use goes the same way, by the same plan, with the latest days too.
 */
export function climbLadder(examples: Examples, options: PlanOptions): Climb {
  refuseDisorder(examples, options.classes)
  const { classes, horizonDays } = options
  const split = holdOut(examples, horizonDays)
  if (!split || classesSeen(split.past, classes) < 2) return { kind: 'insufficient_labels' }

  const watch = forwardOnly(options)
  const plan = planLadder(split.past, { ...options, ...partOf(watch, 0, 0.3) })
  const names = plan.rungs.map((rung) => rung.name)
  const judged = trainRungs(names, plan, split.past, classes, partOf(watch, 0.3, 0.6))
  const rungs = plan.rungs.map(({ name, loss }) => {
    const model = judged.get(name)!
    const holdout = measure(predict(model, split.future.columns), split.future.labels, classes)
    return { name, model, validationLoss: loss, holdout }
  })

  const final = trainRungs(neededFor(plan.choice), plan, examples, classes, partOf(watch, 0.6, 1))
  watch.onProgress?.(1)
  return {
    kind: 'climbed',
    model: final.get(plan.choice)!,
    plan: { ...plan, booster: boosterSettings(plan, examples.labels.length) },
    chosen: rungs.find((rung) => rung.name === plan.choice)!,
    rungs,
    classShares: rungs[0]!.holdout,
    holdout: split.future,
    holdoutFrom: split.futureFrom,
  }
}

function neededFor(name: RungName): RungName[] {
  return name === 'blend' ? ['softmax', 'gbdt', 'blend'] : [name]
}

/** Trains the rungs in the order given; a blend is made of the two before it. */
function trainRungs(
  names: RungName[],
  plan: LadderPlan,
  examples: Examples,
  classes: number,
  watch: Watch,
): Map<RungName, Model> {
  const trained = new Map<RungName, Model>()
  for (const [index, name] of names.entries()) {
    const part = partOf(watch, index / names.length, (index + 1) / names.length)
    const { temperature } = plan.rungs.find((rung) => rung.name === name)!
    trained.set(name, { ...trainRung(name, plan, examples, classes, part, trained), temperature })
  }
  return trained
}

function trainRung(
  name: RungName,
  plan: LadderPlan,
  examples: Examples,
  classes: number,
  watch: Watch,
  trained: Map<RungName, Model>,
): Model {
  switch (name) {
    case 'prior':
      return classSharesOf(examples, classes)
    case 'softmax':
      return trainRegression(examples, classes, plan.softmaxL2, watch)
    case 'gbdt':
      return trainBooster(examples, classes, boosterSettings(plan, examples.labels.length), watch)
    case 'blend': {
      const weights = Float64Array.of(1 - plan.boosterShare, plan.boosterShare)
      const parts = [trained.get('softmax')!, trained.get('gbdt')!]
      return { kind: 'blend', classes, features: examples.columns.length, temperature: 1, weights, parts }
    }
  }
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
