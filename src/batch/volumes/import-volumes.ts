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
import { ensureMonths, monthsOf, withMonthsInside } from '../month-rows.ts'
import { type Horizon, horizonOf } from '../ranks/rank.ts'
import { VolumeForm } from './volume-form.ts'
import {
  dedupe,
  type KeptVolume,
  type ReportedVolume,
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

const volumeTarget = ({ pool }: BatchApp): ImportTarget<readonly KeptVolume[]> => ({
  name: 'volumes',
  prepare: prepareVolumes,
  async store(client, volumes) {
    const { inserted, updated } = await withMonthsInside(
      pool,
      client,
      () => ensureMonths(pool, 'volume_observation', monthsOf(volumes)),
      () => mergeVolumes(client, dedupe(volumes)),
    )
    return { inserted, updated, unchanged: volumes.length - inserted - updated, rejections: [] }
  },
})

const checkForm = openFormCheck(VolumeForm, ['volume', 'volume_max', 'pc', 'mobile'])

function prepareVolumes(
  chunk: ImportChunk,
  now: Date,
): { part: readonly KeptVolume[]; rejections: ImportRejection[] } {
  const horizon = horizonOf(now)
  const part: KeptVolume[] = []
  const rejections: ImportRejection[] = []
  for (const record of chunk.records()) {
    const verdict = readRecord(record, horizon)
    if (verdict.refusal === undefined) part.push(verdict)
    else rejections.push({ line: record.line, raw: record.raw, code: verdict.refusal })
  }
  return { part, rejections }
}

function readRecord(record: ImportRecord, horizon: Horizon): VolumeVerdict | { refusal: string } {
  const code = checkForm(record)
  if (code !== undefined) return { refusal: code }
  const reported = record.fields as ReportedVolume
  const keyword = cleanKeyword(reported.keyword)
  return keyword.refusal ? keyword : readVolume(reported, keyword, horizon)
}
