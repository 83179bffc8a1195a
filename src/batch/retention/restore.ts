import type { ImportRejection, ImportState, RejectionSink } from '../import.ts'
import type { Archive } from './archive.ts'

const rowsAtOnce = 5_000

export type Restored = {
  readonly inserted: number
  readonly updated: number
  /** Places of the rows that have nothing to belong to here. */
  readonly unknown: readonly number[]
}

/** Reads an archive a part at a time and has the rows that are wanted stored. */
export async function restore<Row extends object>(
  archive: Archive<Row>,
  store: (rows: readonly Row[]) => Promise<Restored>,
  rejects: RejectionSink,
  onProgress: (state: ImportState) => void,
  isWanted: (row: Row) => boolean = () => true,
): Promise<ImportState & { resumedAt: number }> {
  const state = { bytes: 0, lines: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0 }
  await rejects.open(0)
  for await (const group of archive.groups()) {
    for (let at = 0; at < group.length; at += rowsAtOnce) {
      const part = group.slice(at, at + rowsAtOnce)
      const wanted = part.filter(isWanted)
      const { inserted, updated, unknown } =
        wanted.length === 0 ? { inserted: 0, updated: 0, unknown: [] } : await store(wanted)
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

const dayMs = 86_400_000

/** The months, such as `2026-10`, that archived rows fall in. */
export function monthsOfArchived(rows: readonly { readonly day: number }[]): Set<string> {
  return new Set(rows.map(({ day }) => new Date(day * dayMs).toISOString().slice(0, 7)))
}

function rejectionOf(row: object, line: number): ImportRejection {
  const raw = JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? String(value) : value))
  return { line, code: 'keyword_not_found', raw }
}
