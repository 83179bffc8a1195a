import type { BatchApp } from '../app.ts'
import type { ImportState, RejectionSink } from '../import.ts'
import { ensureMonths, withMonths } from '../month-rows.ts'
import type { Archive } from './archive.ts'
import { mergeArchivedRanks } from './archived-rank-rows.ts'
import type { ArchivedRank } from './rank-archive.ts'
import { monthsOfArchived, restore } from './restore.ts'

/**
 * Brings an archive's ranks back, of one workspace or of all. What is stored already is kept where it is newer, so that it
 * can be run again at will; a rank whose keyword is unknown here is rejected.
 */
export function restoreRanks(
  app: BatchApp,
  archive: Archive<ArchivedRank>,
  workspaceId: string | null,
  rejects: RejectionSink,
  onProgress: (state: ImportState) => void,
): Promise<ImportState & { resumedAt: number }> {
  const store = (ranks: readonly ArchivedRank[]) =>
    withMonths(
      app.db,
      () => ensureMonths(app.db, 'rank', monthsOfArchived(ranks)),
      () => mergeArchivedRanks(app.db, ranks),
    )
  const isWanted = (rank: ArchivedRank) => workspaceId === null || rank.workspace_id === workspaceId
  return restore(archive, store, rejects, onProgress, isWanted)
}
