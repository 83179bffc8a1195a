import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { type RegisteredModel, renderManifest } from './manifest.ts'
import type { Model } from './model.ts'
import { CorruptModel, decodeModel, sha256Of } from './model-codec.ts'
import { getArtifact } from './model-rows.ts'

/**
 * Reads a model that is to be used: from the cache if the file there is whole, else from the database, which is the
 * truth. Bytes that do not have the hash of the manifest are no model.
 */
export async function loadModel(app: BatchApp, registered: RegisteredModel): Promise<Model> {
  const { sha256 } = registered.manifest.artifact
  const cached = await readCached(app, registered.id)
  if (cached && sha256Of(cached) === sha256) return decodeModel(cached)

  const { bytes } = await getArtifact(app.db, registered.id)
  if (sha256Of(bytes) !== sha256)
    throw new CorruptModel('the artifact does not have the hash of its manifest')
  await cacheModel(app, registered, bytes)
  return decodeModel(bytes)
}

export async function readCached(app: BatchApp, id: string): Promise<Buffer | undefined> {
  if (app.modelCacheDir === undefined) return undefined
  return readFile(join(app.modelCacheDir, `${id}.model`)).catch(() => undefined)
}

/** Keeps artifact and manifest as files too. A disk that refuses costs speed and nothing else, so it stays silent. */
export async function cacheModel(
  app: BatchApp,
  registered: RegisteredModel,
  bytes: Uint8Array,
): Promise<void> {
  const folder = app.modelCacheDir
  if (folder === undefined) return
  const manifest = renderManifest(registered, (at) => renderInstant(at, app.timeZone))
  try {
    await mkdir(folder, { recursive: true })
    await writeWhole(join(folder, `${registered.id}.model`), bytes)
    await writeWhole(join(folder, `${registered.id}.json`), `${JSON.stringify(manifest, null, 2)}\n`)
  } catch {
    // The database has it all.
  }
}

/** Under another name first, so that no reader meets half a file. */
async function writeWhole(path: string, content: Uint8Array | string): Promise<void> {
  const draft = `${path}.${randomBytes(4).toString('hex')}.tmp`
  await writeFile(draft, content)
  await rename(draft, path)
}
