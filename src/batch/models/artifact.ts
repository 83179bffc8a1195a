import type { BatchApp } from '../app.ts'
import type { RegisteredModel } from './manifest.ts'
import type { Model } from './model.ts'
import { CorruptModel, decodeModel, sha256Of } from './model-codec.ts'
import { readCached, writeCached, writeManifest } from './model-files.ts'
import { findArtifact } from './model-rows.ts'

/**
 * Reads a model that is to be used: from the cache if the file there is whole, else from the database, which is the
 * truth. Bytes that do not have the hash of the manifest are no model.
 */
export async function loadModel(app: BatchApp, registered: RegisteredModel): Promise<Model> {
  const { sha256 } = registered.manifest.artifact
  await writeManifest(app, registered)
  const cached = await readCached(app, registered.id)
  if (cached && sha256Of(cached) === sha256) return decodeModel(cached)

  const artifact = await findArtifact(app.db, registered.id)
  if (!artifact || sha256Of(artifact.bytes) !== sha256)
    throw new CorruptModel('the artifact does not have the hash of its manifest')
  await writeCached(app, registered.id, artifact.bytes)
  return decodeModel(artifact.bytes)
}
