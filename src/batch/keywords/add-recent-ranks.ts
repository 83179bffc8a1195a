import { type Page, writeCursor } from '../../platform/page.ts'
import { addDays, dayOf } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { listRecentRanks, type RecentRank, type RegisteredKeyword } from './keyword-rows.ts'

/** A hundred keywords in four series over 92 days still fit. Beyond that the page ends early, and its cursor goes on. */
const mostRanks = 40_000

/** A page of keywords with the ranks of each of so many days up to today. */
export async function addRecentRanks(
  app: BatchApp,
  workspaceId: string,
  { items, nextCursor }: Page<RegisteredKeyword>,
  days: number,
): Promise<Page<RegisteredKeyword & { ranks: RecentRank[] }>> {
  const ids = items.map(({ id }) => id)
  const since = addDays(dayOf(app.clock(), app.timeZone), 1 - days)
  const { ranksOf, endsBefore } = await listRecentRanks(app.db, workspaceId, ids, since, mostRanks)
  const kept = endsBefore === undefined ? items : items.slice(0, ids.indexOf(endsBefore))
  return {
    items: kept.map((keyword) => ({ ...keyword, ranks: ranksOf.get(keyword.id) ?? [] })),
    nextCursor: endsBefore === undefined ? nextCursor : writeCursor([String(kept.at(-1)!.id)]),
  }
}
