import { refuse as refuseRequest } from '../../platform/refusal.ts'
import type { BatchApp } from '../app.ts'
import { cleanAll } from '../keywords/clean-keywords.ts'
import { ensureMonths, monthsOf, withMonths } from '../month-rows.ts'
import { horizonOf } from '../ranks/rank.ts'
import {
  dedupe,
  type KeptVolume,
  type ReportedVolume,
  readVolume,
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
  reported: readonly ReportedVolume[],
): Promise<RecordedVolumes> {
  const volumes = dedupe(readAll(reported, app.clock()))
  const { inserted, updated } = await withMonths(
    app.pool,
    () => ensureMonths(app.pool, 'volume_observation', monthsOf(volumes)),
    () => mergeVolumes(app.pool, volumes),
  )
  return { inserted, updated, unchanged: reported.length - inserted - updated }
}

function readAll(reported: readonly ReportedVolume[], now: Date): KeptVolume[] {
  const keywords = cleanAll(
    reported.map(({ keyword }) => keyword),
    (index) => `observations[${index}].keyword`,
  )
  const horizon = horizonOf(now)
  const verdicts = reported.map((one, index) => readVolume(one, keywords[index]!, horizon))
  const details = verdicts.flatMap(({ refusal }, index) =>
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
  return verdicts as KeptVolume[]
}
