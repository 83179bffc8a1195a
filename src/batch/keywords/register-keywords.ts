import type { BatchApp } from '../app.ts'
import { cleanAll } from './clean-keywords.ts'
import { insertKeywords } from './keyword-rows.ts'

export type Registered = { registered: number; skipped: number }

/** Registers keywords in a workspace. All are acceptable or nothing is written. */
export async function registerKeywords(
  app: BatchApp,
  workspaceId: string,
  raw: readonly unknown[],
): Promise<Registered> {
  const keywords = cleanAll(raw)
  // Of several spellings the first one is kept.
  const distinct = [...new Map(keywords.toReversed().map((keyword) => [keyword.key, keyword])).values()]
  const registered = await insertKeywords(app.pool, workspaceId, distinct, app.clock())
  return { registered, skipped: raw.length - registered }
}
