import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { monthlyVolumes } from '../../../test/batch/monthly-volumes.ts'
import { addDays, daysBetween } from '../../platform/time.ts'
import {
  type MonthlyVolume,
  monthlyVolume,
  monthsTouchedBy,
  type VolumeObservation,
  volumeAtMonthEnd,
} from './monthly-volume.ts'

type Kind = VolumeObservation['kind']

const exactly = (kind: Kind, day: string, volume: number): VolumeObservation => ({
  kind,
  day,
  volume,
  volumeMax: null,
})
const atMost = (kind: Kind, day: string, volumeMax: number): VolumeObservation => ({
  kind,
  day,
  volume: null,
  volumeMax,
})

/** One observation for each of the days, from the first to the last. */
function eachDay(first: string, last: string, volume: (day: number) => number): VolumeObservation[] {
  const length = daysBetween(first, last) + 1
  return Array.from({ length }, (_, i) => exactly('day', addDays(first, i), volume(i)))
}

const exactMonth = (
  month: string,
  volume: number,
  quality: MonthlyVolume['quality'],
  daysObserved: number,
) => ({
  month,
  volume,
  volumeMin: volume,
  volumeMax: volume,
  quality,
  daysObserved,
})

describe('a month', () => {
  test('stands as its source reported it, whatever the days say', () => {
    const days = eachDay('2026-10-01', '2026-10-31', () => 1)
    expect(monthlyVolumes([exactly('month', '2026-10-01', 5400), ...days])).toEqual([
      exactMonth('2026-10', 5400, 'reported', 31),
    ])
  })

  test('reported twice stands as reported last', () => {
    const reports = [exactly('month', '2026-10-20', 700), exactly('month', '2026-10-01', 900)]
    expect(monthlyVolumes(reports)).toEqual([exactMonth('2026-10', 700, 'reported', 31)])
  })

  test('observed on every day is the sum of its days', () => {
    expect(monthlyVolumes(eachDay('2026-02-01', '2026-02-28', (i) => i))).toEqual([
      exactMonth('2026-02', 378, 'measured', 28),
    ])
  })

  test('observed on some days is scaled up and called an estimate', () => {
    expect(monthlyVolumes(eachDay('2026-10-01', '2026-10-10', () => 7))).toEqual([
      exactMonth('2026-10', 217, 'estimated', 10),
    ])
  })

  test('of 30 days with a window over just these is that window', () => {
    expect(monthlyVolume('2026-11', [exactly('rolling_30d', '2026-11-30', 2999)])).toEqual(
      exactMonth('2026-11', 2999, 'estimated', 30),
    )
  })

  test('of 31 days with a window over 30 of them is a thirtieth more', () => {
    expect(monthlyVolume('2026-10', [exactly('rolling_30d', '2026-10-31', 3000)])).toEqual(
      exactMonth('2026-10', 3100, 'estimated', 30),
    )
  })

  test('takes the median of the windows over each day, so that one wild window changes little', () => {
    const windows = [3000, 900_000, 3060].map((volume, i) =>
      exactly('rolling_30d', addDays('2026-11-28', i), volume),
    )
    // The first 28 days lie under all three windows, the 29th under two, the 30th under one.
    expect(monthlyVolume('2026-11', windows)).toEqual(
      // 28 days of 3060 / 30, one of (900000 + 3060) / 60, one of 3060 / 30
      exactMonth('2026-11', 28 * 102 + 15051 + 102, 'estimated', 30),
    )
  })

  test('trusts an observed day before the windows over it', () => {
    const observations = [exactly('rolling_30d', '2026-11-30', 3000), exactly('day', '2026-11-30', 1000)]
    expect(monthlyVolume('2026-11', observations)).toEqual(
      exactMonth('2026-11', 2900 + 1000, 'estimated', 30),
    )
  })

  test('reported as fewer than ten has bounds and no volume', () => {
    expect(monthlyVolumes([atMost('month', '2026-10-01', 9)])).toEqual([
      { month: '2026-10', volume: null, volumeMin: 0, volumeMax: 9, quality: 'reported', daysObserved: 31 },
    ])
  })

  test('with one censored day has bounds that hold the truth', () => {
    const days = eachDay('2026-02-01', '2026-02-27', () => 10)
    expect(monthlyVolumes([...days, atMost('day', '2026-02-28', 9)])).toEqual([
      {
        month: '2026-02',
        volume: null,
        volumeMin: 270,
        volumeMax: 279,
        quality: 'measured',
        daysObserved: 28,
      },
    ])
  })

  test('of which a part is known exactly comes to at least that part', () => {
    const window = { ...atMost('rolling_30d', '2026-11-30', 5009), pc: null, mobile: 5000 }
    expect(monthlyVolume('2026-11', [window])).toMatchObject({
      volume: null,
      volumeMin: 5000,
      volumeMax: 5009,
    })
    expect(volumeAtMonthEnd('2026-11', [window])).toBe(5004.5)
    // Parts that come to more than the whole say nothing beyond it.
    expect(monthlyVolume('2026-11', [{ ...window, volumeMax: 4000 }])?.volume).toBe(4000)
  })

  test('with a censored window rounds its bounds outwards', () => {
    expect(monthlyVolume('2026-10', [atMost('rolling_30d', '2026-10-31', 9)])).toEqual({
      month: '2026-10',
      volume: null,
      volumeMin: 0,
      volumeMax: 10, // 9 / 30 × 31 = 9.3
      quality: 'estimated',
      daysObserved: 30,
    })
  })

  test('whose censored window loses against two exact ones is known', () => {
    const windows = [atMost('rolling_30d', '2026-11-30', 9), exactly('rolling_30d', '2026-12-01', 300)]
    const more = exactly('rolling_30d', '2026-12-02', 300)
    // 1 November lies under the censored window alone, the 2nd under one more, the others under all three.
    expect(monthlyVolume('2026-11', [...windows, more])?.volume).toBeNull()
    const days = eachDay('2026-11-01', '2026-11-02', () => 10)
    expect(monthlyVolume('2026-11', [...windows, more, ...days])?.volume).toBe(300)
  })

  test('whose bound is zero is a true zero', () => {
    expect(monthlyVolumes([atMost('month', '2026-10-01', 0)])[0]?.volume).toBe(0)
  })

  test('is rounded once, at the end, half up', () => {
    // 31 days × 1 / 2 days observed = 15.5
    const days = [exactly('day', '2026-10-01', 1), exactly('day', '2026-10-02', 0)]
    expect(monthlyVolumes(days)[0]?.volume).toBe(16)
  })

  test('without any observation is not made up', () => {
    expect(monthlyVolumes([])).toEqual([])
    expect(monthlyVolume('2026-10', [exactly('day', '2026-11-01', 5)])).toBeUndefined()
  })

  test('from an observation that says nothing is a defect', () => {
    const empty: VolumeObservation = { kind: 'day', day: '2026-10-01', volume: null, volumeMax: null }
    expect(() => monthlyVolumes([empty])).toThrow('a volume or a bound')
  })
})

