import { pieces } from '../../platform/pieces.ts'
import type { BatchApp } from '../app.ts'
import {
  type ImportChunk,
  type ImportRecord,
  type ImportRejection,
  type ImportSource,
  type ImportState,
  type ImportTarget,
  importRecords,
  openFormCheck,
  type RejectionSink,
} from '../import.ts'
import { cleanKeyword } from '../keywords/keyword.ts'
import { monthsOf } from '../month.ts'
import { ensureMonths, withMonthsInside } from '../month-rows.ts'
import { type Horizon, horizonOf } from '../ranks/rank.ts'
import { findKeptFrom } from './horizon-rows.ts'
import { VolumeForm } from './volume-form.ts'
import {
  dedupeVolumes,
  isTooLate,
  type KeptVolume,
  type PostedVolume,
  readVolume,
  type VolumeVerdict,
} from './volume-observation.ts'
import { mergeVolumes } from './volume-rows.ts'

/** Imports a file of volume observations; the months they touch wait for the next aggregation. */
export async function importVolumes(
  app: BatchApp,
  source: ImportSource,
  rejects: RejectionSink,
  onProgress?: (state: ImportState) => void,
): Promise<ImportState & { resumedAt: number }> {
  return importRecords(app, volumeTarget(app), source, rejects, onProgress)
}

type Part = {
  readonly volumes: readonly KeptVolume[]
  /** The line that each of them was read from. */
  readonly lines: readonly number[]
  readonly chunk: ImportChunk
}

const volumeTarget = ({ db }: BatchApp): ImportTarget<Part> => ({
  name: 'volumes',
  prepare: prepareVolumes,
  async store(client, { volumes, lines, chunk }) {
    let tooLate = new Set<number>()
    let kept = volumes
    const { inserted, updated } = await withMonthsInside(
      db,
      client,
      async () => {
        const keptFrom = await findKeptFrom(db)
        tooLate = new Set(lines.filter((_, at) => isTooLate(volumes[at]!, keptFrom)))
        kept = volumes.filter((volume) => !isTooLate(volume, keptFrom))
        await ensureMonths(db, 'volume_observation', monthsOf(kept))
      },
      () => mergeVolumes(client, dedupeVolumes(kept)),
    )
    return {
      inserted,
      updated,
      unchanged: kept.length - inserted - updated,
      rejections: rejectionsOf(chunk, tooLate),
    }
  },
})

const checkForm = openFormCheck(VolumeForm, ['volume', 'volume_max', 'pc', 'mobile'])

/** Reads the records anew, which few files make necessary. */
function rejectionsOf(chunk: ImportChunk, tooLate: ReadonlySet<number>): ImportRejection[] {
  if (tooLate.size === 0) return []
  return chunk
    .records()
    .filter(({ line }) => tooLate.has(line))
    .map(({ line, raw }) => ({ line, raw, code: 'day_not_kept' }))
}

async function prepareVolumes(
  chunk: ImportChunk,
  now: Date,
): Promise<{ part: Part; rejections: ImportRejection[] }> {
  const horizon = horizonOf(now)
  const volumes: KeptVolume[] = []
  const lines: number[] = []
  const rejections: ImportRejection[] = []
  for await (const piece of pieces(chunk.records())) {
    for (const record of piece) {
      const verdict = readRecord(record, horizon)
      if (verdict.refusal === undefined) {
        volumes.push(verdict)
        lines.push(record.line)
      } else rejections.push({ line: record.line, raw: record.raw, code: verdict.refusal })
    }
  }
  return { part: { volumes, lines, chunk }, rejections }
}

function readRecord(record: ImportRecord, horizon: Horizon): VolumeVerdict | { refusal: string } {
  const code = checkForm(record)
  if (code !== undefined) return { refusal: code }
  const reported = record.fields as PostedVolume
  const keyword = cleanKeyword(reported.keyword)
  return keyword.refusal ? keyword : readVolume(reported, keyword, horizon)
}
