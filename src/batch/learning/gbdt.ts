import { countClasses, type Examples } from '../dataset/examples.ts'
import type { Forest } from '../models/forest.ts'
import type { Boosted } from '../models/model.ts'
import { sum } from '../sum.ts'
import { assignBins, chooseCuts, roomForCuts } from './bins.ts'
import { rowLoss } from './loss.ts'
import { createRandom } from './random.ts'
import { createGrower, type Grower, growTree, type TreeSettings, type Trees } from './tree.ts'
import { stopIfAsked, type Watch } from './watch.ts'

/**
 * Histogram gradient boosting with softmax loss: each round grows one tree per class on the gradient of the
 * log-loss, and a tree looks for splits in sums per bin instead of in sorted values. The sums are integers and chance
 * comes from the seed, so the same rows and settings give the same bytes.
 */
export type BoosterSettings = TreeSettings & { rounds: number; seed: number }

/** Grows a booster by so many rounds. */
export function growAlone(booster: Booster, rounds: number, watch: Watch = {}): Booster {
  for (let round = 0; round < rounds; round++) {
    stopIfAsked(watch)
    booster.grow()
    watch.onProgress?.((round + 1) / rounds)
  }
  return booster
}

/** A booster that grows round by round. */
export type Booster = {
  grow(): void
  /** As it stands now. */
  model(): Boosted
  /** How it does on the later rows it was given to be judged on, which it has not learnt from. */
  judge(): { rows: number; loss: number }
  /** Its scores of these rows, row after row. */
  scores(): Float64Array
}

/** The temperature is the model's, and that of its scores of later rows. Learning knows none. */
export function openBooster(
  examples: Examples,
  classes: number,
  settings: BoosterSettings,
  later?: Examples,
  temperature = 1,
): Booster {
  const room = roomForCuts()
  const cuts = examples.columns.map((column) => chooseCuts(column, room))
  const bias = logShares(examples.labels, classes)
  const judged = later?.labels.length ?? 0
  const learners = examples.labels.length
  // Whoever scores rows later multiplies by this, so the same is done here, and the same bits come of it.
  const judgedShare = 1 / temperature
  const shape = { learners, judged, judgedShare, cuts, classes, trees: settings.rounds * classes }
  const grower = createGrower(shape, settings)
  const { kernel, at, matrix, classBytes } = grower
  assignBins(kernel, examples.columns, cuts, matrix, 0, at.scratch)
  const labels = new Uint8Array(kernel.memory, at.labels, matrix.rows)
  labels.set(examples.labels)
  if (later) {
    assignBins(kernel, later.columns, cuts, matrix, learners, at.scratch)
    labels.set(later.labels, learners)
  }
  for (let k = 0; k < classes; k++) {
    const scores = new Float64Array(kernel.memory, at.scores + k * classBytes, classBytes / 8)
    scores.fill(bias[k]!, 0, learners)
    scores.fill(judgedShare * bias[k]!, learners)
  }
  const refresh = () => kernel.refreshProbabilities(at.scores, at.probabilities, classBytes, classes)
  const random = createRandom(settings.seed)
  refresh()

  return {
    grow() {
      for (let label = 0; label < classes; label++) growTree(grower, label, random)
      refresh()
    },
    model: () => ({
      kind: 'gbdt',
      classes,
      features: examples.columns.length,
      temperature,
      bias,
      forest: toForest(grower.trees, cuts),
    }),
    judge: () => ({ rows: judged, loss: meanLoss(grower, labels) }),
    scores: () => scoresOfJudged(grower, classes),
  }
}

/**
 * Grows boosters side by side until their loss on the rows they are judged on, all rows together, has not fallen for
 * `patience` rounds. One alone may have met an odd fortnight. Says how many rounds were best, and the scores then.
 */
export function growTogether(
  boosters: readonly Booster[],
  { rounds: most, patience }: { rounds: number; patience: number },
  watch: Watch = {},
): { rounds: number; losses: number[]; scores: Float64Array[] } {
  const losses: number[] = []
  let best: { rounds: number; scores: Float64Array[] } = { rounds: 0, scores: [] }
  for (let round = 0; ; round++) {
    stopIfAsked(watch)
    const judgements = boosters.map((booster) => booster.judge())
    const loss = sum(judgements.map((one) => one.loss * one.rows)) / sum(judgements.map((one) => one.rows))
    if (round === 0 || loss < losses[best.rounds]!)
      best = { rounds: round, scores: boosters.map((booster) => booster.scores()) }
    losses.push(loss)
    if (round === most || round - best.rounds >= patience) return { ...best, losses }
    for (const booster of boosters) booster.grow()
    watch.onProgress?.((round + 1) / most)
  }
}

/** Log of the class shares, each class counted once more than seen so that no share is zero. */
export function logShares(labels: Uint8Array, classes: number): Float64Array {
  return countClasses(labels, classes).map((count) => Math.log((count + 1) / (labels.length + classes)))
}

function meanLoss({ kernel, at, classBytes, learners }: Grower, labels: Uint8Array): number {
  const probabilities = new Float32Array(kernel.memory, at.probabilities)
  let total = 0
  for (let row = learners; row < labels.length; row++)
    total += rowLoss(probabilities[(labels[row]! * classBytes) / 8 + row]!)
  return total / (labels.length - learners)
}

function scoresOfJudged({ kernel, at, classBytes, learners, matrix }: Grower, classes: number): Float64Array {
  const scores = new Float64Array((matrix.rows - learners) * classes)
  for (let k = 0; k < classes; k++) {
    const own = new Float64Array(kernel.memory, at.scores + k * classBytes, matrix.rows)
    for (let row = learners; row < matrix.rows; row++) scores[(row - learners) * classes + k] = own[row]!
  }
  return scores
}

function toForest(trees: Trees, cuts: Float32Array[]): Forest {
  const { count } = trees
  const nodes = count === 0 ? 0 : trees.nodeEnds[count - 1]!
  const feature = trees.feature.slice(0, nodes)
  const threshold = new Float32Array(nodes)
  for (let node = 0; node < nodes; node++) threshold[node] = cuts[feature[node]!]![trees.cut[node]! - 1]!
  return {
    roots: trees.roots.slice(0, count),
    feature,
    threshold,
    left: trees.left.slice(0, nodes),
    right: trees.right.slice(0, nodes),
    missingLeft: trees.missingLeft.slice(0, nodes),
    leaves: trees.leaves.slice(0, nodes + count),
  }
}
