import { compareTexts } from '../../platform/compare-texts.ts'
import { addDays, type Day, dayOf, parseDay, parseInstant } from '../../platform/time.ts'
import { cleanKeyword, type KeywordRefusal } from '../keywords/keyword.ts'

export const rankStatuses = ['ranked', 'not_in_depth', 'failed'] as const
export type RankStatus = (typeof rankStatuses)[number]

/** A check of a keyword's place as a collector reports it; its form is right, its sense is not known yet. */
export type RankObservation = {
  keyword: unknown
  day: string
  status: RankStatus
  position?: number
  mean_position?: number
  searched_depth?: number
  url?: string
  reason?: string
  engine?: string
  device?: string
  location?: string
  checked_at?: string
}

/** Where a keyword stood on a day. One exists per keyword, engine, device, location and day. */
export type Rank = {
  readonly key: string
  readonly day: Day
  readonly engine: string
  readonly device: string
  readonly location: string
  readonly status: RankStatus
  /** With `ranked` only. Not ranked is not the same as not known: see `status`. */
  readonly position: number | null
  /** Where the place is a mean over many searches: that mean. */
  readonly meanPosition: number | null
  readonly searchedDepth: number
  readonly url: string | null
  /** With `failed` only: what went wrong. */
  readonly reason: string | null
  readonly checkedAt: Date
}

export type RankRefusal =
  | KeywordRefusal
  | 'keyword_not_found'
  | 'day_not_real'
  | 'day_out_of_range'
  | 'searched_depth_out_of_range'
  | 'position_missing'
  | 'position_not_allowed'
  | 'position_out_of_range'
  | 'mean_position_out_of_range'
  | 'reason_not_allowed'
  | 'checked_at_not_real'
  | 'checked_at_in_future'

export type RankVerdict = (Rank & { readonly refusal?: never }) | { readonly refusal: RankRefusal }

/** How engines, devices and locations are named. */
export const seriesNamePattern = /^[A-Za-z0-9_.:-]{1,64}$/

export function isSeriesName(text: string): boolean {
  return seriesNamePattern.test(text)
}

export const firstDay: Day = '2000-01-01'
const deepestSearch = 10_000
const usualDepth = 100

/** What can be known at a moment. */
export type Horizon = {
  readonly now: Date
  /** Tomorrow, where clocks are furthest ahead: no rank is known before its day has begun somewhere. */
  readonly lastDay: Day
  /** A collector whose clock runs ahead would leave rows that no later check can correct. */
  readonly latestCheck: Date
}

export function horizonOf(now: Date): Horizon {
  const hour = 3_600_000
  return {
    now,
    lastDay: addDays(dayOf(new Date(now.getTime() + 14 * hour), 'UTC'), 1),
    latestCheck: new Date(now.getTime() + 24 * hour),
  }
}

/**
 * Makes sense of observations one by one, or says why one has none; what it leaves out is filled in. Observations
 * come in bulk with the same few days and times, so each of these is looked at once.
 */
export function openRankReader(now: Date): (observation: RankObservation) => RankVerdict {
  const horizon = horizonOf(now)
  const dayRefusalOf = remembering((day: string) => dayRefusal(day, horizon))
  const checkOf = remembering((text: string) => readCheckTime(parseInstant(text), horizon))
  const checkedNow = readCheckTime(now, horizon)

  return (observation) => {
    const keyword = cleanKeyword(observation.keyword)
    if (keyword.refusal) return keyword

    const check = observation.checked_at === undefined ? checkedNow : checkOf(observation.checked_at)
    const searchedDepth = observation.searched_depth ?? usualDepth
    const refusal =
      dayRefusalOf(observation.day) ??
      check.refusal ??
      placeRefusal(observation.status, observation.position, searchedDepth) ??
      meanRefusal(observation) ??
      reasonRefusal(observation)
    if (refusal) return { refusal }

    return {
      key: keyword.key,
      day: observation.day,
      engine: observation.engine ?? 'naver',
      device: observation.device ?? 'mobile',
      location: observation.location ?? 'KR',
      status: observation.status,
      position: observation.position ?? null,
      meanPosition: observation.mean_position ?? null,
      searchedDepth,
      url: observation.url ?? null,
      reason: observation.reason ?? null,
      checkedAt: check.at!,
    }
  }
}

function remembering<T>(find: (text: string) => T): (text: string) => T {
  const found = new Map<string, T>()
  return (text) => {
    let value = found.get(text)
    if (value === undefined && !found.has(text)) {
      value = find(text)
      found.set(text, value)
    }
    return value as T
  }
}

/** Why a day can be nobody's: ranks and volumes alike. */
export function dayRefusal(
  day: string,
  { lastDay }: Horizon,
): 'day_not_real' | 'day_out_of_range' | undefined {
  if (parseDay(day) === undefined) return 'day_not_real'
  return day < firstDay || day > lastDay ? 'day_out_of_range' : undefined
}

function readCheckTime(
  at: Date | undefined,
  { latestCheck }: Horizon,
): { at: Date; refusal?: never } | { at?: never; refusal: RankRefusal } {
  if (at === undefined) return { refusal: 'checked_at_not_real' }
  return at > latestCheck ? { refusal: 'checked_at_in_future' } : { at }
}

function placeRefusal(
  status: RankStatus,
  position: number | undefined,
  depth: number,
): RankRefusal | undefined {
  if (!Number.isInteger(depth) || depth < 1 || depth > deepestSearch) return 'searched_depth_out_of_range'
  if (status !== 'ranked') return position === undefined ? undefined : 'position_not_allowed'
  if (position === undefined) return 'position_missing'
  return Number.isInteger(position) && position >= 1 && position <= depth
    ? undefined
    : 'position_out_of_range'
}

/** A mean and the place that it is rounded to are one statement. */
function meanRefusal({ position, mean_position: mean }: RankObservation): RankRefusal | undefined {
  if (mean === undefined) return undefined
  return position !== undefined && mean >= 1 && position === Math.round(mean)
    ? undefined
    : 'mean_position_out_of_range'
}

function reasonRefusal({ status, reason }: RankObservation): RankRefusal | undefined {
  return reason !== undefined && status !== 'failed' ? 'reason_not_allowed' : undefined
}

/** The order in which ranks are locked and written, by everyone, so that no two writers wait in a ring. */
function compareRanks(a: Rank, b: Rank): number {
  return (
    compareTexts(a.key, b.key) ||
    compareTexts(a.day, b.day) ||
    compareTexts(a.engine, b.engine) ||
    compareTexts(a.device, b.device) ||
    compareTexts(a.location, b.location)
  )
}

/** Whether a newly reported rank takes the place of one reported before: the later check, but never a failed one of a good one. */
export function supersedes(reported: Rank, before: Rank): boolean {
  const [failed, failedBefore] = [reported.status === 'failed', before.status === 'failed']
  if (failed !== failedBefore) return failedBefore
  return reported.checkedAt >= before.checkedAt
}

/** Sorts ranks and keeps, of those for the same day and place, the one that stands in the end. */
export function dedupeRanks(ranks: readonly Rank[]): Rank[] {
  // The sort is stable, so repeats stay in the order in which they were reported.
  const sorted = [...ranks].sort(compareRanks)
  const kept: Rank[] = []
  for (const rank of sorted) {
    const before = kept.at(-1)
    if (!before || compareRanks(before, rank) !== 0) kept.push(rank)
    else if (supersedes(rank, before)) kept[kept.length - 1] = rank
  }
  return kept
}
