import type { BatchApp } from '../app.ts'
import type { RunTask } from '../runs/run.ts'
import { holdoutSkillOf, type RegisteredModel, type Samples, skillOf } from './manifest.ts'
import { type Model, predict } from './model.ts'
import { CorruptModel, decodeModel, sha256Of } from './model-codec.ts'
import { manifestText, readCached, readManifest, writeManifest } from './model-files.ts'
import { findArtifact, findJudged, getSamples, listActive } from './model-rows.ts'

export type ModelCheck =
  | { verdict: 'good'; model: RegisteredModel; ageMs: number; warnings: string[] }
  | { verdict: 'none_active' }
  | { verdict: 'corrupt'; model: RegisteredModel | undefined; complaint: string }
  | { verdict: 'too_old'; model: RegisteredModel; ageMs: number; warnings: string[] }

/** Whether a task has one active model that is whole, loads, and still says what it said when it was made. */
export async function checkModel(app: BatchApp, task: RunTask, maxAgeMs: number): Promise<ModelCheck> {
  const [model, second] = await listActive(app.db, task)
  if (!model) return { verdict: 'none_active' }
  if (second) return { verdict: 'corrupt', model: undefined, complaint: 'More than one model is active.' }

  const complaint = (await complaintAbout(app, model)) ?? (await fileComplaint(app, model))
  if (complaint !== undefined) return { verdict: 'corrupt', model, complaint }

  const ageMs = app.clock().getTime() - model.createdAt.getTime()
  const verdict = ageMs > maxAgeMs ? 'too_old' : 'good'
  return { verdict, model, ageMs, warnings: warningsAbout(model) }
}

async function complaintAbout(app: BatchApp, registered: RegisteredModel): Promise<string | undefined> {
  const artifact = await findArtifact(app.db, registered.id)
  const hash = artifact && sha256Of(artifact.bytes)
  if (!artifact || hash !== registered.manifest.artifact.sha256 || hash !== artifact.sha256) {
    return 'The stored artifact does not have the hash of its manifest.'
  }
  const cached = await readCached(app, registered.id)
  if (cached && sha256Of(cached) !== hash) {
    return 'The file in the cache does not have the hash of its manifest; remove it and the service writes it anew.'
  }
  const judged = await findJudged(app.db, registered.id)
  if (!judged || sha256Of(judged.bytes) !== judged.sha256) {
    return 'The copy that new candidates are compared with is damaged; the next training decides without it.'
  }
  try {
    const model = decodeModel(artifact.bytes)
    if (model.features !== registered.manifest.features.length)
      return 'The artifact asks for other features than its manifest.'
    return sampleComplaint(model, await getSamples(app.db, registered.id))
  } catch (error) {
    if (error instanceof CorruptModel) return 'The artifact cannot be read.'
    throw error
  }
}

/**
 * The file of the manifest against its row. One that tells an earlier state of this model is only late, because the
 * change came from another machine or just now, and one may tell its instants as another zone's clocks show them: it is
 * written anew. Anything else did not come from us.
 */
async function fileComplaint(app: BatchApp, registered: RegisteredModel): Promise<string | undefined> {
  const text = await readManifest(app, registered.id)
  const wanted = manifestText(app, registered)
  if (text === wanted) return undefined
  if (text !== undefined && !isEarlier(text, wanted))
    return 'The manifest in the cache does not say what the registry says; remove it and the service writes it anew.'
  await writeManifest(app, registered)
  return undefined
}

function isEarlier(text: string, wanted: string): boolean {
  try {
    const [found, now] = [readManifestText(text), readManifestText(wanted)]
    const begun = now.history.slice(0, found.history.length)
    const last = found.history.at(-1) as { status: unknown }
    return (
      JSON.stringify(found.fixed) === JSON.stringify(now.fixed) &&
      JSON.stringify(found.history) === JSON.stringify(begun) &&
      last.status === found.status
    )
  } catch {
    return false
  }
}

/** A manifest in two parts: how its model was made, which never changes, and what became of it since. */
function readManifestText(text: string) {
  type Manifest = {
    status: unknown
    status_history: { status: unknown; at: string }[]
    activated_at: unknown
    live_quality: unknown
    created_at: string
  }
  const { status, status_history, activated_at, live_quality, created_at, ...others } = JSON.parse(
    text,
  ) as Manifest
  const history = status_history.map(({ at, ...change }) => ({ ...change, at: Date.parse(at) }))
  return { status, history, fixed: { ...others, created_at: Date.parse(created_at) } }
}

/** Below this a model knows little about which way a rank goes. */
const leastAuc = 0.55
/** So many outcomes tell whether skill lasts. */
const leastOutcomes = 200

/** What an operator should know of a model that is in order. */
function warningsAbout({ manifest, live }: RegisteredModel): string[] {
  if (manifest.algorithm.name === 'prior')
    return ['It is class shares: nothing better has passed the gate, so it says the same of every keyword.']
  const warnings: string[] = []
  const auc = manifest.metrics.holdout.auc_rise_fall
  if (auc !== null && auc < leastAuc)
    warnings.push(`It hardly knows rises from falls: AUC ${auc.toFixed(3)} on the hold-out.`)
  if (live && live.recent.examples >= leastOutcomes) {
    const [now, then] = [skillOf(live.recent), holdoutSkillOf(manifest)]
    if (now < then / 2)
      warnings.push(
        `Its skill decays: ${now.toFixed(4)} better than the best naive rule on ${live.recent.examples} predictions of the last 28 days, ${then.toFixed(4)} when it was judged.`,
      )
  }
  return warnings
}

/** Another release of Node may compute a logarithm differently in its last bits. */
const tolerance = 1e-9

function sampleComplaint(model: Model, { rows, probabilities }: Samples): string | undefined {
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
