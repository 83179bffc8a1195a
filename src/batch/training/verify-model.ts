import { release } from '../../platform/release.ts'
import type { BatchApp } from '../app.ts'
import { featureNames } from '../dataset/features.ts'
import { readHistory } from '../dataset/history-rows.ts'
import { findModel } from '../models/model-rows.ts'
import { refuse } from '../refusals.ts'
import { trainInThread } from './train-in-thread.ts'

export type Verification = {
  verdict: 'same' | 'differs' | 'data_changed'
  expected: string
  found: string
  /** What is not as it was when the model was made, one sentence each. */
  changes: string[]
}

/**
 * Trains a model again from the rows up to its last day, which was complete when it was made, and compares the bytes.
 * Days that came later do not matter; a correction or an addition to earlier days does, and is told apart from a model
 * that cannot be reproduced.
 */
export async function verifyModel(
  app: BatchApp,
  id: string,
  onProgress?: (fraction: number) => void,
): Promise<Verification> {
  const model = await findModel(app.db, id)
  if (!model) throw refuse('model_not_found')
  const { data, artifact, algorithm, gate, environment, features } = model.manifest

  const { history, sha256, parts } = await readHistory(app.db, data.last_day)
  if (sha256 !== data.snapshot_sha256) {
    const now = { rows: history.days.length, keywords: new Set(history.keywords).size }
    const changes = []
    if (parts.ranksSha256 !== data.ranks_sha256) changes.push(rankChange(data, now))
    if (parts.volumesSha256 !== data.volumes_sha256)
      changes.push('Monthly volumes of months before its last day were corrected or added.')
    return { verdict: 'data_changed', expected: data.snapshot_sha256, found: sha256, changes }
  }

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
  const changes: string[] = []
  if (environment['release'] !== release)
    changes.push(`Release ${environment['release']} made it; this is ${release}.`)
  if (environment['node'] !== process.version)
    changes.push(`It was made on Node ${environment['node']}; this is ${process.version}.`)
  if (features.join() !== featureNames.join()) changes.push('It was made from other features.')
  const verdict = found === artifact.sha256 ? 'same' : 'differs'
  return { verdict, expected: artifact.sha256, found, changes }
}

type Counts = { rows: number; keywords: number }

function rankChange(then: Counts & { last_day: string }, now: Counts): string {
  const until = `The rank history up to ${then.last_day}`
  if (then.rows === now.rows && then.keywords === now.keywords)
    return `${until} has as many rows as before (${now.rows}), but some were corrected.`
  return `${until} has ${now.rows} usable rows of ${now.keywords} keywords instead of ${then.rows} of ${then.keywords}.`
}
