import type { BatchApp } from '../batch/app.ts'
import { registerKeywords } from '../batch/keywords/register-keywords.ts'
import { createRandom, type Random } from '../batch/learning/random.ts'
import type { RankObservation } from '../batch/ranks/rank.ts'
import { recordRanks } from '../batch/ranks/record-ranks.ts'
import { putTracker } from '../batch/tracking/put-tracker.ts'
import { findTracker } from '../batch/tracking/tracker-rows.ts'
import { recordVolumes } from '../batch/volumes/record-volumes.ts'
import type { PostedVolume } from '../batch/volumes/volume-observation.ts'
import { Refusal } from '../platform/refusal.ts'
import { addDays, type Day, dayOf } from '../platform/time.ts'

export type DemoBatchOptions = { onProgress?: (done: number, of: number) => void }

export type DemoBatch = {
  workspace: string
  keywords: number
  ranks: number
  volumes: number
  /** The tracker that was set up; null: it was there already, or its place was taken. */
  tracker: string | null
  /** What to try next, one command each. */
  next: string[]
}

const workspace = 'demo'
const historyDays = 120
const volumeMonths = 16
const seed = 20261115

/**
 * Fills the workspace `demo` with a shop's keywords, their ranks up to yesterday and their search volumes, through the
 * same use-cases that callers reach. The same day gives the same world, and filling it twice changes nothing.
 */
export async function demoBatch(
  app: BatchApp,
  { onProgress = () => {} }: DemoBatchOptions = {},
): Promise<DemoBatch> {
  const keywords = demoKeywords()
  const yesterday = addDays(dayOf(app.clock(), app.timeZone), -1)
  const ranks = simulateRanks(keywords, { days: historyDays, lastDay: yesterday, seed })
  const volumes = simulateVolumes(keywords, yesterday)
  const of = keywords.length + ranks.length + volumes.length
  let done = 0
  const advance = (by: number) => {
    done += by
    onProgress(done, of)
  }

  for (const part of chunks(keywords, 100)) {
    await registerKeywords(app, workspace, part)
    advance(part.length)
  }
  for (const part of chunks(ranks, 1000)) {
    await recordRanks(app, workspace, part)
    advance(part.length)
  }
  for (const part of chunks(volumes, 1000)) {
    await recordVolumes(app, part)
    advance(part.length)
  }
  return {
    workspace,
    keywords: keywords.length,
    ranks: ranks.length,
    volumes: volumes.length,
    tracker: await trackSome(app, keywords.slice(0, 20)),
    next: nextSteps(),
  }
}

/**
 * A tracker over the sandbox's made-up web, in a series of its own beside the ranks above: each day that the clock passes
 * brings its checks. One that is there already stays as it is.
 */
async function trackSome(app: BatchApp, keywords: readonly string[]): Promise<string | null> {
  const id = 'demo'
  if (!app.sources.has('sandbox') || (await findTracker(app.db, workspace, id))) return null
  const series = { engine: 'google', device: 'desktop', location: 'KR' }
  const form = {
    site: 'shop.example.com',
    match: 'host',
    source: 'sandbox',
    depth: 50,
    every: 'day',
  } as const
  try {
    await putTracker(app, workspace, id, { ...series, ...form, keywords }, { isForAll: true })
    return id
  } catch (error) {
    // Somebody's own tracker writes this series.
    if (error instanceof Refusal && error.code === 'series_taken') return null
    throw error
  }
}

/** With curl's own word for the token: a header written out would be masked like any other credential. */
function nextSteps(): string[] {
  const curl = 'curl --oauth2-bearer "$TOKEN"'
  const trigger = (task: string) => `${curl} --json '{"task":"${task}"}' "$BASE/api/batch/trigger"`
  const keyword = encodeURIComponent(demoKeywords()[0]!)
  return [
    trigger('aggregate_volumes'),
    trigger('train_classifier'),
    'npx rankledger check-model',
    trigger('predict'),
    `${curl} "$BASE/api/batch/predictions/${keyword}?workspace_id=${workspace}"`,
    `${curl} --json '{"advance_by":"P7D"}' "$BASE/api/sandbox/clock"`,
    `${curl} "$BASE/api/batch/movements?workspace_id=${workspace}"`,
  ]
}

const kinds = ['여성', '남성', '아동', '겨울', '여름', '방수', '경량', '빈티지', '특가', '국내']
const goods = [
  '운동화',
  '런닝화',
  '등산화',
  '슬리퍼',
  '부츠',
  '패딩',
  '바람막이',
  '후드티',
  '맨투맨',
  '청바지',
  '레깅스',
  '백팩',
  '크로스백',
  '모자',
  '양말',
  '장갑',
  '선글라스',
  '텐트',
  '침낭',
  '캠핑의자',
]

