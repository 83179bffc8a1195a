import type { BatchApp } from '../app.ts'
import { findModel } from '../models/model-rows.ts'
import { refuse } from '../refusals.ts'
import { readHistory } from './history-rows.ts'
import { trainInThread } from './train-in-thread.ts'

export type Verification = { verdict: 'same' | 'differs' | 'data_changed'; expected: string; found: string }

/**
 * Trains a model again from the rows up to its last day and compares the bytes. Days that came later do not matter;
 * a correction or an addition to earlier days does, and is told apart from a model that cannot be reproduced.
 */
export async function verifyModel(
  app: BatchApp,
  id: string,
  onProgress?: (fraction: number) => void,
): Promise<Verification> {
  const model = await findModel(app.db, id)
  if (!model) throw refuse('model_not_found')
  const { data, artifact, algorithm, gate } = model.manifest

  const { history, sha256, parts } = await readHistory(app.db, data.last_day)
  if (sha256 !== data.snapshot_sha256)
    return { verdict: 'data_changed', expected: data.snapshot_sha256, found: sha256 }

  const made = await trainInThread(
    history,
    {
      seed: algorithm.seed,
      snapshot: { sha256, ...parts },
      active: undefined,
      onReject: gate.decision === 'fall_back' ? 'class_shares' : 'keep',
    },
    onProgress && { onProgress },
  )
  const found = made.kind === 'made' ? made.manifest.artifact.sha256 : made.kind
  return { verdict: found === artifact.sha256 ? 'same' : 'differs', expected: artifact.sha256, found }
}
