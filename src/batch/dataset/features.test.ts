import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { monthlyVolumes } from '../../../test/batch/monthly-volumes.ts'
import { historyOf, type SmallRank, type SmallVolume } from '../../../test/batch/small-history.ts'
import { type VolumeObservation, volumeAtMonthEnd } from '../volumes/monthly-volume.ts'
import { columnOf, examplesOf, featureNames, featuresOf } from './features.ts'
import { dayName, dayOrdinal, type History, monthOrdinal } from './history.ts'

type Name = (typeof featureNames)[number]

function featureAt(history: History, observation: number): (name: Name) => number {
  const columns = featuresOf(history, Int32Array.of(observation), Int32Array.of(0))
  return (name) => columns[featureNames.indexOf(name)]![0]!
}

describe('nothing later than its own day changes the features of a rank', () => {
  const day = fc.integer({ min: 0, max: 60 })
  const rank = fc
    .record({
      day,
      depth: fc.constantFrom(10, 50, 100),
      place: fc.integer({ min: 1, max: 120 }),
      url: fc.integer({ min: 0, max: 3 }),
    })
    .map(({ day, depth, place, url }): SmallRank => [day, place > depth ? -depth - 1 : place, url, depth])
  const series = fc
    .uniqueArray(rank, { selector: ([day]) => day, minLength: 1, maxLength: 40 })
    .map((ranks) => [...ranks].sort((a, b) => a[0] - b[0]))
  const observation = fc
    .record({
      source: fc.constantFrom('a', 'b'),
      kind: fc.constantFrom<VolumeObservation['kind']>('day', 'rolling_30d', 'rolling_30d', 'month'),
      day: fc.integer({ min: -150, max: 80 }),
      volume: fc.integer({ min: 0, max: 9999 }),
    })
    .map((told) => ({ ...told, volumeMax: null }))
  const worlds = fc.record({
    series: fc.array(series, { minLength: 1, maxLength: 5 }),
    later: fc.array(series, { minLength: 5, maxLength: 5 }),
    volumes: fc.array(fc.array(observation, { maxLength: 40 }), { minLength: 5, maxLength: 5 }),
    laterVolumes: fc.array(fc.array(observation, { maxLength: 15 }), { minLength: 5, maxLength: 5 }),
    split: fc.boolean(),
    pick: fc.nat({ max: 39 }),
  })
  type Told = {
    source: string
    kind: VolumeObservation['kind']
    day: number
    volume: number
    volumeMax: null
  }

  /** Volumes as the nightly aggregation would store them for the classifier, source by source. */
  function knownVolumes(told: readonly Told[]): SmallVolume[][] {
    return ['a', 'b'].map((name) => {
      const observations = told
        .filter(({ source }) => source === name)
        .map(({ kind, day, volume }) => ({ kind, day: dayName(day), volume, volumeMax: null }))
      return monthlyVolumes(observations).flatMap(({ month }): SmallVolume[] => {
        const volume = volumeAtMonthEnd(month, observations)
        return volume === undefined ? [] : [[monthOrdinal(dayOrdinal(`${month}-01`)), volume]]
      })
    })
  }

  test('whatever is added, changed or taken away after it', () => {
    let compared = 0
    let withVolume = 0
    fc.assert(
      fc.property(worlds, ({ series, later, volumes, laterVolumes, split, pick }) => {
        const today = series[0]![pick % series[0]!.length]![0]
        const sites = series.map((_, at) => (split && at >= 2 ? 1 : 0))
        // A month as a whole is reported after its end, whatever day the report names.
        const isKnown = ({ kind, day }: Told) =>
          kind === 'month' ? monthOrdinal(day) < monthOrdinal(today) : day <= today
        const known = volumes.slice(0, series.length)
        const before = historyOf(series, { sites, volumes: known.map(knownVolumes) })
        // Up to today as it was; after it, another world altogether.
        const changed = series.map((ranks, at): SmallRank[] => [
          ...ranks.filter(([day]) => day <= today),
          ...later[at]!.filter(([day]) => day > today),
        ])
        const otherVolumes = known.map((told, at) =>
          knownVolumes([
            ...told.filter(isKnown),
            ...laterVolumes[at]!.filter((observation) => !isKnown(observation)),
          ]),
        )
        const after = historyOf(changed, { sites, volumes: otherVolumes })
        for (let at = 0; at < series.length; at++) {
          const place = series[at]!.findIndex(([day]) => day === today)
          if (place < 0) continue
          const one = featuresOf(before, Int32Array.of(before.starts[at]! + place), Int32Array.of(0))
          const other = featuresOf(after, Int32Array.of(after.starts[at]! + place), Int32Array.of(0))
          expect(other).toEqual(one)
          compared++
          if (!Number.isNaN(one[columnOf.volume]![0]!)) withVolume++
        }
      }),
      { numRuns: 200 },
    )
    expect(compared).toBeGreaterThan(199)
    expect(withVolume).toBeGreaterThan(20)
  })
})

