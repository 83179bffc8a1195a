import { describe, expect, test } from 'vitest'
import type { MonthlyVolume, VolumeQuality } from './monthly-volume.ts'
import { summarise } from './volume-summary.ts'

function monthOf(month: string, volume: number, quality: VolumeQuality, daysObserved: number): MonthlyVolume {
  return { month, volume, volumeMin: volume, volumeMax: volume, quality, daysObserved }
}

describe('a summary', () => {
  const known = (volumes: (number | null)[], first = 1): MonthlyVolume[] =>
    volumes.map((volume, i) => {
      const number = first - 1 + i
      const month = `${2025 + Math.floor(number / 12)}-${String((number % 12) + 1).padStart(2, '0')}`
      const record = monthOf(month, volume ?? 0, 'reported', 30)
      return volume === null ? { ...record, volume: null, volumeMax: 9 } : record
    })

  test('of nothing says nothing', () => {
    expect(summarise([])).toEqual({ latest: null, average12m: null, trend: null })
  })

  test('takes the newest known month as the latest, in whatever order the months come', () => {
    expect(summarise(known([10, 30, 20]).reverse()).latest).toBe(20)
    expect(summarise(known([10, 30, null])).latest).toBe(30)
    expect(summarise(known([null])).latest).toBeNull()
  })

  test('leaves out months that few days were observed of, unless they were reported', () => {
    const thin = (daysObserved: number) => monthOf('2025-07', 300, 'estimated', daysObserved)
    const half = known([10, 10, 10, 10, 10])
    const year = [...half, monthOf('2025-06', 10, 'reported', 30)]
    expect(summarise([...year, thin(1)])).toEqual({ latest: 10, average12m: 10, trend: 'flat' })
    expect(summarise([...year, thin(19)]).trend).toBe('flat')
    expect(summarise([...year, thin(20)])).toMatchObject({ latest: 300, trend: 'rising' })
    expect(summarise([...year, { ...thin(1), quality: 'reported' }]).latest).toBe(300)
    expect(summarise([thin(19)])).toEqual({ latest: null, average12m: null, trend: null })
  })

  test('averages the twelve months that end with the newest, half up', () => {
    expect(summarise(known([99_999, ...Array(11).fill(10), 16])).average12m).toBe(11) // 126 / 12 = 10.5
    expect(summarise(known([10, 20])).average12m).toBe(15)
    const [old, recent] = [known([1000]), known([10], 20)]
    expect(summarise([...old, ...recent]).average12m).toBe(10)
  })

  test('gives no average when a censored month leaves it open', () => {
    expect(summarise(known([null, 100])).average12m).toBeNull()
    expect(summarise(known([null])).average12m).toBeNull()
  })

  test.each<[string, (number | null)[], string | null]>([
    ['five months', [1, 2, 3, 4, 5], null],
    ['exactly a tenth more', [100, 100, 100, 110, 110, 110], 'flat'],
    ['more than a tenth more', [100, 100, 100, 110, 110, 111], 'rising'],
    ['exactly a tenth less', [100, 100, 100, 90, 90, 90], 'flat'],
    ['more than a tenth less', [100, 100, 100, 90, 90, 89], 'falling'],
    ['something after nothing', [0, 0, 0, 0, 0, 1], 'rising'],
    ['nothing after nothing', [0, 0, 0, 0, 0, 0], 'flat'],
    ['only the last six', [9999, 10, 10, 10, 20, 20, 20], 'rising'],
    ['known months only', [10, 10, null, 10, 20, null, 20, 20], 'rising'],
    ['too few known', [10, 10, null, 10, 20, 20], null],
  ])('sees the trend in %s', (_, volumes, trend) => {
    expect(summarise(known(volumes)).trend).toBe(trend)
  })
})
