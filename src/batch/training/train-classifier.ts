import { newId } from '../../platform/id.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import { cacheModel } from '../models/artifact.ts'
import { activate } from '../models/change-model.ts'
import type { RegisteredModel } from '../models/manifest.ts'
import { sha256Of } from '../models/model-codec.ts'
import {
  findActive,
  findModel,
  getJudged,
  insertCandidate,
  lockActive,
  setModelStatus,
} from '../models/model-rows.ts'
import { RunFailed } from '../runs/run.ts'
import { workRun } from '../runs/work-run.ts'
import { featureNames } from './features.ts'
import { readHistory } from './history-rows.ts'
import type { Made, MakeRequest } from './make-model.ts'
import { trainInThread } from './train-in-thread.ts'

const task = 'train_classifier'

/** Chance in training comes from here and nowhere else. */
export const trainingSeed = 1

const readingShare = 0.05

/** Trains a classifier on all there is, and puts it to use if it passes the gate. */
export async function trainClassifier(app: BatchApp, { runId }: { runId: string }): Promise<void> {
  let registered: { id: string; artifact: Uint8Array } | undefined
  await workRun(app, runId, async (run) => {
    const { history, sha256, parts } = await readHistory(app.db)
    run.report(readingShare)
    const active = await findActive(app.db, task)
    const made = await trainInThread(
      history,
      {
        seed: trainingSeed,
        snapshot: { sha256, ...parts },
        active: active && (await rivalOf(app, active)),
        onReject: active ? 'keep' : 'class_shares',
      },
      {
        signal: run.signal,
        onProgress: (fraction) => run.report(readingShare + (1 - readingShare) * fraction),
      },
    )
    if (made.kind === 'insufficient_labels') throw new RunFailed('insufficient_labels')

    const id = newId('mdl_', app.clock())
    return async (tx) => {
      const status = await register(tx, id, runId, made, app.clock())
      registered = { id, artifact: made.artifact }
      return {
        modelId: id,
        metrics: { decision: made.manifest.gate.decision, model_status: status, ...made.manifest.metrics },
      }
    }
  })
  const model = registered && (await findModel(app.db, registered.id))
  if (model && registered) await cacheModel(app, model, registered.artifact)
}

/** The active model as it was judged, if it speaks of the same features and can still be read. */
async function rivalOf(app: BatchApp, { id, manifest }: RegisteredModel): Promise<MakeRequest['active']> {
  const sameFeatures = manifest.features.join() === featureNames.join()
  if (!sameFeatures) return { id, notComparable: 'other_features' }
  const { bytes, sha256 } = await getJudged(app.db, id)
  return sha256Of(bytes) === sha256 ? { id, judged: bytes } : { id, notComparable: 'corrupt' }
}

/** Stores the model, then lets it take the active one's place or marks it as rejected, all in one transaction. */
async function register(
  tx: BatchTx,
  id: string,
  runId: string,
  made: Extract<Made, { kind: 'made' }>,
  now: Date,
): Promise<'active' | 'rejected'> {
  const { manifest, artifact, judged, judgedSha256, samples } = made
  await insertCandidate(tx, {
    id,
    task,
    runId,
    manifest,
    artifact,
    judged,
    judgedSha256,
    samples,
    createdAt: now,
  })
  const { decision } = manifest.gate
  // Class shares stand in only as long as nothing better does.
  const rejected =
    decision === 'reject' || (decision === 'fall_back' && (await lockActive(tx, task)) !== undefined)
  if (rejected) await setModelStatus(tx, id, 'rejected', now)
  else await activate(tx, task, id, manifest.artifact.sha256, now)
  return rejected ? 'rejected' : 'active'
}
