import type { Day } from '../../platform/time.ts'
import type { BatchApp, BatchDb } from '../app.ts'
import {
  countShares,
  listMovements,
  type Movement,
  type MovementPlace,
  type RankShares,
} from './movement-rows.ts'

/** A series of which more than this share failed on a day tells nothing about that day. */
const mostFailed = 0.3

/**
 * A page of what moved on a day, and how many keywords stood how high. The first page counts the day, however large; the
 * pages after it go by that count, so that each costs a page and all of them leave out the same series. A caller who is to
 * see the last write has the day counted anew.
 */
export async function lookUpMovements(
  { db, pool }: Pick<BatchApp, 'db' | 'pool'>,
  workspaceId: string,
  day: Day,
  { mayRecall, ...page }: { after: MovementPlace | undefined; limit: number; mayRecall: boolean },
): Promise<{ movements: Movement[]; shares: RankShares[] }> {
  const name = `${workspaceId} ${day}`
  const recalled = page.after && mayRecall ? recall(db, name) : undefined
  const shares = recalled ?? (await countShares(db, workspaceId, day))
  if (!recalled) remember(db, name, shares)
  const sound = shares.filter(({ keywords, failed, broken }) => broken <= mostFailed * (keywords + failed))
  return { movements: await listMovements(pool, workspaceId, day, sound, page), shares }
}

type Counted = { readonly shares: RankShares[]; readonly at: number }

// Long enough for whoever turns the pages, also where other processes answer some of them.
const rememberedMs = 60_000
const mostRemembered = 1_000
const counted = new WeakMap<BatchDb, Map<string, Counted>>()

function recall(db: BatchDb, name: string): RankShares[] | undefined {
  const found = counted.get(db)?.get(name)
  return found && performance.now() - found.at < rememberedMs ? found.shares : undefined
}

function remember(db: BatchDb, name: string, shares: RankShares[]): void {
  const all = counted.get(db) ?? new Map<string, Counted>()
  counted.set(db, all)
  // The one counted longest ago stands first.
  all.delete(name)
  all.set(name, { shares, at: performance.now() })
  if (all.size > mostRemembered) all.delete(all.keys().next().value!)
}
