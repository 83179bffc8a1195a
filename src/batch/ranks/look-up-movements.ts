import type { Day } from '../../platform/time.ts'
import type { BatchApp, BatchDb } from '../app.ts'
import {
  countShares,
  listMovements,
  type Movement,
  type MovementPlace,
  type RankShares,
  type Sound,
} from './movement-rows.ts'

/** A series of which more than this share failed on a day tells nothing about that day. */
const mostFailed = 0.3

/** How many series of a day are told of. */
const mostShares = 100

// Whoever posts ranks names their series, as many as they like; a day of more than this is judged where it lies.
const mostSeries = 1_000

/**
 * A page of what moved on a day, and how many keywords stood how high. The first page counts the day, however large; the
 * pages after it go by that count, so that each costs a page and all of them leave out the same series. A caller who is to
 * see the last write has the day counted anew, and so has each page of a day of very many series.
 */
export async function lookUpMovements(
  { db, pool }: Pick<BatchApp, 'db' | 'pool'>,
  workspaceId: string,
  day: Day,
  { mayRecall, ...page }: { after: MovementPlace | undefined; limit: number; mayRecall: boolean },
): Promise<{ movements: Movement[]; shares: readonly RankShares[] }> {
  const name = `${workspaceId} ${day}`
  const recalled = page.after && mayRecall ? recall(db, name) : undefined
  const counts = recalled ?? judge(await countShares(db, workspaceId, day, mostSeries + 1))
  if (!recalled) remember(db, name, counts)
  const { shares, sound } = counts
  return { movements: await listMovements(pool, workspaceId, day, sound, page), shares }
}

type Counts = { readonly shares: readonly RankShares[]; readonly sound: Sound }

function judge(counted: readonly RankShares[]): Counts {
  const shares = counted.slice(0, mostShares)
  if (counted.length > mostSeries) return { shares, sound: { mostBroken: mostFailed } }
  const series = counted
    .filter(({ keywords, failed, broken }) => broken <= mostFailed * (keywords + failed))
    .map(({ engine, device, location }) => ({ engine, device, location }))
  return { shares, sound: { series } }
}

type Remembered = { readonly counts: Counts; readonly at: number }

// Long enough for whoever turns the pages, also where other processes answer some of them.
const rememberedMs = 60_000
const mostRemembered = 1_000
// A day has a few; this many of all days together take some megabytes.
const mostRememberedSeries = 20_000
const remembered = new WeakMap<BatchDb, { days: Map<string, Remembered>; series: number }>()

function recall(db: BatchDb, name: string): Counts | undefined {
  const found = remembered.get(db)?.days.get(name)
  return found && performance.now() - found.at < rememberedMs ? found.counts : undefined
}

function remember(db: BatchDb, name: string, counts: Counts): void {
  const all = remembered.get(db) ?? { days: new Map<string, Remembered>(), series: 0 }
  remembered.set(db, all)
  const forget = (day: string) => {
    all.series -= weightOf(all.days.get(day))
    all.days.delete(day)
  }
  // The one counted longest ago stands first.
  forget(name)
  const kept = { counts, at: performance.now() }
  all.days.set(name, kept)
  all.series += weightOf(kept)
  while (all.days.size > mostRemembered || all.series > mostRememberedSeries)
    forget(all.days.keys().next().value!)
}

function weightOf(kept: Remembered | undefined): number {
  if (!kept) return 0
  const { shares, sound } = kept.counts
  return shares.length + ('series' in sound ? sound.series.length : 0)
}
