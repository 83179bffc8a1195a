import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { trainBooster } from '../../../test/batch/train-booster.ts'
import { readFixture } from '../../../test/fixtures/rank-classifier/read.ts'
import { sliceExamples } from '../dataset/examples.ts'
import { trainSoftmax } from '../learning/softmax.ts'
import { type Boosted, type Model, predict } from '../models/model.ts'
import { CorruptModel, decodeModel, encodeModel } from '../models/model-codec.ts'
import { classSharesOf } from './ladder-plan.ts'

const examples = sliceExamples(readFixture('train'), 0, 1500)
const shape = { classes: 3, features: 20 }
const prior = classSharesOf(examples, 3)
const softmax: Model = { ...trainSoftmax(examples, 3, 10), temperature: 1.25 }
const settings = {
  rounds: 4,
  learningRate: 0.1,
  maxLeaves: 6,
  minLeafRows: 20,
  l2: 1,
  columnSample: 1,
  seed: 1,
}
const gbdt: Boosted = { ...trainBooster(examples, 3, settings), temperature: 0.9 }
const blend: Model = {
  kind: 'blend',
  ...shape,
  temperature: 1.1,
  weights: Float64Array.of(0.4, 0.6),
  parts: [softmax, gbdt],
}

describe.each([prior, softmax, gbdt, blend])('a $kind', (model) => {
  const bytes = encodeModel(model)

  test('comes back from its bytes as it was', () => {
    const back = decodeModel(bytes)
    expect(back).toEqual(model)
    expect(Buffer.compare(encodeModel(back), bytes)).toBe(0)
    expect(predict(back, examples.columns)).toEqual(predict(model, examples.columns))
  })

  test('is refused when a byte has changed, is lacking or is too many', () => {
    const places = fc.nat(bytes.length - 1)
    fc.assert(
      fc.property(places, fc.integer({ min: 1, max: 255 }), (place, flip) => {
        const changed = Buffer.from(bytes)
        changed[place]! ^= flip
        expect(() => decodeModel(changed)).toThrow(CorruptModel)
      }),
    )
    fc.assert(
      fc.property(places, (length) => {
        expect(() => decodeModel(bytes.subarray(0, length))).toThrow(CorruptModel)
      }),
    )
    expect(() => decodeModel(Buffer.concat([bytes, Buffer.of(0)]))).toThrow(CorruptModel)
  })
})

test('any bytes with a right checksum are still read with care', () => {
  const body = encodeModel(blend).subarray(0, -32)
  fc.assert(
    fc.property(fc.nat(body.length - 9), fc.integer({ min: 1, max: 255 }), (offset, flip) => {
      const changed = Buffer.from(body)
      changed[8 + offset]! ^= flip
      const sealed = Buffer.concat([changed, createHash('sha256').update(changed).digest()])
      try {
        predict(decodeModel(sealed), examples.columns)
      } catch (error) {
        if (!(error instanceof CorruptModel)) expect((error as Error).message).toContain('the model knows')
      }
    }),
    { numRuns: 500 },
  )
})

const broken = (change: (forest: Boosted['forest']) => void): Uint8Array => {
  const copy = structuredClone(gbdt)
  change(copy.forest)
  return encodeModel(copy)
}

test.each<[string, Uint8Array, string]>([
  ['a branch that leads back', broken((forest) => forest.left.fill(0)), 'a branch points outside its tree'],
  [
    'a leaf that is not there',
    broken((forest) => forest.right.fill(-1000)),
    'a branch points outside its tree',
  ],
  [
    'a feature that is not there',
    broken((forest) => forest.feature.fill(20)),
    'a feature that does not exist',
  ],
  [
    'a leaf that is not a number',
    broken((forest) => forest.leaves.fill(Number.NaN)),
    'a number is not finite',
  ],
  ['a temperature of zero', encodeModel({ ...prior, temperature: 0 }), 'the temperature'],
  [
    'no model at all',
    Buffer.from('hello, this is a text that is long enough to hold a checksum'),
    'no model',
  ],
  ['nothing', new Uint8Array(0), 'it ends too early'],
])('%s is refused with its reason', (_, bytes, reason) => {
  expect(() => decodeModel(bytes)).toThrow(reason)
})
