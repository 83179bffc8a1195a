import {
  type MeanAsk,
  type MeanReader,
  type PageReader,
  type RankAbilities,
  type RankPage,
  reportedDay,
  type SourceFailure,
} from '../sources/port.ts'
import { holdMsAfter, mostThrottles } from './breaker.ts'
import type { Pacer } from './pacer.ts'
import type { SiteMatcher } from './site.ts'

/** What one check found, and the calls it may have paid for. */
export type CheckOutcome = { readonly calls: number } & (
  | Found
  | { readonly kind: 'mean'; readonly position: number }
  /** Answered, and nothing is known: asking again would change nothing. */
  | { readonly kind: 'unreported'; readonly reason: string }
  /** It was ordered, and what it will find is not known yet. `reason`: what kept us from it, if anything did. */
  | { readonly kind: 'ordered'; readonly reason: string | null }
  | SourceFailure
)

/** Where a site stands in results. `readAt`: when they were read, if that was not just now. */
export type Found = { readonly readAt?: Date } & (
  | { readonly kind: 'ranked'; readonly position: number; readonly url: string }
  /** `depth`: how far the results were really read. */
  | { readonly kind: 'not_in_depth'; readonly depth: number }
)

/** A source that answers at once. */
export type PromptSource = RankAbilities & (PageReader | MeanReader)

/** Asks a source for a place: for the mean that it tells itself, or for pages in which the site is looked for. */
export async function makeCheck(
  source: PromptSource,
  ask: MeanAsk,
  matches: SiteMatcher,
  pacer: Pacer,
): Promise<CheckOutcome> {
  if (!source.readMean) return lookThrough(source, ask, matches, pacer)
  await pacer.turn()
  return { ...(await source.readMean({ ...ask, day: reportedDay(ask.engine, ask.day) })), calls: 0 }
}

type PageSource = Extract<PromptSource, { readMean?: never }>

/**
 * Reads results page by page until the site is found or the depth is reached. The place is counted over all organic
 * results so far, each address once: pages hold nine or eleven of them, and repeat some.
 */
async function lookThrough(
  source: PageSource,
  ask: MeanAsk,
  matches: SiteMatcher,
  pacer: Pacer,
): Promise<CheckOutcome> {
  const seen = new Set<string>()
  const mostCalls = source.callsFor(ask.engine, ask.depth)
  for (let page = 0; page < mostCalls; page++) {
    const answer = await readPage(source, ask, page, pacer)
    if (answer.kind === 'failed') return { ...answer, calls: page + (answer.paid ? 1 : 0) }
    const found = lookIn(answer, seen, ask.depth, matches)
    if (found) return { ...found, calls: page + 1 }
    // Nothing comes after it, so nothing is hidden down to the depth that was asked for.
    if (answer.isLast) return { kind: 'not_in_depth', depth: ask.depth, calls: page + 1 }
  }
  return { kind: 'not_in_depth', depth: Math.max(1, seen.size), calls: mostCalls }
}

/** Reads one page. A later one that was asked for too fast is asked for again by itself: those before it are paid for. */
async function readPage(source: PageSource, ask: MeanAsk, page: number, pacer: Pacer) {
  for (let asked = 1; ; asked++) {
    await pacer.turn()
    const answer = await source.readPage(ask, page)
    const isTooFast = answer.kind === 'failed' && answer.of === 'rate'
    if (!isTooFast || page === 0 || asked >= mostThrottles) return answer
    await pacer.hold(holdMsAfter(asked))
  }
}

/** Looks for the site in more results, after those that were seen. Undefined: it is not there, and the depth not reached. */
function lookIn(
  { urls, originals }: Pick<RankPage, 'urls' | 'originals'>,
  seen: Set<string>,
  depth: number,
  matches: SiteMatcher,
): Found | undefined {
  for (const url of urls) {
    seen.add(url)
    const own = [url, originals?.get(url)].find((address) => address !== undefined && matches(address))
    if (own !== undefined) return { kind: 'ranked', position: seen.size, url: own }
    // What lies behind the depth was not asked for.
    if (seen.size >= depth) return { kind: 'not_in_depth', depth }
  }
  return undefined
}

/** Where the site stands in all the results that there are. */
export function findIn(urls: readonly string[], depth: number, matches: SiteMatcher): Found {
  return lookIn({ urls }, new Set(), depth, matches) ?? { kind: 'not_in_depth', depth }
}
