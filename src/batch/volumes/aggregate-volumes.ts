import type { Day } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { oneBehind } from '../one-behind.ts'
import { findKeptFrom } from './horizon-rows.ts'
import { monthlyVolume, volumeAtMonthEnd } from './monthly-volume.ts'
import {
  clearDirtyMonths,
  countDirtyMonths,
  type DirtyMonth,
  listDirtyMonths,
  listObservationsOf,
  storeMonthlyVolumes,
  type WorkedOutMonth,
} from './volume-rows.ts'

export type Aggregated = { keywords: number; months: number }
export type AggregationProgress = { done: number; of: number }

// Enough to make a round trip worth its while; with two months of daily observations each, some megabytes.
const pageSize = 500

/**
 * Works out again every month that observations have changed since the last time. Safe to run twice, also at once:
 * a month is stored only by the one who takes its mark away, and only if no observation came after it was read.
 */
export async function aggregateVolumes(
  app: BatchApp,
  onProgress: (progress: AggregationProgress) => void = () => {},
): Promise<Aggregated> {
  const of = await countDirtyMonths(app.db)
  const aggregated = { keywords: 0, months: 0 }
  let done = 0
  let lastKey: string | undefined
  const count = (settled: readonly DirtyMonth[]) => {
    for (const { key } of settled) {
      if (key !== lastKey) aggregated.keywords++
      lastKey = key
    }
    aggregated.months += settled.length
  }
  let after: DirtyMonth | undefined
  const settling = oneBehind<DirtyMonth[]>()
  for (;;) {
    const dirty = await listDirtyMonths(app.db, after, pageSize)
    const worked = await workOut(app, dirty)
    after = dirty.at(-1)
    // While these are stored, the next are read and worked out.
    const before = await (after ? settling.begin(() => settle(app, dirty, worked)) : settling.ended())
    count(before ?? [])
    if (before) onProgress({ done: Math.min(done, of), of })
    if (after === undefined) return aggregated
    done += dirty.length
  }
}

/**
 * Reads the observations after the marks: what is missing here has brought, or will bring, a newer mark. A month whose
 * observations were dropped stays as it is: what is left of them, a window that reaches back into it, is not the whole.
 * Only a report of the month still replaces it, for it needs no other observation.
 */
async function workOut(
  app: BatchApp,
  dirty: readonly DirtyMonth[],
): Promise<Map<DirtyMonth, WorkedOutMonth>> {
  if (dirty.length === 0) return new Map()
  const keptFrom = await findKeptFrom(app.db)
  const observations = await listObservationsOf(app.db, dirty)
  const worked = new Map<DirtyMonth, WorkedOutMonth>()
  dirty.forEach((one, at) => {
    const volume = monthlyVolume(one.month, observations[at]!)
    if (!volume || (volume.quality !== 'reported' && isGone(one, keptFrom))) return
    const atMonthEnd = volumeAtMonthEnd(one.month, observations[at]!, volume) ?? null
    worked.set(one, { ...volume, atMonthEnd, key: one.key, source: one.source })
  })
  return worked
}

function isGone({ month }: DirtyMonth, keptFrom: Day | null): boolean {
  return keptFrom !== null && `${month}-01` < keptFrom
}

async function settle(
  app: BatchApp,
  dirty: readonly DirtyMonth[],
  worked: ReadonlyMap<DirtyMonth, WorkedOutMonth>,
): Promise<DirtyMonth[]> {
  return app.db.transaction().execute(async (tx) => {
    await app.fence(tx)
    const cleared = await clearDirtyMonths(tx, dirty)
    const months = cleared.flatMap((one) => worked.get(one) ?? [])
    await storeMonthlyVolumes(tx, months, app.clock())
    return cleared
  })
}
