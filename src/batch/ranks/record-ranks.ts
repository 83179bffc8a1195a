import { invariant } from '../../platform/invariant.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import { findKeywordIds } from '../keywords/keyword-rows.ts'
import { monthOf, monthsOf } from '../month.ts'
import { ensureMonths, findMonths, unmadeMonths, withMonths } from '../month-rows.ts'
import { dedupeRanks, openRankReader, type Rank, type RankObservation, type RankRefusal } from './rank.ts'
import { addRanks, type MergedRanks, mergeRanks } from './rank-rows.ts'

export type RankRejection = { index: number; code: RankRefusal }

export type RecordedRanks = {
  inserted: number
  updated: number
  /** Not newer than what is stored, or overtaken by another observation of the same request. */
  unchanged: number
  rejected: number
  rejections: RankRejection[]
}

/** Adds observations to the rank history. Each stands alone: a bad one is rejected and the others are stored. */
export async function recordRanks(
  app: BatchApp,
  workspaceId: string,
  observations: readonly RankObservation[],
): Promise<RecordedRanks> {
  const now = app.clock()
  const { ranks, rejections } = readAll(observations, now)
  const settled = dedupeRanks([...ranks.keys()])
  const { inserted, updated, unknown } = await withMonths(
    app.db,
    () => makeMonths(app, workspaceId, settled),
    () => storeRanks(app, workspaceId, settled, now),
  )

  const unknownKeys = new Set(unknown.map((at) => settled[at]!.key))
  if (unknownKeys.size > 0) {
    for (const [rank, index] of ranks) {
      if (unknownKeys.has(rank.key)) rejections.push({ index, code: 'keyword_not_found' })
    }
    rejections.sort((a, b) => a.index - b.index)
  }
  const rejected = rejections.length
  return {
    inserted,
    updated,
    unchanged: observations.length - inserted - updated - rejected,
    rejected,
    rejections,
  }
}

// As much as makes a statement that is put together, sent and read in a few milliseconds.
const mostAtOnce = 256 * 1024
const ordinaryBytes = 200

/**
 * Stores all of them or none. So many that one statement of them would hold up everybody else go one portion after the
 * other; the order is the same, so that no two writers wait in a ring.
 */
async function storeRanks(
  app: BatchApp,
  workspaceId: string,
  ranks: readonly Rank[],
  now: Date,
): Promise<MergedRanks> {
  const [first = [], ...more] = portionsOf(ranks)
  if (more.length === 0) return addRanks(app.db, workspaceId, first, now)
  return app.db.transaction().execute(async (tx) => {
    const merged = { inserted: 0, updated: 0, unknown: [] as number[] }
    let before = 0
    for (const portion of [first, ...more]) {
      const { inserted, updated, unknown } = await mergeRanks(tx, workspaceId, portion, now)
      merged.inserted += inserted
      merged.updated += updated
      for (const at of unknown) merged.unknown.push(before + at)
      before += portion.length
    }
    return merged
  })
}

function portionsOf(ranks: readonly Rank[]): Rank[][] {
  const portions: Rank[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const rank of ranks) {
    if (bytes > mostAtOnce) {
      portions.push([])
      bytes = 0
    }
    portions.at(-1)!.push(rank)
    bytes += ordinaryBytes + (rank.url?.length ?? 0)
  }
  return portions
}

/**
 * Stores observations of several workspaces inside somebody's transaction, by the same rule. Their months exist already.
 * One whose keyword is gone by now, or whose month `retention` has dropped, has no place to go and is left out.
 */
export async function mergeObservations(
  tx: BatchTx,
  now: Date,
  reported: readonly { workspaceId: string; observation: RankObservation }[],
): Promise<void> {
  if (reported.length === 0) return
  const months = await findMonths(tx, 'rank', monthsOf(reported.map(({ observation }) => observation)))
  const workspaces = new Map<string, RankObservation[]>()
  for (const { workspaceId, observation } of reported) {
    const observations = workspaces.get(workspaceId)
    if (observations) observations.push(observation)
    else workspaces.set(workspaceId, [observation])
  }
  for (const workspaceId of [...workspaces.keys()].sort()) {
    const { ranks, rejections } = readAll(workspaces.get(workspaceId)!, now)
    invariant(rejections.length === 0, `our own observations make sense, not ${rejections[0]?.code}`)
    const kept = [...ranks.keys()].filter(({ day }) => months.has(monthOf(day)))
    await mergeRanks(tx, workspaceId, dedupeRanks(kept), now)
  }
}

/** Makes the months that will be written to. A day that only unknown keywords name makes nothing. */
async function makeMonths(app: BatchApp, workspaceId: string, ranks: readonly Rank[]): Promise<void> {
  const unmade = unmadeMonths(app.db, 'rank', monthsOf(ranks))
  if (unmade.size === 0) return
  const waiting = ranks.filter(({ day }) => unmade.has(monthOf(day)))
  const known = await findKeywordIds(app.db, workspaceId, [...new Set(waiting.map(({ key }) => key))])
  await ensureMonths(app.db, 'rank', monthsOf(waiting.filter(({ key }) => known.has(key))))
}

/** The observations that make sense, each with its place in the request, and what is wrong with the others. */
function readAll(observations: readonly RankObservation[], now: Date) {
  const read = openRankReader(now)
  const ranks = new Map<Rank, number>()
  const rejections: RankRejection[] = []
  observations.forEach((observation, index) => {
    const verdict = read(observation)
    if (verdict.refusal) rejections.push({ index, code: verdict.refusal })
    else ranks.set(verdict, index)
  })
  return { ranks, rejections }
}