/** Two hundred things a sports shop would like to be found for. */
export function demoKeywords(): string[] {
  return goods.flatMap((good) => kinds.map((kind) => `${kind} ${good}`))
}

export type SimulationOptions = { days: number; lastDay: Day; seed: number }

/**
 * Ranks as they move in life: each keyword has a place it returns to and a momentum it loses slowly; the whole site
 * drifts, search engines change their minds now and then, weekends are a little worse, and some checks fail.
 */
export function simulateRanks(
  keywords: readonly string[],
  { days, lastDay, seed }: SimulationOptions,
): RankObservation[] {
  const random = createRandom(seed)
  const site = siteChanges(random, days)
  const worlds = keywords.map(() => {
    const home = Math.log(3) + random.float() * Math.log(25)
    return { home, level: home + 0.4 * normal(random), momentum: 0, page: 1 + random.below(3) }
  })
  const observations: RankObservation[] = []
  for (let at = 0; at < days; at++) {
    const day = addDays(lastDay, at - days + 1)
    const weekend = [0, 6].includes(new Date(`${day}T00:00:00Z`).getUTCDay())
    for (const [index, keyword] of keywords.entries()) {
      const world = worlds[index]!
      const update = site.updates[at]! === 0 ? 0 : site.updates[at]! * normal(random)
      world.momentum = 0.85 * world.momentum + 0.025 * normal(random)
      world.level += 0.07 * (world.home - world.level) + world.momentum + site.drift[at]! + update
      if (random.float() < 0.01) world.page = 1 + random.below(3)
      const seen = Math.exp(world.level + (weekend ? 0.03 : 0) + 0.06 * normal(random))
      const luck = random.float()
      if (luck < 0.02) continue
      observations.push(checkOf(keyword, day, seen, luck < 0.03, world.page))
    }
  }
  return observations
}

function checkOf(keyword: string, day: Day, seen: number, failed: boolean, page: number): RankObservation {
  const checked = { keyword, day, checked_at: `${day}T21:00:00Z` }
  const position = Math.max(1, Math.round(seen))
  if (failed) return { ...checked, status: 'failed' }
  if (position > 100) return { ...checked, status: 'not_in_depth' }
  return { ...checked, status: 'ranked', position, url: `https://shop.example/goods/${page}` }
}

/** What moves all keywords of a site on a day, and how much a change of the engine stirs them up. */
function siteChanges(random: Random, days: number): { drift: Float64Array; updates: Float64Array } {
  const drift = new Float64Array(days)
  const updates = new Float64Array(days)
  let pace = 0
  for (let day = 0; day < days; day++) {
    pace = 0.9 * pace + 0.006 * normal(random)
    drift[day] = pace
    if (random.float() < 0.03) updates[day] = 0.3
  }
  return { drift, updates }
}

/** Monthly volumes with a season: winter things are searched in winter. */
function simulateVolumes(keywords: readonly string[], lastDay: Day): PostedVolume[] {
  const random = createRandom(seed + 1)
  return keywords.flatMap((keyword) => {
    const level = Math.exp(5 + 4 * random.float())
    const peak = /겨울|패딩|부츠|장갑/.test(keyword)
      ? 0
      : /여름|슬리퍼|선글라스/.test(keyword)
        ? 6
        : random.below(12)
    return Array.from({ length: volumeMonths }, (_, back): PostedVolume => {
      const month = monthBefore(lastDay, back + 1)
      const season = 1 + 0.4 * Math.cos((2 * Math.PI * (Number(month.slice(5)) - 1 - peak)) / 12)
      const volume = Math.round((level * season * (1 + 0.1 * normal(random))) / 10) * 10
      const reported = { keyword, source: 'naver', kind: 'month' as const, day: `${month}-01` }
      return volume < 10 ? { ...reported, volume_max: 9 } : { ...reported, volume }
    })
  })
}

function monthBefore(day: Day, back: number): string {
  const months = Number(day.slice(0, 4)) * 12 + Number(day.slice(5, 7)) - 1 - back
  return `${Math.floor(months / 12)}-${String((months % 12) + 1).padStart(2, '0')}`
}

/** A draw from the normal distribution, by Box and Muller. */
function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.float())) * Math.cos(2 * Math.PI * random.float())
}

function* chunks<T>(items: readonly T[], size: number): Generator<T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size)
}
