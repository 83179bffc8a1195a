import { createHash } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import { trainBooster } from '../../../test/batch/train-booster.ts'
import { readFixture, readReference } from '../../../test/fixtures/rank-classifier/read.ts'
import { type Examples, holdOut, sliceExamples } from '../dataset/examples.ts'
import type { Forest } from '../models/forest.ts'
import { type Boosted, predict, predictScores } from '../models/model.ts'
import { encodeModel } from '../models/model-codec.ts'
import { type Booster, type BoosterSettings, growTogether, openBooster } from './gbdt.ts'
import { logLoss, measure } from './metrics.ts'
import { createRandom } from './random.ts'
import { TrainingStopped } from './watch.ts'

const train = readFixture('train')
const few = sliceExamples(train, 0, 3000)
const small: BoosterSettings = {
  rounds: 15,
  learningRate: 0.1,
  maxLeaves: 8,
  minLeafRows: 20,
  l2: 1,
  columnSample: 0.6,
  seed: 1,
}
const scikit: BoosterSettings = { ...small, rounds: 100, maxLeaves: 31, l2: 0, columnSample: 1 }

describe('with scikit-learn’s settings it does as well as scikit-learn', () => {
  const later = readFixture('test')
  test.each<[string, BoosterSettings]>([
    ['max_iter=100, learning_rate=0.1, early', scikit],
    ['learning_rate=0.05, max_leaf_nodes=15', { ...scikit, learningRate: 0.05, maxLeaves: 15, l2: 5 }],
  ])('%s', (setting, settings) => {
    const theirs = Object.entries(readReference()).find(([name]) => name.includes(setting))![1]
    const ours = measure(predict(trainBooster(train, 3, settings), later.columns), later.labels, 3)
    expect(Math.abs(ours.logLoss - theirs.log_loss)).toBeLessThan(0.003)
    expect(Math.abs(ours.aucOvr! - theirs.auc_ovr)).toBeLessThan(0.005)
  })
})

test('the same seed gives the same bytes, and where features are sampled another seed others', () => {
  const hash = (seed: number) => hashOf(trainBooster(few, 3, { ...small, seed }))
  expect(hash(1)).toBe(hash(1))
  expect(hash(1)).not.toBe(hash(2))
})

test('a monotone change of a feature’s scale changes no prediction, on rows seen or unseen', () => {
  const stretch = (value: number, feature: number) => (feature % 2 === 0 ? 3 * value + 1 : Math.cbrt(value))
  const stretched = (examples: Examples) =>
    examples.columns.map((column, feature) => column.map((value) => stretch(value, feature)))
  const unseen = sliceExamples(train, 3000, 5000)
  const plain = trainBooster(few, 3, small)
  const model = trainBooster({ ...few, columns: stretched(few) }, 3, small)
  expect(predict(model, stretched(unseen))).toEqual(predict(plain, unseen.columns))
})

test('thresholds on raw values lead every training row to the leaf its bins led it to', () => {
  // Leaf values are Newton steps on the loss, so with bins and thresholds at odds the loss would not fall.
  const losses = [1, 5, 15].map((rounds) => {
    const booster = openBooster(few, 3, { ...small, rounds }, few)
    for (let round = 0; round < rounds; round++) booster.grow()
    const { loss } = booster.judge()
    expect(measure(predict(booster.model(), few.columns), few.labels, 3).logLoss).toBeCloseTo(loss, 6)
    return loss
  })
  expect(losses).toEqual([...losses].sort((a, b) => b - a))
})

/** One feature, known for half the rows; the label depends on the side and on being known. */
function worldWithGaps(labelWhenMissing: number): Examples {
  const columns = [Float32Array.from({ length: 400 }, (_, row) => (row % 2 ? Number.NaN : row))]
  const labels = Uint8Array.from(columns[0]!, (value) =>
    Number.isNaN(value) ? labelWhenMissing : value < 200 ? 0 : 1,
  )
  return { columns, labels, days: new Int32Array(400), groups: new Int32Array(400) }
}

test.each([0, 1])('missing values go to the side where rows of class %i are', (label) => {
  const settings = { ...small, rounds: 20, maxLeaves: 2, columnSample: 1 }
  const model = trainBooster(worldWithGaps(label), 2, settings)
  expect(predict(model, [Float32Array.of(Number.NaN)])[label]).toBeGreaterThan(0.8)
})

test('with one split per tree the first tree takes the Newton step of each side', () => {
  const random = createRandom(4)
  const labels = Uint8Array.from({ length: 300 }, (_, row) =>
    random.float() < (row < 100 ? 0.2 : 0.7) ? 1 : 0,
  )
  const columns = [Float32Array.from(labels, (_, row) => (row < 100 ? 0 : 1))]
  const examples = { columns, labels, days: new Int32Array(300), groups: new Int32Array(300) }
  const model = trainBooster(examples, 2, { ...scikit, rounds: 1, maxLeaves: 2, l2: 3 })
  const share = Math.exp(model.bias[1]!)
  const step = (from: number, to: number) => {
    const hits = labels.subarray(from, to).reduce((sum, label) => sum + label, 0)
    const rows = to - from
    return (0.1 * (hits - rows * share)) / (rows * share * (1 - share) + 3)
  }
  expect(model.forest.leaves[2]).toBeCloseTo(step(0, 100), 5)
  expect(model.forest.leaves[3]).toBeCloseTo(step(100, 300), 5)
})

