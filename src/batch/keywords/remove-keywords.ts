import type { BatchApp } from '../app.ts'
import { cleanAll } from './clean-keywords.ts'
import { markRemoved } from './keyword-rows.ts'

export type Removed = { removed: number; not_found: number }

/** Takes keywords out of a workspace. What was recorded about them stays, and returns when they are registered again. */
export async function removeKeywords(
  app: BatchApp,
  workspaceId: string,
  raw: readonly unknown[],
): Promise<Removed> {
  const keys = [...new Set(cleanAll(raw).map(({ key }) => key))]
  const removed = await markRemoved(app.db, workspaceId, keys, app.clock())
  return { removed, not_found: raw.length - removed }
}
