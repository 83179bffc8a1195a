import { setTimeout as sleep } from 'node:timers/promises'
import type { BatchApp } from '../app.ts'
import {
  detachMonth,
  dropLeaving,
  isLocked,
  listLeaving,
  listMonthsBefore,
  periodOf,
  type RankMonth,
} from './month-rows.ts'
import { archiveMonth } from './rank-archive.ts'

/** What would go: the months that end at or before a day, and those that an earlier run left half gone. */
export type OldMonths = {
  readonly months: readonly RankMonth[]
  readonly leaving: readonly { readonly table: string; readonly bytes: number }[]
}

export async function findOldMonths(app: BatchApp, before: string): Promise<OldMonths> {
  return { months: await listMonthsBefore(app.pool, before), leaving: await listLeaving(app.pool) }
}

export type DroppedMonth = {
  readonly period: string
  readonly archive: string | null
  readonly rows: number | null
}

export type DropProgress = {
  waiting(period: string): void
  archived(period: string, rows: number): void
  dropped(): void
}

/**
 * Takes old months out of the history, oldest first, each for itself: detached, archived if a folder is given, dropped.
 * Stopped at any moment, the next run goes on with the month that was on its way.
 */
export async function dropOldMonths(
  app: BatchApp,
  { months, leaving }: OldMonths,
  folder: string | null,
  progress: DropProgress,
): Promise<DroppedMonth[]> {
  const dropped: DroppedMonth[] = []
  const finish = async (table: string) => {
    const period = periodOf(table)
    const archive = folder
      ? await archiveMonth(app.pool, table, folder, (rows) => progress.archived(period, rows))
      : undefined
    await dropLeaving(app.pool, table)
    progress.dropped()
    dropped.push({ period, archive: archive?.path ?? null, rows: archive?.rows ?? null })
  }
  for (const { table } of leaving) await finish(table)
  for (const { table } of months) await finish(await detach(app, table, progress))
  return dropped
}

// Whoever reads the history holds a lock that we must wait for, and everybody else would wait behind us: so we stand in
// line only for a moment at a time.
const lockTimeoutMs = 200
const pauseMs = 800
const mostTries = 300

async function detach(app: BatchApp, table: string, progress: DropProgress): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      return await detachMonth(app.pool, table, lockTimeoutMs)
    } catch (error) {
      if (!isLocked(error)) throw error
      if (tries === mostTries) throw new HistoryBusy(periodOf(table))
      progress.waiting(periodOf(table))
      await sleep(pauseMs)
    }
  }
}

export class HistoryBusy extends Error {
  override readonly name = 'HistoryBusy'

  constructor(period: string) {
    super(
      `${period} is being read all the time, by a training run perhaps; it stays, and the next run tries again.`,
    )
  }
}