describe('what features say', () => {
  const falling: SmallRank[] = Array.from({ length: 30 }, (_, day) => [
    day,
    Math.round(10 * Math.exp(0.05 * day)),
  ])

  test('a steady fall has a positive slope, and its latest rank is the worst', () => {
    const feature = featureAt(historyOf([falling]), 29)
    expect(feature('slope_28')).toBeCloseTo(0.05, 2)
    expect(feature('slope_7')).toBeCloseTo(0.05, 2)
    expect(feature('change_7')).toBeCloseTo(0.35, 1)
    expect(feature('ahead_of_worst_28')).toBe(0)
    expect(feature('behind_best_28')).toBeCloseTo(1.35, 1)
    expect(feature('checks_28')).toBe(28)
  })

  test('the first rank of a series knows its place and little else', () => {
    const feature = featureAt(historyOf([falling]), 0)
    expect(feature('place')).toBeCloseTo(Math.log(10))
    for (const name of [
      'change_1',
      'change_7',
      'slope_7',
      'spread_7',
      'days_since_check',
      'volume',
    ] as const) {
      expect(feature(name)).toBeNaN()
    }
  })

  test('shares count the top ten and the searches without a find', () => {
    const feature = featureAt(
      historyOf([
        [
          [0, 5],
          [1, 50],
          [2, -101],
          [3, 10],
        ],
      ]),
      3,
    )
    expect(feature('top_ten_share_28')).toBe(0.5)
    expect(feature('not_found_share_28')).toBe(0.25)
  })

  test('a change of the page is counted, and a page not told is none', () => {
    const feature = featureAt(
      historyOf([
        [
          [0, 5, 1],
          [1, 5, 1],
          [2, 5, 2],
          [3, 5, 0],
          [4, 5, 3],
          [5, 5, 3],
        ],
      ]),
      5,
    )
    expect(feature('url_changes_28')).toBe(1)
    expect(feature('days_since_url_change')).toBe(3)
  })

  test('a site moves apart from the market it is in', () => {
    const double: SmallRank[] = [
      [0, 10],
      [1, 20],
    ]
    const still: SmallRank[] = [
      [0, 10],
      [1, 10],
    ]
    const feature = featureAt(historyOf([double, double, still, still], { sites: [0, 0, 1, 1] }), 1)
    expect(feature('site_change_1')).toBeCloseTo(Math.LN2)
    expect(feature('market_change_1')).toBeCloseTo(Math.LN2 / 2)
  })

  test('volumes speak from the months before, compared with the three before those', () => {
    const month = monthOrdinal(0)
    const volumes: SmallVolume[][][] = [
      [
        [
          [month - 3, 100],
          [month - 2, 100],
          [month - 1, 200],
          [month, 9999],
        ],
      ],
    ]
    const feature = featureAt(historyOf([[[10, 5]]], { volumes }), 0)
    expect(feature('volume')).toBeCloseTo(Math.log1p(200))
    expect(feature('volume_change')).toBeCloseTo(Math.log1p(200) - Math.log1p(100))
  })

  test('one source speaks of a keyword: the one with most months by then, and no other in between', () => {
    const month = monthOrdinal(0)
    const long: SmallVolume[] = [
      [month - 4, 100],
      [month - 3, 100],
      [month - 2, 100],
    ]
    const late: SmallVolume[] = [
      [month - 1, 9000],
      [month, 9000],
      [month + 1, 9000],
      [month + 2, 9000],
    ]
    const history = historyOf(
      [
        [
          [10, 5],
          [150, 5],
        ],
      ],
      { volumes: [[late, long]] },
    )
    expect(featureAt(history, 0)('volume')).toBeCloseTo(Math.log1p(100))
    expect(featureAt(history, 0)('volume_change')).toBe(0)
    // By the fifth month the other one has told more.
    expect(featureAt(history, 1)('volume')).toBeCloseTo(Math.log1p(9000))
  })

  test('a change of the search depth is no change of rank', () => {
    const feature = featureAt(
      historyOf([
        [
          [0, 40, 0, 100],
          [1, -11, 0, 10],
          [2, 40, 0, 100],
          [3, -11, 0, 10],
          [4, 40, 0, 100],
        ],
      ]),
      4,
    )
    expect(feature('change_1')).toBe(0)
    expect(feature('change_3')).toBe(0)
    expect(feature('spread_7')).toBe(0)
    expect(feature('behind_best_28')).toBe(0)
    expect(feature('site_change_1')).toBeNaN()
    expect(feature('checks_28')).toBe(5)
    expect(feature('not_found_share_28')).toBeCloseTo(0.4)
  })

  test('a volume that is months old is not known', () => {
    const feature = featureAt(historyOf([[[10, 5]]], { volumes: [[[[monthOrdinal(0) - 4, 100]]]] }), 0)
    expect(feature('volume')).toBeNaN()
  })
})

test('examples stand in day order, each with the features of its own rank', () => {
  const history = historyOf([
    [
      [3, 10],
      [4, 20],
      [5, 20],
    ],
    [
      [1, 40],
      [2, 30],
      [4, 30],
      [5, 10],
    ],
  ])
  const examples = examplesOf(history, 1)
  expect([...examples.days]).toEqual([1, 3, 4, 4])
  expect([...examples.labels]).toEqual([0, 2, 1, 0])
  expect([...examples.groups]).toEqual([1, 0, 0, 1])
  expect([...examples.columns[0]!].map((log) => Math.round(Math.exp(log)))).toEqual([40, 10, 20, 30])
})

test('an empty history has no examples', () => {
  const examples = examplesOf(historyOf([]), 1)
  expect(examples.labels.length).toBe(0)
  expect(examples.columns.length).toBe(featureNames.length)
})
