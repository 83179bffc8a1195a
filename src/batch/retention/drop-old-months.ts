import { setTimeout as sleep } from 'node:timers/promises'
import { isLockTimeout } from '../../platform/database/database-errors.ts'
import type { BatchApp } from '../app.ts'
import type { MonthlyHistory } from '../month-rows.ts'
import { keepBestRanks } from '../ranks/best-rank-rows.ts'
import { aggregateVolumes } from '../volumes/aggregate-volumes.ts'
import { archiveMonth } from './archive.ts'
import {
  detachMonth,
  dropLeaving,
  type LeavingMonth,
  listLeaving,
  listMonthsBefore,
  type MonthTable,
  periodOf,
} from './month-rows.ts'
import { rankArchive } from './rank-archive.ts'
import { volumeArchive } from './volume-archive.ts'

/** What would go: the months that end at or before a day, and those that an earlier run left half gone. */
export type OldMonths = {
  readonly months: readonly MonthTable[]
  readonly leaving: readonly LeavingMonth[]
}

export async function findOldMonths(
  app: BatchApp,
  histories: readonly MonthlyHistory[],
  before: string,
): Promise<OldMonths> {
  const months = await listMonthsBefore(app.db, histories, before)
  return { months, leaving: await listLeaving(app.db, histories) }
}

export type DroppedMonth = {
  readonly history: MonthlyHistory
  readonly period: string
  readonly archive: string | null
  readonly rows: number | null
}

export type DropProgress = {
  waiting(month: DroppingMonth, why: 'read' | 'aggregated'): void
  archived(month: DroppingMonth, rows: number): void
  dropped(): void
}

type DroppingMonth = { readonly history: MonthlyHistory; readonly table: string }

/**
 * Takes old months out of the histories, oldest first, each for itself: detached, archived if a folder is given, dropped.
 * Stopped at any moment, the next run goes on with the month that was on its way.
 */
export async function dropOldMonths(
  app: BatchApp,
  { months, leaving }: OldMonths,
  folder: string | null,
  progress: DropProgress,
): Promise<DroppedMonth[]> {
  const dropped: DroppedMonth[] = []
  const finish = async (month: DroppingMonth) => {
    const { history, table } = month
    const onRows = (rows: number) => progress.archived(month, rows)
    const archive =
      folder === null
        ? null
        : history === 'rank'
          ? await archiveMonth(app.db, rankArchive, table, folder, onRows)
          : await archiveMonth(app.db, volumeArchive, table, folder, onRows)
    await dropLeaving(app.db, table)
    progress.dropped()
    dropped.push({
      history,
      period: periodOf(table),
      archive: archive?.path ?? null,
      rows: archive?.rows ?? null,
    })
  }
  for (const month of leaving) {
    // An earlier release may have taken it out, which kept nothing of it.
    if (month.history === 'rank') await keepBestRanks(app.db, month.table)
    await finish(month)
  }
  for (const month of months) {
    const table = await detach(app, month, progress)
    await finish({ history: month.history, table })
  }
  return dropped
}

// Whoever reads the history holds a lock that we must wait for, and everybody else would wait behind us: so we stand in
// line only for a moment at a time.
const lockTimeoutMs = 200
const pauseMs = 800
const mostTries = 300

async function detach(app: BatchApp, month: MonthTable, progress: DropProgress): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      const leaving = await app.db.transaction().execute((tx) => detachMonth(tx, month, lockTimeoutMs))
      if (leaving !== undefined) return leaving
      if (tries === mostTries) throw new HistoryBusy(month.table)
      progress.waiting(month, 'aggregated')
      await aggregateVolumes(app)
    } catch (error) {
      if (!isLockTimeout(error)) throw error
      if (tries === mostTries) throw new HistoryBusy(month.table)
      progress.waiting(month, 'read')
      await sleep(pauseMs)
    }
  }
}

export class HistoryBusy extends Error {
  override readonly name = 'HistoryBusy'

  constructor(table: string) {
    super(
      `${periodOf(table)} is read or written all the time, by a training run perhaps; it stays, and the next run tries again.`,
    )
  }
}
