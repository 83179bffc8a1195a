import type { BatchApp } from '../app.ts'
import type { ImportRejection, ImportState, RejectionSink } from '../import.ts'
import { ensureMonths, withMonths } from '../month-rows.ts'
import { mergeArchivedRanks } from './archived-rank-rows.ts'
import type { ArchivedRank, RankArchive } from './rank-archive.ts'

const rowsAtOnce = 5_000
const dayMs = 86_400_000

/**
 * Brings an archive's ranks back, of one workspace or of all. What is stored already is kept where it is newer, so that it
 * can be run again at will; a rank whose keyword is unknown here is rejected.
 */
export async function restoreRanks(
  app: BatchApp,
  archive: RankArchive,
  workspaceId: string | null,
  rejects: RejectionSink,
  onProgress: (state: ImportState) => void,
): Promise<ImportState & { resumedAt: number }> {
  const state = { bytes: 0, lines: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0 }
  await rejects.open(0)
  for await (const group of archive.groups()) {
    for (let at = 0; at < group.length; at += rowsAtOnce) {
      const part = group.slice(at, at + rowsAtOnce)
      const wanted = workspaceId === null ? part : part.filter((rank) => rank.workspace_id === workspaceId)
      const { inserted, updated, unknown } = await store(app, wanted)
      const firstLine = state.lines + 1
      const rejections = unknown.map((place) =>
        rejectionOf(wanted[place]!, firstLine + part.indexOf(wanted[place]!)),
      )
      await rejects.write(rejections)
      state.lines += part.length
      state.bytes = state.lines
      state.inserted += inserted
      state.updated += updated
      state.unchanged += wanted.length - inserted - updated - unknown.length
      state.rejected += unknown.length
      onProgress(state)
    }
  }
  return { ...state, resumedAt: 0 }
}

async function store(app: BatchApp, ranks: readonly ArchivedRank[]) {
  if (ranks.length === 0) return { inserted: 0, updated: 0, unknown: [] }
  const months = new Set(ranks.map(({ day }) => new Date(day * dayMs).toISOString().slice(0, 7)))
  const make = () => ensureMonths(app.pool, 'rank', months)
  return withMonths(app.pool, make, () => mergeArchivedRanks(app.pool, ranks))
}

function rejectionOf(rank: ArchivedRank, line: number): ImportRejection {
  const raw = JSON.stringify(rank, (_, value) => (typeof value === 'bigint' ? String(value) : value))
  return { line, code: 'keyword_not_found', raw }
}
