import { refuseRequest } from '../../platform/refusal.ts'
import type { BatchApp } from '../app.ts'
import { cleanAll } from '../keywords/clean-keywords.ts'
import { monthOf, monthsOf } from '../month.ts'
import { ensureMonths, withMonths } from '../month-rows.ts'
import { horizonOf } from '../ranks/rank.ts'
import { findKeptFrom } from './horizon-rows.ts'
import {
  dedupeVolumes,
  isTooLate,
  type KeptVolume,
  type PostedVolume,
  readVolume,
  type VolumeRefusal,
  volumeRefusals,
} from './volume-observation.ts'
import { mergeVolumes } from './volume-rows.ts'

export type RecordedVolumes = { inserted: number; updated: number; unchanged: number }

/**
 * Keeps what sources say, and marks the months it changes for the next aggregation. All observations make sense or
 * nothing is written.
 */
export async function recordVolumes(
  app: BatchApp,
  reported: readonly PostedVolume[],
): Promise<RecordedVolumes> {
  const now = app.clock()
  const volumes = dedupeVolumes(readAll(reported, now))
  const { inserted, updated } = await withMonths(
    app.db,
    async () => {
      await refuseTooLate(app, reported, now)
      await ensureMonths(app.db, 'volume_observation', monthsOf(volumes))
    },
    () => mergeVolumes(app.db, volumes),
  )
  return { inserted, updated, unchanged: reported.length - inserted - updated }
}

function readAll(reported: readonly PostedVolume[], now: Date): KeptVolume[] {
  const keywords = cleanAll(
    reported.map(({ keyword }) => keyword),
    (index) => `observations[${index}].keyword`,
  )
  const horizon = horizonOf(now)
  const verdicts = reported.map((one, index) => readVolume(one, keywords[index]!, horizon))
  refuseAll(verdicts.map(({ refusal }) => refusal))
  return verdicts as KeptVolume[]
}

/** What is of this month is never too late, so that the daily way asks nothing. */
async function refuseTooLate(app: BatchApp, reported: readonly PostedVolume[], now: Date): Promise<void> {
  const thisMonth = now.toISOString().slice(0, 7)
  if (reported.every(({ kind, day }) => kind === 'month' || monthOf(day) >= thisMonth)) return
  const keptFrom = await findKeptFrom(app.db)
  refuseAll(reported.map((one) => (isTooLate(one, keptFrom) ? 'day_not_kept' : undefined)))
}

function refuseAll(refusals: readonly (VolumeRefusal | undefined)[]): void {
  const details = refusals.flatMap((refusal, index) =>
    refusal
      ? [
          {
            path: `observations[${index}].${refusal.startsWith('day') ? 'day' : 'volume'}`,
            code: refusal,
            message: volumeRefusals[refusal],
          },
        ]
      : [],
  )
  if (details.length > 0) throw refuseRequest('validation_failed', { details })
}
