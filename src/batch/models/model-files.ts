import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { renderInstant } from '../../platform/time.ts'
import type { BatchApp } from '../app.ts'
import { type RegisteredModel, renderManifest } from './manifest.ts'
import { findModel, listRevisions } from './model-rows.ts'

/*
 * Artifacts and manifests as files, beside the database that has them all. A disk that refuses costs speed and nothing
 * else, so it stays silent.
 */

export async function readCached(app: BatchApp, id: string): Promise<Buffer | undefined> {
  if (app.modelCacheDir === undefined) return undefined
  return readFile(join(app.modelCacheDir, `${id}.model`)).catch(() => undefined)
}

export async function writeCached(app: BatchApp, id: string, bytes: Uint8Array): Promise<void> {
  if (app.modelCacheDir !== undefined) await writeWhole(app.modelCacheDir, `${id}.model`, bytes)
}

/** What the file of a manifest has to say. */
export function manifestText(app: BatchApp, registered: RegisteredModel): string {
  const manifest = renderManifest(registered, (at) => renderInstant(at, app.timeZone))
  return `${JSON.stringify(manifest, null, 2)}\n`
}

export async function readManifest(app: BatchApp, id: string): Promise<string | undefined> {
  if (app.modelCacheDir === undefined) return undefined
  return readFile(join(app.modelCacheDir, `${id}.json`), 'utf8').catch(() => undefined)
}

/** Makes the file say what the row says. */
export async function writeManifest(app: BatchApp, registered: RegisteredModel): Promise<void> {
  if (app.modelCacheDir === undefined) return
  const text = manifestText(app, registered)
  if ((await readManifest(app, registered.id)) !== text)
    await writeWhole(app.modelCacheDir, `${registered.id}.json`, text)
}

/**
 * Keeps the manifests' files as their rows are, and takes the files of pruned models away. Every process calls what
 * this returns every few seconds; it reads a short list and writes only what has changed since.
 */
export function openModelFiles(app: BatchApp): () => Promise<void> {
  const written = new Map<string, number>()
  return async () => {
    if (app.modelCacheDir === undefined) return
    const models = await listRevisions(app.db)
    for (const { id, revision } of models) {
      if (written.get(id) === revision) continue
      const registered = await findModel(app.db, id)
      if (registered) await writeManifest(app, registered)
      written.set(id, revision)
    }
    await removeOthers(app.modelCacheDir, new Set(models.map(({ id }) => id)))
  }
}

const modelFile = /^(mdl_[0-9a-z]+)\.(json|model)$/i

async function removeOthers(folder: string, kept: ReadonlySet<string>): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  for (const name of names) {
    const id = modelFile.exec(name)?.[1]
    if (id !== undefined && !kept.has(id)) await rm(join(folder, name), { force: true }).catch(() => {})
  }
}

/** Under another name first, so that no reader meets half a file. */
async function writeWhole(folder: string, name: string, content: Uint8Array | string): Promise<void> {
  const path = join(folder, name)
  const draft = `${path}.${randomBytes(4).toString('hex')}.tmp`
  try {
    await mkdir(folder, { recursive: true })
    await writeFile(draft, content)
    await rename(draft, path)
  } catch {
    // The database has it all.
  }
}
