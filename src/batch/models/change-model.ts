import { clearAlarm } from '../../platform/alarm.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import { refuse } from '../refusals.ts'
import type { RunTask } from '../runs/run.ts'
import { CorruptModel } from './model-codec.ts'
import { findModel, hashStoredArtifact, lockActive, pruneModels, setModelStatus } from './model-rows.ts'

/** Raised about the active model while candidates cannot be compared with it. */
export const notComparable = 'model_not_comparable'

/** Puts a stored model to use in place of the one that is active. The artifact is checked where it lies. */
export async function activate(
  tx: BatchTx,
  task: RunTask,
  id: string,
  sha256: string,
  now: Date,
): Promise<void> {
  const stored = await hashStoredArtifact(tx, id)
  if (stored === undefined) throw refuse('model_pruned')
  if (stored !== sha256) {
    throw new CorruptModel('the artifact does not have the hash of its manifest')
  }
  const before = await lockActive(tx, task)
  if (before === id) return
  if (before !== undefined) await retire(tx, before, now)
  await setModelStatus(tx, id, 'active', now)
}

/** Nobody is compared with a model that is out of use. */
async function retire(tx: BatchTx, id: string, now: Date): Promise<void> {
  await setModelStatus(tx, id, 'retired', now)
  await clearAlarm(tx, notComparable, id)
}

/** An operator's wish to use a model that is registered, whatever became of it before. */
export async function activateModel(app: BatchApp, id: string): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    const model = await findModel(tx, id)
    if (!model) throw refuse('model_not_found')
    await activate(tx, model.task, id, model.manifest.artifact.sha256, app.clock())
    await pruneModels(tx, model.task)
  })
}

/** Takes the active model out of use without another in its place. False: it is not active. */
export async function retireModel(app: BatchApp, id: string): Promise<boolean> {
  return app.db.transaction().execute(async (tx) => {
    const model = await findModel(tx, id)
    if (!model) throw refuse('model_not_found')
    if ((await lockActive(tx, model.task)) !== id) return false
    await retire(tx, id, app.clock())
    await pruneModels(tx, model.task)
    return true
  })
}
