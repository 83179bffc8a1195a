import type { BatchApp } from '../app.ts'
import { cleanAll } from './clean-keywords.ts'
import { insertKeywords } from './keyword-rows.ts'

export type Registered = {
  registered: number
  skipped: number
  /** Of each entry, in the order they were given. */
  verdicts: ('registered' | 'skipped')[]
}

/** Registers keywords in a workspace. All are acceptable or nothing is written. */
export async function registerKeywords(
  app: BatchApp,
  workspaceId: string,
  raw: readonly unknown[],
): Promise<Registered> {
  const keywords = cleanAll(raw)
  // Of several spellings the first one is kept.
  const distinct = [...new Map(keywords.toReversed().map((keyword) => [keyword.key, keyword])).values()]
  const fresh = new Set(await insertKeywords(app.db, workspaceId, distinct, app.clock()))
  const registered = fresh.size
  // The first entry of a key is the one that registered it.
  const verdicts = keywords.map(({ key }) => (fresh.delete(key) ? 'registered' : 'skipped'))
  return { registered, skipped: raw.length - registered, verdicts }
}
