import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../../platform/page.ts'
import { addDays, type Day, parseDay } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { foreignCursor } from '../cursor.ts'
import { cleanOne } from '../keywords/clean-keywords.ts'
import { findKeywordIds } from '../keywords/keyword-rows.ts'
import { invalid, refuse } from '../refusals.ts'
import { type BestRank, listBestRanks } from './best-rank-rows.ts'
import { horizonOf, isSeriesName } from './rank.ts'
import { listRanks, type RankPlace, type StoredRank } from './rank-rows.ts'

export type RankQuery = PageRequest & { from?: string; to?: string }
export type RankHistory = {
  keyword: string
  from: Day
  to: Day
  page: Page<StoredRank>
  /** Told with the first page: the pages after it would tell the same. */
  best: BestRank[] | undefined
}

const usualSpanDays = 365

/** A keyword's rank history between two days, by default the year that ends now; oldest first. */
export async function lookUpRanks(
  app: BatchApp,
  workspaceId: string,
  raw: string,
  query: RankQuery,
): Promise<RankHistory> {
  const { display, key } = cleanOne(raw, 'keyword')
  const { from, to } = spanOf(query, app.clock())
  const after = placeOf(query)
  const limit = limitOf(query)

  const keywordId = (await findKeywordIds(app.db, workspaceId, [key])).get(key)
  if (keywordId === undefined) throw refuse('keyword_not_found')

  const [rows, best] = await Promise.all([
    listRanks(app.db, workspaceId, keywordId, { from, to, after, limit: limit + 1 }),
    after === undefined ? listBestRanks(app.db, workspaceId, keywordId) : undefined,
  ])
  const page = pageOf(rows, limit, ({ day, engine, device, location }) => [day, engine, device, location])
  return { keyword: display, from, to, page, best }
}

function spanOf(query: RankQuery, now: Date): { from: Day; to: Day } {
  const to = dayAt('to', query.to) ?? horizonOf(now).lastDay
  const from = dayAt('from', query.from) ?? (to < '0002' ? to : addDays(to, -usualSpanDays))
  if (from > to) throw invalid('from', 'out_of_order', 'The first day lies after the last.')
  return { from, to }
}

function dayAt(path: string, text: string | undefined): Day | undefined {
  if (text !== undefined && parseDay(text) === undefined)
    throw invalid(path, 'not_real', 'There is no such day.')
  return text
}

function placeOf(query: RankQuery): RankPlace | undefined {
  const values = readCursor(query, 4)
  if (values === undefined) return undefined
  const [day, engine, device, location] = values as [string, string, string, string]
  if (parseDay(day) === undefined || ![engine, device, location].every(isSeriesName)) throw foreignCursor()
  return { day, engine, device, location }
}
