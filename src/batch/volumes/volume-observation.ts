import { compareTexts } from '../../platform/compare-texts.ts'
import { type Day, daysInMonth } from '../../platform/time.ts'
import type { Keyword } from '../keywords/keyword.ts'
import { dayRefusal, firstDay, type Horizon } from '../ranks/rank.ts'
import type { VolumeKind, VolumeObservation } from './monthly-volume.ts'

/** How sources are named. */
export const sourcePattern = /^[A-Za-z0-9_.:-]{1,64}$/

/** Far above any real volume, and low enough that the sums over a month stay exact. */
export const greatestVolume = 100_000_000_000

/** What a source says about a keyword, as it is sent; its form is right, its sense is not known yet. */
export type PostedVolume = {
  keyword: unknown
  source: string
  kind: VolumeKind
  day: string
  volume?: number
  volume_max?: number
  pc?: number
  mobile?: number
}

/** What is kept of it. One exists per keyword, source, kind and day, and of a month only one: what is told last holds. */
export type KeptVolume = VolumeObservation & {
  readonly key: string
  readonly source: string
  readonly pc: number | null
  readonly mobile: number | null
}

/** Why an observation with a good keyword makes no sense all the same, one sentence each. */
export const volumeRefusals = {
  day_not_real: 'There is no such day.',
  day_out_of_range: `A day lies between ${firstDay} and tomorrow.`,
  day_not_kept:
    'The observations of that time were dropped, and the monthly volumes made of them stay. Only a whole month (`kind` month) can still be told.',
  volume_missing: 'Give a volume, or volume_max where only a bound is known.',
  volume_and_bound: 'Give either volume or volume_max.',
} as const

export type VolumeRefusal = keyof typeof volumeRefusals
export type VolumeVerdict = (KeptVolume & { readonly refusal?: never }) | { readonly refusal: VolumeRefusal }

export function readVolume(reported: PostedVolume, { key }: Keyword, horizon: Horizon): VolumeVerdict {
  const refusal = dayRefusal(reported.day, horizon) ?? boundRefusal(reported)
  if (refusal) return { refusal }
  return {
    key,
    source: reported.source,
    kind: reported.kind,
    day: reported.kind === 'month' ? lastOfMonth(reported.day) : reported.day,
    volume: reported.volume ?? null,
    volumeMax: reported.volume_max ?? null,
    pc: reported.pc ?? null,
    mobile: reported.mobile ?? null,
  }
}

/**
 * Whatever day of it a report of a month names, it meets what was told of that month before. Older rows stand under the day
 * they named, and of several the latest counts: a correction under any day but the last would change nothing.
 */
function lastOfMonth(day: Day): Day {
  const [year, month] = [day.slice(0, 4), day.slice(5, 7)]
  return `${year}-${month}-${daysInMonth(Number(year), Number(month))}`
}

function boundRefusal({ volume, volume_max }: PostedVolume): VolumeRefusal | undefined {
  if (volume === undefined) return volume_max === undefined ? 'volume_missing' : undefined
  return volume_max === undefined ? undefined : 'volume_and_bound'
}

/**
 * Whether an observation comes after those of its time were dropped: a month cannot be worked out from it alone. A month's
 * own volume needs no other.
 */
export function isTooLate(
  { kind, day }: Pick<VolumeObservation, 'kind' | 'day'>,
  keptFrom: Day | null,
): boolean {
  return keptFrom !== null && kind !== 'month' && day < keptFrom
}

/** Sorts what is kept, the order in which all writers lock, and keeps of repeats the one told last. */
export function dedupeVolumes(volumes: readonly KeptVolume[]): KeptVolume[] {
  const sorted = [...volumes].sort(compareVolumes)
  return sorted.filter(
    (volume, at) => at + 1 === sorted.length || compareVolumes(volume, sorted[at + 1]!) !== 0,
  )
}

function compareVolumes(a: KeptVolume, b: KeptVolume): number {
  return (
    compareTexts(a.key, b.key) ||
    compareTexts(a.source, b.source) ||
    compareTexts(a.day, b.day) ||
    compareTexts(a.kind, b.kind)
  )
}