test('no leaf has fewer rows than allowed', () => {
  const settings = { ...scikit, rounds: 3, minLeafRows: 150 }
  const { forest } = trainBooster(few, 3, settings)
  for (let tree = 0; tree < forest.roots.length; tree++) {
    const counts = new Map<number, number>()
    for (let row = 0; row < 3000; row++) {
      const leaf = leafOf(forest, tree, row)
      counts.set(leaf, (counts.get(leaf) ?? 0) + 1)
    }
    expect(Math.min(...counts.values())).toBeGreaterThanOrEqual(150)
  }
})

function leafOf(
  { roots, feature, threshold, left, right, missingLeft }: Forest,
  tree: number,
  row: number,
): number {
  let node = roots[tree]!
  while (node >= 0) {
    const value = few.columns[feature[node]!]![row]!
    const goesLeft = Number.isNaN(value) ? missingLeft[node] === 1 : value <= threshold[node]!
    node = goesLeft ? left[node]! : right[node]!
  }
  return ~node
}

test('training ends when the later days stop improving, and the best round can be had', () => {
  const split = holdOut(few, 2)!
  const eager = { ...small, rounds: 200, learningRate: 0.3 }
  const grown = growTogether([openBooster(split.past, 3, eager, split.future)], { ...eager, patience: 5 })
  expect(grown.losses.length - 1).toBe(grown.rounds + 5)
  expect(Math.min(...grown.losses)).toBe(grown.losses[grown.rounds])
  const again = trainBooster(split.past, 3, { ...eager, rounds: grown.rounds })
  expect(logLoss(predict(again, split.future.columns), split.future.labels, 3)).toBeCloseTo(
    grown.losses[grown.rounds]!,
    6,
  )
  const scores = predictScores(again, split.future.columns)
  for (const [at, score] of grown.scores[0]!.entries()) expect(score).toBeCloseTo(scores[at]!, 12)
})

test('boosters stop together: one that is past its best goes on while the others gain more', () => {
  /** Its loss falls up to its best round, then rises half as fast. */
  const turningAt = (best: number, rows: number): Booster => {
    let round = 0
    const lossNow = () => (round <= best ? 2 - 0.01 * round : 2 - 0.01 * best + 0.005 * (round - best))
    return {
      grow: () => void round++,
      judge: () => ({ rows, loss: lossNow() }),
      scores: () => Float64Array.of(round),
      model: () => trainBooster(few, 3, { ...small, rounds: 0 }),
    }
  }
  const limits = { rounds: 200, patience: 5 }
  expect(growTogether([turningAt(3, 100)], limits)).toMatchObject({ rounds: 3 })
  expect(growTogether([turningAt(3, 100), turningAt(40, 100)], limits)).toMatchObject({
    rounds: 40,
    scores: [Float64Array.of(40), Float64Array.of(40)],
  })
  // Rows weigh: a window three times as long decides.
  expect(growTogether([turningAt(3, 300), turningAt(40, 100)], limits)).toMatchObject({ rounds: 3 })
  expect(growTogether([turningAt(500, 1)], limits)).toMatchObject({ rounds: 200 })
})

test('plain code and WebAssembly make the same model, byte for byte', () => {
  const withGaps: Examples = {
    ...few,
    columns: few.columns.map((column, feature) =>
      column.map((value, row) => ((row * 7 + feature) % 11 === 0 ? Number.NaN : value)),
    ),
  }
  const settings = { ...small, rounds: 5, maxLeaves: 15 }
  const later = sliceExamples(train, 3000, 3501)
  const grown = () => {
    const booster = openBooster(withGaps, 3, settings, later)
    for (let round = 0; round < settings.rounds; round++) booster.grow()
    return [hashOf(booster.model()), booster.judge().loss]
  }
  const compiled = grown()
  vi.stubGlobal('WebAssembly', undefined)
  try {
    expect(grown()).toEqual(compiled)
  } finally {
    vi.unstubAllGlobals()
  }
})

function hashOf(model: Boosted): string {
  return createHash('sha256').update(encodeModel(model)).digest('hex')
}

test('progress rises to one, and the training ends between two rounds when asked', () => {
  const seen: number[] = []
  const watch = { onProgress: (fraction: number) => seen.push(fraction), shouldStop: () => seen.length === 4 }
  expect(() => trainBooster(few, 3, small, watch)).toThrow(TrainingStopped)
  expect(seen).toEqual([1, 2, 3, 4].map((round) => round / 15))
})
