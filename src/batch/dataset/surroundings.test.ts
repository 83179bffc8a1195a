import { describe, expect, test } from 'vitest'
import { historyOf, type SmallRank } from '../../../test/batch/small-history.ts'
import { createRandom } from '../learning/random.ts'
import { featureNames, featuresOf } from './features.ts'
import type { History } from './history.ts'
import { surroundingsOf } from './surroundings.ts'

const random = createRandom(7)
/** Three series of one site and two of another, with days on which some were not checked or not found. */
const series = Array.from({ length: 5 }, () =>
  Array.from({ length: 40 }, (_, day): SmallRank | undefined => {
    if (random.below(6) === 0) return undefined
    const depth = random.below(4) === 0 ? 20 : 100
    const place = 1 + random.below(110)
    return [day, place > depth ? -depth - 1 : place, 1 + random.below(3), depth]
  }).filter((rank) => rank !== undefined),
)
const whole = historyOf(series, { sites: [0, 0, 0, 1, 1] })
const around = featureNames.flatMap((name, column) => (/^(site|market)_/.test(name) ? [column] : []))

/** What each rank of a series knows of its surroundings. */
function seen(history: History, one: number): number[][] {
  const every = history.days.map((_, at) => at)
  const columns = featuresOf(history, every, every)
  return around.map((column) => [...columns[column]!.slice(history.starts[one]!, history.starts[one + 1]!)])
}

describe.each([0, 1, 2, 3, 4])('series %i', (one) => {
  test('sees the same outside the sample as it would within, where what is learnt from stands', () => {
    const without: History = { ...whole, inSample: Uint8Array.from(series, (_, at) => (at === one ? 0 : 1)) }
    const close = (value: number) => (Number.isNaN(value) ? value : expect.closeTo(value, 6))
    expect(seen(without, one)).toEqual(seen(whole, one).map((values) => values.map(close)))
  })

  test('outside the sample it changes nothing for the others', () => {
    const without: History = { ...whole, inSample: Uint8Array.from(series, (_, at) => (at === one ? 0 : 1)) }
    const alone = historyOf(
      series.map((ranks, at) => (at === one ? [] : ranks)),
      { sites: [0, 0, 0, 1, 1] },
    )
    for (const other of [0, 1, 2, 3, 4].filter((at) => at !== one))
      expect(seen(without, other)).toEqual(seen(alone, other))
  })
})

test('a site of which nothing is in the sample is what the series itself tells', () => {
  const history: History = { ...whole, inSample: Uint8Array.of(1, 1, 1, 0, 0) }
  const change = featureNames.indexOf('site_change_1')
  const lone = historyOf([series[3]!])
  expect(seen(history, 3)[around.indexOf(change)]).toEqual(seen(lone, 0)[around.indexOf(change)])
})

test('an empty history has no surroundings', () => {
  expect(surroundingsOf(historyOf([]))).toBeUndefined()
})
