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
import { openRecentlyCounted } from './recently-counted.ts'

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
  const memory = memoryOf(db)
  const recalled = page.after && mayRecall ? memory.recall(name, performance.now()) : undefined
  const counts = recalled ?? judge(await countShares(db, workspaceId, day, mostSeries + 1))
  if (!recalled) memory.remember(name, counts, performance.now())
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

function weigh({ shares, sound }: Counts): number {
  return shares.length + ('series' in sound ? sound.series.length : 0)
}

const openMemory = () =>
  openRecentlyCounted<Counts>({
    // Long enough for whoever turns the pages, also where other processes answer some of them.
    keptMs: 60_000,
    most: 1_000,
    // A day has a few series; this many of all days together take some megabytes.
    mostWeight: 20_000,
    weigh,
  })
const memories = new WeakMap<BatchDb, ReturnType<typeof openMemory>>()

function memoryOf(db: BatchDb) {
  const memory = memories.get(db) ?? openMemory()
  memories.set(db, memory)
  return memory
}
