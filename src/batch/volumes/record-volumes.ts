import { refuse as refuseRequest } from '../../platform/refusal.ts'
import type { BatchApp } from '../app.ts'
import { cleanAll } from '../keywords/clean-keywords.ts'
import { horizonOf } from '../ranks/rank.ts'
import {
  type KeptVolume,
  readVolume,
  settleRepeats,
  type ToldVolume,
  volumeRefusals,
} from './volume-observation.ts'
import { mergeVolumes } from './volume-rows.ts'

export type RecordedVolumes = { inserted: number; updated: number; unchanged: number }

/**
 * Keeps what sources say, and marks the months it changes for the next aggregation. All observations make sense or
 * nothing is written.
 */
export async function recordVolumes(app: BatchApp, told: readonly ToldVolume[]): Promise<RecordedVolumes> {
  const volumes = settleRepeats(readAll(told, app.clock()))
  const { inserted, updated } = await mergeVolumes(app.pool, volumes)
  return { inserted, updated, unchanged: told.length - inserted - updated }
}

function readAll(told: readonly ToldVolume[], now: Date): KeptVolume[] {
  const keywords = cleanAll(
    told.map(({ keyword }) => keyword),
    (index) => `observations[${index}].keyword`,
  )
  const horizon = horizonOf(now)
  const verdicts = told.map((one, index) => readVolume(one, keywords[index]!, horizon))
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
