import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { quickestFolder } from '../quickest-folder.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where a run's browsers share what the first of them unpacks. */
    browserFolder: string
  }
}

export default function setup(project: TestProject): () => void {
  const folder = mkdtempSync(join(quickestFolder(), 'rankledger-browser-'))
  project.provide('browserFolder', folder)
  return () => rmSync(folder, { recursive: true, force: true })
}
