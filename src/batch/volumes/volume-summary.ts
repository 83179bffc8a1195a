import type { Month } from '../month.ts'
import { sum } from '../sum.ts'
import { counts, divideHalfUp, type MonthlyVolume } from './monthly-volume.ts'

export type VolumeSummary = {
  readonly latest: number | null
  readonly average12m: number | null
  readonly trend: 'rising' | 'flat' | 'falling' | null
}

/**
 * Sums up one source's months in three figures, leaving out those that do not count.
 * - `latest`: the volume of the newest month that has one.
 * - `average12m`: the mean of the months there are among the twelve that end with the newest; null when a censored
 *   month among them leaves the rounded mean open.
 * - `trend`: the mean of the last three known months against the three known before; more than a tenth apart is
 *   rising or falling; null with fewer than six.
 */
export function summarise(months: readonly MonthlyVolume[]): VolumeSummary {
  const ordered = months.filter(counts).sort((a, b) => (a.month < b.month ? -1 : 1))
  const volumes = ordered.flatMap(({ volume }) => (volume === null ? [] : [volume]))
  return {
    latest: volumes.at(-1) ?? null,
    average12m: averageOfLastYear(ordered),
    trend: volumes.length < 6 ? null : trendOf(volumes.slice(-6, -3), volumes.slice(-3)),
  }
}

function averageOfLastYear(ordered: readonly MonthlyVolume[]): number | null {
  const newest = ordered.at(-1)
  if (!newest) return null
  const year = ordered.filter(({ month }) => month > yearBefore(newest.month))
  const least = divideHalfUp(sum(year.map(({ volumeMin }) => volumeMin)), year.length)
  const most = divideHalfUp(sum(year.map(({ volumeMax }) => volumeMax)), year.length)
  return least === most ? least : null
}

/** Both have three months, so their sums compare as their means do. */
function trendOf(before: readonly number[], after: readonly number[]): 'rising' | 'flat' | 'falling' {
  const [then, now] = [sum(before), sum(after)]
  if (now * 10 > then * 11) return 'rising'
  return now * 10 < then * 9 ? 'falling' : 'flat'
}

function yearBefore(month: Month): Month {
  return `${String(Number(month.slice(0, 4)) - 1).padStart(4, '0')}${month.slice(4)}`
}
