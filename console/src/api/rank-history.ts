import { client, dataOf } from './client.ts'

type Of = { readonly keyword: string; readonly workspace: string }

const fetchPage = (
  { keyword, workspace }: Of,
  query: { from: string; to?: string; limit: number; cursor?: string },
) =>
  dataOf(
    client.GET('/api/batch/ranks/{keyword}', {
      params: { path: { keyword }, query: { workspace_id: workspace, ...query } },
    }),
  )
type Page = Awaited<ReturnType<typeof fetchPage>>
export type Rank = Page['ranks'][number]

export type RankHistory = {
  /** Oldest first, every series. */
  readonly ranks: readonly Rank[]
  readonly best: Page['best']
  /** There was too much to draw: older days of the span are left out. */
  readonly isCut: boolean
}

const shownDays = 90
/** As much as the API gives at once, and how often it is asked before the chart draws fewer days. */
const mostOfPage = 1000
const mostPages = 5
/** No rank is older. */
const firstDay = '2000-01-01'

/** The newest ninety days of what is known: its last day decides, not the clock. */
export async function newestRanks(of: Of): Promise<RankHistory> {
  const { ranks, best, to } = await fetchPage(of, { from: firstDay, limit: 1 })
  if (!ranks[0]) return { ranks, best, isCut: false }
  // Most are checked daily, so that their last day is found where the API's own span ends.
  const last = await lastDay(of, { known: ranks[0].day, empty: addDays(to, 1), from: addDays(to, -3) })
  return { ...(await readAll(of, addDays(last, 1 - shownDays), last)), best }
}

/** The last day with a rank. There is one on `known`, and none on `empty` or later; `from` is where to look next. */
async function lastDay(of: Of, at: { known: string; empty: string; from?: string }): Promise<string> {
  const { known, empty, from = addDays(known, Math.ceil(daysBetween(known, empty) / 2)) } = at
  if (from >= empty) return known
  const { ranks, next_cursor } = await fetchPage(of, { from, limit: mostOfPage })
  const found = ranks.at(-1)?.day
  if (found === undefined) return lastDay(of, { known, empty: from })
  return next_cursor === null ? found : lastDay(of, { known: found, empty })
}

/** Every rank of a span. Pages come oldest first, so that of too many the newer half is read instead. */
async function readAll(of: Of, from: string, to: string): Promise<Pick<RankHistory, 'ranks' | 'isCut'>> {
  const ranks: Rank[] = []
  let cursor: string | null = null
  for (let pages = 0; pages < mostPages; pages++) {
    const page: Page = await fetchPage(of, {
      from,
      to,
      limit: mostOfPage,
      ...(cursor !== null && { cursor }),
    })
    ranks.push(...page.ranks)
    cursor = page.next_cursor
    if (cursor === null) return { ranks, isCut: false }
  }
  if (from === to) return { ranks, isCut: true }
  const newer = await readAll(of, addDays(from, Math.ceil(daysBetween(from, to) / 2)), to)
  return { ranks: newer.ranks, isCut: true }
}

export function addDays(day: string, days: number): string {
  return new Date(Date.parse(day) + days * 86_400_000).toISOString().slice(0, 10)
}

export function daysBetween(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 86_400_000
}
