import { expect, test } from 'vitest'
import type { Stages } from '../../src/platform/log/log.ts'
import { size } from '../size.ts'
import type { Carrier } from './carriers.ts'
import { leaksOf } from './leaks.ts'
import { heldKinds, kinds, type Planted } from './planted-secrets.ts'

for (const stage of ['admit', 'maskNames', 'maskValues', 'guardBytes'] as const) {
  test(`with ${stage} switched off the other stages still catch every kind`, () => {
    expect(leaksOf({ [stage]: false }, { count: size(1_500, 10_000), seed: 2 })).toEqual([])
  })
}

const others = (stage: keyof Stages) => ({
  admit: false,
  maskNames: false,
  maskValues: false,
  guardBytes: false,
  [stage]: true,
})

test('admission alone lets none of them through', () => {
  expect(leaksOf(others('admit'), { count: size(1_500, 10_000), seed: 3 })).toEqual([])
})

test('names alone mask whatever stands under a sensitive name', () => {
  const isNamed = (_: Planted, carrier: Carrier) => carrier.isNamed
  expect(leaksOf(others('maskNames'), { count: size(1_500, 10_000), seed: 4, only: isNamed })).toEqual([])
})

test('values alone mask whatever can be told by its looks', () => {
  const hasLooks = ({ kind }: Planted, carrier: Carrier) =>
    kind !== 'person_name' && !(carrier.isNamed && (kind === 'card_code' || kind === 'url_password'))
  expect(leaksOf(others('maskValues'), { count: size(1_500, 10_000), seed: 5, only: hasLooks })).toEqual([])
})

test('bytes alone cover what this process holds, in its usual spellings', () => {
  const isHeld = ({ kind, isEncodedPlainly }: Planted) => heldKinds.has(kind) && isEncodedPlainly
  expect(leaksOf(others('guardBytes'), { count: size(1_500, 10_000), seed: 6, only: isHeld })).toEqual([])
})

test('with every stage switched off the same search finds traces, so it can', () => {
  const off = { admit: false, maskNames: false, maskValues: false, guardBytes: false }
  const found = new Set(leaksOf(off, { count: 3000, seed: 7, most: 3000 }).map((leak) => leak.kind))
  expect([...found].sort()).toEqual([...kinds].sort())
})
