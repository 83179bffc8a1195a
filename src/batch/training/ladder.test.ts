import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { HORIZON_DAYS, readFixture } from '../../../test/fixtures/rank-classifier/read.ts'
import { type Examples, sliceExamples } from '../dataset/examples.ts'
import { logLoss } from '../learning/metrics.ts'
import { createRandom } from '../learning/random.ts'
import { TrainingStopped } from '../learning/watch.ts'
import { predict } from '../models/model.ts'
import { decodeModel, encodeModel } from '../models/model-codec.ts'
import { type Aside, type Climb, climbLadder, type LadderOptions, trainRungOf } from './ladder.ts'
import { planRounds } from './ladder-plan.ts'

const train = readFixture('train')
const options = { classes: 3, horizonDays: HORIZON_DAYS, seed: 1 }

/** Every n-th row: as many days, fewer keywords. */
function thinned(examples: Examples, step: number): Examples {
  const keep = (_: number, row: number) => row % step === 0
  return {
    columns: examples.columns.map((column) => column.filter(keep)),
    labels: examples.labels.filter(keep),
    days: examples.days.filter(keep),
    groups: examples.groups.filter(keep),
  }
}

function climbed(climb: Climb) {
  if (climb.kind !== 'climbed') throw new Error(climb.kind)
  return climb
}

test('on the fixture it reaches 1.022 on days it never saw, and beats class shares by what the gate asks for', async () => {
  const progress: number[] = []
  const climb = climbed(
    await climbLadder(train, { ...options, onProgress: (fraction) => progress.push(fraction) }),
  )
  const later = readFixture('test')
  const model = await climb.model
  expect(logLoss(predict(model, later.columns), later.labels, 3)).toBeLessThanOrEqual(1.022)
  expect(climb.rungs.map((rung) => rung.name)).toEqual(['prior', 'softmax', 'gbdt', 'blend'])
  expect(climb.classShares.logLoss - climb.chosen.holdout.logLoss).toBeGreaterThanOrEqual(0.002)
  // What a rung was judged by while it was trained is, to the bit, what the stored model says of the same rows.
  for (const { name, model, probabilities } of climb.rungs)
    if (name !== 'blend' || climb.plan.choice === 'blend')
      expect(probabilities).toEqual(predict(decodeModel(encodeModel(model)), climb.holdout.columns))
  expect(progress).toEqual([...progress].sort((a, b) => a - b))
  expect(progress.at(-1)).toBe(1)
})

test('the same seed gives the same model, wherever its parts are worked out', async () => {
  const hash = async (more: Partial<LadderOptions> = {}) => {
    const climb = climbed(await climbLadder(thinned(train, 10), { ...options, ...more }))
    return createHash('sha256')
      .update(encodeModel(await climb.model))
      .digest('hex')
  }
  const first = await hash()
  expect(await hash()).toBe(first)
  // What is done aside goes there and comes back as a copy.
  const aside: Aside = {
    planRounds: async (work) => structuredClone(planRounds(structuredClone(work), {})),
    trainRung: async (work) => structuredClone(trainRungOf(structuredClone(work), {})),
  }
  expect(await hash({ asideFor: () => aside })).toBe(first)
})

test('with a thousand rows it does not fall below class shares', async () => {
  const climb = climbed(await climbLadder(thinned(train, 20), options))
  const later = readFixture('test')
  const model = await climb.model
  expect(logLoss(predict(model, later.columns), later.labels, 3)).toBeLessThan(1.0952)
  expect(climb.rungs.find((rung) => rung.name === 'gbdt')).toBeUndefined()
})

test.each([1, 2, 3])('labels drawn at random (%i) are not promoted above class shares', async (seed) => {
  const random = createRandom(seed)
  const examples = thinned(train, 6)
  const climb = climbed(
    await climbLadder({ ...examples, labels: examples.labels.map(() => random.below(3)) }, options),
  )
  expect(climb.classShares.logLoss - climb.chosen.holdout.logLoss).toBeLessThan(0.002)
})

test('the judged model has not seen the hold-out nor the days whose labels tell of it', async () => {
  const examples = thinned(train, 20)
  const before = climbed(await climbLadder(examples, options))
  const scrambled = examples.labels.map((label, row) =>
    examples.days[row]! >= before.holdoutFrom - HORIZON_DAYS ? (label + 1) % 3 : label,
  )
  const after = climbed(await climbLadder({ ...examples, labels: scrambled }, options))
  expect(after.rungs.map((rung) => encodeModel(rung.model))).toEqual(
    before.rungs.map((rung) => encodeModel(rung.model)),
  )
  expect(after.chosen.holdout.logLoss).not.toBe(before.chosen.holdout.logLoss)
})

test('without labels of two classes, or without a past, there is nothing to learn', async () => {
  const none = sliceExamples(train, 0, 0)
  const oneClass = { ...thinned(train, 20), labels: new Uint8Array(1000) }
  const oneDay = sliceExamples(train, 0, 160)
  for (const examples of [none, oneClass, oneDay]) {
    expect(await climbLadder(examples, options)).toEqual({ kind: 'insufficient_labels' })
  }
})

test('a week of history is enough to climb a little', async () => {
  const week = sliceExamples(train, 0, 7 * 168)
  const climb = climbed(await climbLadder(week, { ...options, horizonDays: 1 }))
  expect(climb.chosen.holdout.logLoss).toBeLessThan(1.2)
})

test('examples out of day order are refused, because a split by row would not be one by time', async () => {
  const backwards = { ...train, days: train.days.slice().reverse() }
  await expect(climbLadder(backwards, options)).rejects.toThrow('day order')
})

test('it stops when asked', async () => {
  const stopping = climbLadder(thinned(train, 20), { ...options, shouldStop: () => true })
  await expect(stopping).rejects.toThrow(TrainingStopped)
})
