import { raiseAlarm } from '../../platform/alarm.ts'
import { newId } from '../../platform/id.ts'
import { release } from '../../platform/release.ts'
import type { Day } from '../../platform/time.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import { featureNames } from '../dataset/features.ts'
import { readHistory } from '../dataset/history-rows.ts'
import { lastCompleteDay } from '../dataset/last-complete-day.ts'
import { keywordsKept, mostRanksRead } from '../dataset/sample.ts'
import { activate, notComparable } from '../models/change-model.ts'
import type { RegisteredModel } from '../models/manifest.ts'
import { CorruptModel, decodeModel, sha256Of } from '../models/model-codec.ts'
import { openModelFiles, writeCached } from '../models/model-files.ts'
import {
  findActive,
  findJudged,
  hashStoredArtifact,
  insertCandidate,
  lockActive,
  pruneModels,
  setModelStatus,
} from '../models/model-rows.ts'
import { countRanks } from '../ranks/rank-count-rows.ts'
import { RunFailed } from '../runs/run.ts'
import { workRun } from '../runs/work-run.ts'
import type { MadeModel, MakeRequest, Sample } from './make-model.ts'
import { trainInThread } from './train-in-thread.ts'

const task = 'train_classifier'

/** Chance in training comes from here and nowhere else. */
const trainingSeed = 1

const readingShare = 0.05

/** Trains a classifier on all complete days, of a long history on a sample of its keywords, and puts it to use if it passes the gate. */
export async function trainClassifier(
  app: BatchApp,
  { runId }: { runId: string },
  mostRanks = mostRanksRead,
): Promise<void> {
  let registered: { id: string; artifact: Uint8Array } | undefined
  await workRun(app, runId, async (run) => {
    const until = lastCompleteDay(app)
    const sample = await chooseSample(app, until, mostRanks)
    const { history, sha256, parts } = await readHistory(app.db, { until, keywordsKept: sample.keywordsKept })
    run.report(readingShare)
    const active = await findActive(app.db, task)
    const rival = active && (await rivalOf(app, active))
    if (active && rival && 'judged' in rival && (await isUnchanged(app, active, sha256))) {
      // Nothing it could learn is new.
      return async () => ({ modelId: active.id, metrics: { decision: 'unchanged', model_status: 'active' } })
    }
    if (rival && 'notComparable' in rival) await raiseNotComparable(app, rival)
    const made = await trainInThread(
      history,
      {
        seed: trainingSeed,
        snapshot: { sha256, ...parts },
        sample,
        active: rival,
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
  if (!registered) return
  await writeCached(app, registered.id, registered.artifact)
  await openModelFiles(app)()
}

async function chooseSample(app: BatchApp, until: Day, mostRanks: number): Promise<Sample> {
  const { usableRows } = await countRanks(app.db, until)
  const share = keywordsKept(usableRows, mostRanks)
  return share === 1 ? { keywordsKept: 1 } : { keywordsKept: share, ranksStored: usableRows }
}

/** Whether the active model was made by this release from just these data, and is whole. */
async function isUnchanged(
  app: BatchApp,
  { id, manifest }: RegisteredModel,
  sha256: string,
): Promise<boolean> {
  const { data, environment, artifact } = manifest
  if (data.snapshot_sha256 !== sha256 || environment['release'] !== release) return false
  return (await hashStoredArtifact(app.db, id)) === artifact.sha256
}

async function raiseNotComparable(
  app: BatchApp,
  rival: { id: string; notComparable: string },
): Promise<void> {
  const why = {
    other_features: 'it was made for other features',
    corrupt: 'its stored copy is damaged',
  }[rival.notComparable]
  await raiseAlarm(
    app.db,
    {
      kind: notComparable,
      subject: rival.id,
      note: `The active model cannot be compared with candidates: ${why}. Look with check-model; a candidate that passes the other checks takes its place, or activate an earlier model.`,
    },
    app.clock(),
  )
}

/** The active model as it was judged, if it speaks of the same features and can still be read. */
async function rivalOf(
  app: BatchApp,
  { id, manifest }: RegisteredModel,
): Promise<NonNullable<MakeRequest['active']>> {
  const sameFeatures = manifest.features.join() === featureNames.join()
  if (!sameFeatures) return { id, notComparable: 'other_features' }
  const judged = await findJudged(app.db, id)
  if (!judged || !isWhole(judged)) return { id, notComparable: 'corrupt' }
  return { id, judged: judged.bytes, holdoutFrom: manifest.data.holdout_from }
}

function isWhole({ bytes, sha256 }: { bytes: Buffer; sha256: string }): boolean {
  if (sha256Of(bytes) !== sha256) return false
  try {
    return decodeModel(bytes).features === featureNames.length
  } catch (error) {
    if (error instanceof CorruptModel) return false
    throw error
  }
}

/** Stores the model, then lets it take the active one's place or marks it as rejected, all in one transaction. */
async function register(
  tx: BatchTx,
  id: string,
  runId: string,
  made: Extract<MadeModel, { kind: 'made' }>,
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
  await pruneModels(tx, task)
  return rejected ? 'rejected' : 'active'
}
