import { dayTold, type MeanAsk, type RankSource, type SourceFailure } from '../sources/port.ts'
import type { SiteMatcher } from './site.ts'

/** What one check found, and the calls it may have paid for. */
export type CheckOutcome = { readonly calls: number } & (
  | { readonly kind: 'ranked'; readonly position: number; readonly url: string }
  | { readonly kind: 'mean'; readonly position: number }
  /** Answered, and nothing is known: asking again would change nothing. */
  | { readonly kind: 'untold'; readonly reason: string }
  /** `depth`: how far the results were really read. */
  | { readonly kind: 'not_in_depth'; readonly depth: number }
  | SourceFailure
)

/** Asks a source for a place: for the mean that it tells itself, or for pages in which the site is looked for. */
export async function makeCheck(
  source: RankSource,
  ask: MeanAsk,
  matches: SiteMatcher,
  turn: () => Promise<void>,
): Promise<CheckOutcome> {
  if (!source.readMean) return lookThrough(source, ask, matches, turn)
  await turn()
  return { ...(await source.readMean({ ...ask, day: dayTold(ask.engine, ask.day) })), calls: 0 }
}

type PageSource = Extract<RankSource, { readMean?: never }>

/**
 * Reads results page by page until the site is found or the depth is reached. The place is counted over all organic
 * results so far, each address once: pages hold nine or eleven of them, and repeat some.
 */
async function lookThrough(
  source: PageSource,
  ask: MeanAsk,
  matches: SiteMatcher,
  turn: () => Promise<void>,
): Promise<CheckOutcome> {
  const seen = new Set<string>()
  const mostCalls = source.callsFor(ask.engine, ask.depth)
  for (let page = 0; page < mostCalls; page++) {
    await turn()
    const answer = await source.readPage(ask, page)
    if (answer.kind === 'failed') return { ...answer, calls: page + (answer.paid ? 1 : 0) }
    for (const url of answer.urls) {
      seen.add(url)
      if (matches(url)) return { kind: 'ranked', position: seen.size, url, calls: page + 1 }
      // What lies behind the depth was not asked for.
      if (seen.size >= ask.depth) return { kind: 'not_in_depth', depth: ask.depth, calls: page + 1 }
    }
    // Nothing comes after it, so nothing is hidden down to the depth that was asked for.
    if (answer.isLast) return { kind: 'not_in_depth', depth: ask.depth, calls: page + 1 }
  }
  return { kind: 'not_in_depth', depth: Math.max(1, seen.size), calls: mostCalls }
}
