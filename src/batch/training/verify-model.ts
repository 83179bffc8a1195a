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

  // The keywords that it was made from, also where there are more by now and another sample would be read.
  const sample = { keywordsKept: data.keywords_kept ?? 1, ranksStored: data.rows_stored ?? data.rows }
  const { history, sha256, parts } = await readHistory(app.db, {
    until: data.last_day,
    keywordsKept: sample.keywordsKept,
  })
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
      sample,
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

function rankChange(then: Counts & { last_day: string; keywords_kept?: number }, now: Counts): string {
  const sample = (then.keywords_kept ?? 1) < 1 ? ' of the keywords it was made from' : ''
  const until = `The rank history${sample} up to ${then.last_day}`
  if (then.rows === now.rows && then.keywords === now.keywords)
    return `${until} has as many rows as before (${now.rows}), but some were corrected.`
  return `${until} has ${now.rows} usable rows of ${now.keywords} keywords instead of ${then.rows} of ${then.keywords}.`
}