describe('a month as it was known when it ended', () => {
  test('knows no window that ends after it, and its report', () => {
    const windows = [exactly('rolling_30d', '2026-10-31', 3000), exactly('rolling_30d', '2026-11-13', 90_000)]
    expect(volumeAtMonthEnd('2026-10', windows)).toBe(3100)
    expect(volumeAtMonthEnd('2026-11', windows)).toBeUndefined()
    expect(volumeAtMonthEnd('2026-10', [exactly('month', '2026-10-31', 7)])).toBe(7)
  })

  test('is the middle of its bounds where a source told only these, and unknown of less than 20 days', () => {
    expect(volumeAtMonthEnd('2026-10', [atMost('month', '2026-10-01', 9)])).toBe(4.5)
    expect(
      volumeAtMonthEnd(
        '2026-10',
        eachDay('2026-10-01', '2026-10-19', () => 1),
      ),
    ).toBeUndefined()
    expect(
      volumeAtMonthEnd(
        '2026-10',
        eachDay('2026-10-01', '2026-10-20', () => 1),
      ),
    ).toBe(31)
  })
})

test.each<[Kind, string, string[]]>([
  ['day', '2026-10-31', ['2026-10']],
  ['month', '2026-10-15', ['2026-10']],
  ['rolling_30d', '2026-11-30', ['2026-11']],
  ['rolling_30d', '2026-10-31', ['2026-10']],
  ['rolling_30d', '2026-10-29', ['2026-09', '2026-10']],
  ['rolling_30d', '2026-03-01', ['2026-01', '2026-02', '2026-03']],
  ['rolling_30d', '2028-03-01', ['2028-02', '2028-03']],
  ['rolling_30d', '2027-01-10', ['2026-12', '2027-01']],
])('a %s observation of %s touches %j', (kind, day, months) => {
  expect(monthsTouchedBy({ kind, day })).toEqual(months)
})

