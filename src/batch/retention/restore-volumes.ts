import type { BatchApp } from '../app.ts'
import type { ImportState, RejectionSink } from '../import.ts'
import { ensureMonths, withMonths } from '../month-rows.ts'
import { findKeptFrom } from '../volumes/horizon-rows.ts'
import type { Archive } from './archive.ts'
import { mergeArchivedVolumes } from './archived-volume-rows.ts'
import { monthsOfArchived, restore } from './restore.ts'
import type { ArchivedVolume } from './volume-archive.ts'

/**
 * Brings an archive's observations of volumes back. One that is stored already is kept, unless the archive holds a later
 * correction of it and its month was never dropped here, so that it can be run again at will. Monthly volumes that
 * outlived their observations stay as they are; the aggregation makes those that are missing here.
 */
export function restoreVolumes(
  app: BatchApp,
  archive: Archive<ArchivedVolume>,
  rejects: RejectionSink,
  onProgress: (state: ImportState) => void,
): Promise<ImportState & { resumedAt: number }> {
  const store = async (volumes: readonly ArchivedVolume[]) => {
    const stored = await withMonths(
      app.db,
      () => ensureMonths(app.db, 'volume_observation', monthsOfArchived(volumes)),
      async () => mergeArchivedVolumes(app.db, volumes, await findKeptFrom(app.db)),
    )
    return { ...stored, unknown: [] }
  }
  return restore(archive, store, rejects, onProgress)
}
