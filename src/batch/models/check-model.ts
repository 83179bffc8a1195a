import type { BatchApp } from '../app.ts'
import type { RunTask } from '../runs/run.ts'
import { readCached } from './artifact.ts'
import type { RegisteredModel, Samples } from './manifest.ts'
import { type Model, predict } from './model.ts'
import { CorruptModel, decodeModel, sha256Of } from './model-codec.ts'
import { getArtifact, getSamples, listActive } from './model-rows.ts'

export type ModelCheck =
  | { verdict: 'good'; model: RegisteredModel; ageMs: number }
  | { verdict: 'none_active' }
  | { verdict: 'corrupt'; model: RegisteredModel | undefined; complaint: string }
  | { verdict: 'too_old'; model: RegisteredModel; ageMs: number }

/** Whether a task has one active model that is whole, loads, and still says what it said when it was made. */
export async function checkModel(app: BatchApp, task: RunTask, maxAgeMs: number): Promise<ModelCheck> {
  const [model, second] = await listActive(app.db, task)
  if (!model) return { verdict: 'none_active' }
  if (second) return { verdict: 'corrupt', model: undefined, complaint: 'More than one model is active.' }

  const complaint = await complaintAbout(app, model)
  if (complaint !== undefined) return { verdict: 'corrupt', model, complaint }

  const ageMs = app.clock().getTime() - model.createdAt.getTime()
  return ageMs > maxAgeMs ? { verdict: 'too_old', model, ageMs } : { verdict: 'good', model, ageMs }
}

async function complaintAbout(app: BatchApp, registered: RegisteredModel): Promise<string | undefined> {
  const { bytes, sha256 } = await getArtifact(app.db, registered.id)
  const hash = sha256Of(bytes)
  if (hash !== registered.manifest.artifact.sha256 || hash !== sha256) {
    return 'The stored artifact does not have the hash of its manifest.'
  }
  const cached = await readCached(app, registered.id)
  if (cached && sha256Of(cached) !== hash) {
    return 'The file in the cache does not have the hash of its manifest; remove it and the service writes it anew.'
  }
  try {
    const model = decodeModel(bytes)
    if (model.features !== registered.manifest.features.length)
      return 'The artifact asks for other features than its manifest.'
    return sampleComplaint(model, await getSamples(app.db, registered.id))
  } catch (error) {
    if (error instanceof CorruptModel) return 'The artifact cannot be read.'
    throw error
  }
}

/** Another release of Node may compute a logarithm differently in its last bits. */
const tolerance = 1e-9

export function sampleComplaint(model: Model, { rows, probabilities }: Samples): string | undefined {
  if (rows.length === 0) return 'There are no sample rows to score.'
  if (rows.some((row) => row.length !== model.features)) return 'The sample rows do not fit the model.'
  const columns = Array.from({ length: model.features }, (_, feature) =>
    Float32Array.from(rows, (row) => row[feature] ?? Number.NaN),
  )
  const scored = predict(model, columns)
  const stored = probabilities.flat()
  const agrees =
    stored.length === scored.length && stored.every((value, at) => Math.abs(value - scored[at]!) <= tolerance)
  return agrees ? undefined : 'The sample rows no longer score as they did when the model was made.'
}