describe('for any observations: late, twice, censored, of mixed kinds', () => {
  const observation = fc
    .record({
      kind: fc.constantFrom<Kind>('day', 'day', 'rolling_30d', 'rolling_30d', 'month'),
      offset: fc.oneof(fc.nat({ max: 40 }), fc.nat({ max: 200 })),
      value: fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: 100_000 })),
      censored: fc.nat({ max: 9 }).map((n) => n === 0),
      mobile: fc.option(fc.nat({ max: 30 })),
    })
    .map(({ kind, offset, value, censored, mobile }) =>
      censored
        ? { ...atMost(kind, addDays('2026-01-20', offset), value), mobile }
        : exactly(kind, addDays('2026-01-20', offset), value),
    )
  const stored = fc.uniqueArray(observation, {
    maxLength: 120,
    selector: ({ kind, day }) => `${kind} ${day}`,
  })
  const wholeFebruary = fc
    .array(fc.nat({ max: 50 }), { minLength: 28, maxLength: 28 })
    .map((volumes) => eachDay('2026-02-01', '2026-02-28', (i) => volumes[i]!))
  const anyObservations = fc.oneof(
    stored,
    fc
      .tuple(stored, wholeFebruary)
      .map(([some, february]) => [
        ...some.filter(({ kind, day }) => kind !== 'day' || !day.startsWith('2026-02')),
        ...february,
      ]),
  )
  const runs = { numRuns: 300 }

  test('the months are those of a slow and simple model', () => {
    fc.assert(
      fc.property(anyObservations, (observations) => {
        expect(monthlyVolumes(observations)).toEqual(naiveMonths(observations))
      }),
      runs,
    )
  })

  test('order and repetition change nothing, and each month alone comes out the same', () => {
    const shuffled = anyObservations.chain((list) =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray([...list, ...list], { minLength: list.length * 2 })),
    )
    fc.assert(
      fc.property(shuffled, ([list, mixed]) => {
        const months = monthlyVolumes(list)
        expect(monthlyVolumes(mixed)).toEqual(months)
        for (const record of months) expect(monthlyVolume(record.month, list)).toEqual(record)
      }),
      runs,
    )
  })

  test('two that contradict each other are settled the same way in any order', () => {
    fc.assert(
      fc.property(fc.array(observation, { maxLength: 60 }), (list) => {
        expect(monthlyVolumes([...list].reverse())).toEqual(monthlyVolumes(list))
      }),
      runs,
    )
  })

  test('one that arrives late changes only the months it touches', () => {
    fc.assert(
      fc.property(anyObservations, observation, (list, late) => {
        const untouched = (record: MonthlyVolume) => !monthsTouchedBy(late).includes(record.month)
        expect(monthlyVolumes([...list, late]).filter(untouched)).toEqual(
          monthlyVolumes(list).filter(untouched),
        )
      }),
      runs,
    )
  })
})

/** Walks day by day and asks every observation whether it speaks about that day. Exact by fractions of bigints. */
function naiveMonths(observations: readonly VolumeObservation[]): MonthlyVolume[] {
  const daysByMonth = new Map<string, string[]>()
  for (let day = '2025-12-01'; day < '2026-09-01'; day = addDays(day, 1)) {
    daysByMonth.set(day.slice(0, 7), [...(daysByMonth.get(day.slice(0, 7)) ?? []), day])
  }
  return [...daysByMonth].flatMap(([month, days]) => {
    const reports = observations.filter(({ kind, day }) => kind === 'month' && day.startsWith(month))
    const report = reports.sort((a, b) => daysBetween(a.day, b.day)).at(0)
    if (report) return [naiveRecord(month, days.length, [low(report), 1n], [high(report), 1n], 'reported')]

    const said = new Map<string, VolumeObservation[]>()
    for (const day of days) {
      const own = observations.filter((other) => other.kind === 'day' && other.day === day)
      const over = observations.filter((other) => {
        const ago = daysBetween(day, other.day)
        return other.kind === 'rolling_30d' && ago >= 0 && ago <= 29
      })
      if (own.length + over.length > 0) said.set(day, own.length > 0 ? own : over)
    }
    if (said.size === 0) return []
    const isMeasured = days.every((day) => said.get(day)?.[0]?.kind === 'day')
    const scaled = (side: (observation: VolumeObservation) => bigint): [bigint, bigint] => {
      let sixtieths = 0n
      for (const [first, ...rest] of said.values()) {
        if (first!.kind === 'day') sixtieths += side(first!) * 60n
        else sixtieths += naiveTwiceMedian([first!, ...rest].map(side))
      }
      return [sixtieths * BigInt(days.length), 60n * BigInt(said.size)]
    }
    return [naiveRecord(month, said.size, scaled(low), scaled(high), isMeasured ? 'measured' : 'estimated')]
  })
}

const low = ({ volume, volumeMax, mobile }: VolumeObservation) =>
  BigInt(volume ?? Math.min(volumeMax!, mobile ?? 0))
const high = ({ volume, volumeMax }: VolumeObservation) => BigInt(volume ?? volumeMax ?? 0)

function naiveTwiceMedian(values: bigint[]): bigint {
  let left = values
  while (left.length > 2) {
    const least = left.indexOf(left.reduce((a, b) => (b < a ? b : a)))
    left = left.filter((_, i) => i !== least)
    const most = left.indexOf(left.reduce((a, b) => (b > a ? b : a)))
    left = left.filter((_, i) => i !== most)
  }
  return left[0]! + left.at(-1)!
}

function naiveRecord(
  month: string,
  daysObserved: number,
  [min, minOf]: [bigint, bigint],
  [max, maxOf]: [bigint, bigint],
  quality: MonthlyVolume['quality'],
): MonthlyVolume {
  if (min === max) return exactMonth(month, Number((2n * min + minOf) / (2n * minOf)), quality, daysObserved)
  const volumeMax = Number(max / maxOf) + (max % maxOf === 0n ? 0 : 1)
  return { month, volume: null, volumeMin: Number(min / minOf), volumeMax, quality, daysObserved }
}
