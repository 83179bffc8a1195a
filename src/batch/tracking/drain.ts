import { invariant } from '../../platform/invariant.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import type { RunInHand } from '../runs/work-run.ts'
import type { RankSource, Source } from '../sources/port.ts'
import type { ClaimedCheck } from './check-rows.ts'
import type { CheckOutcome } from './make-check.ts'
import { openPacer, type Pacer } from './pacer.ts'
import { type MatchMode, readSite, type SiteMatcher } from './site.ts'

/** What a run has done so far. */
export type Collected = {
  planned: number
  ordered: number
  checks: number
  failed: number
  calls: number
  lost: number
  closed: number
}

export type InRun = <T>(work: (tx: BatchTx) => Promise<T>) => Promise<T>

/** The work of one run at one source. */
export type Drain<Ranks extends RankSource = RankSource> = {
  readonly source: Source
  readonly ranks: Ranks
  readonly by: string
  readonly inRun: InRun
  readonly collected: Collected
}

/** A check, and what came of it. */
export type Made<Check extends ClaimedCheck = ClaimedCheck> = {
  readonly check: Check
  readonly outcome: CheckOutcome
}

/** How checks are taken, made and stored. */
export type Work<Check extends ClaimedCheck> = {
  claim(tx: BatchTx, most: number): Promise<Check[]>
  make(check: Check, matches: SiteMatcher, turn: Pacer['turn']): Promise<CheckOutcome>
  settle(tx: BatchTx, batch: readonly Made<Check>[]): Promise<void>
}

const mostAtOnce = 32
const settleAtMost = 200

/** Makes the checks of one source that are due: claimed in batches, paced over all processes, settled in batches. */
export async function workThrough<Check extends ClaimedCheck>(
  app: BatchApp,
  run: RunInHand,
  { source, ranks, inRun, collected }: Drain,
  work: Work<Check>,
): Promise<void> {
  const pacer = openPacer(app.db, ranks.name, source.settings.ratePerSecond)
  const matcherFor = openMatchers()
  const finished: Made<Check>[] = []
  const underWay = new Set<Promise<void>>()
  let done = 0
  let trouble: unknown

  const begin = (check: Check) => {
    const made = work
      .make(check, matcherFor(check), pacer.turn)
      .then(
        (outcome) => void finished.push({ check, outcome }),
        (error) => {
          trouble ??= error
        },
      )
      .finally(() => underWay.delete(made))
    underWay.add(made)
  }

  for (;;) {
    // What is answered and not yet stored counts too: it may be what makes the source rest.
    const free = mostAtOnce - underWay.size - finished.length
    const isStopping = run.signal.aborted || trouble !== undefined
    const claimed = isStopping || free < mostAtOnce / 2 ? [] : await inRun((tx) => work.claim(tx, free))
    claimed.forEach(begin)
    if (underWay.size === 0 && finished.length === 0 && claimed.length === 0) break
    if (finished.length === 0) await Promise.race(underWay)
    const batch = finished.splice(0, settleAtMost)
    if (batch.length === 0) continue
    await inRun((tx) => work.settle(tx, batch))
    done += batch.length
    collected.checks += batch.filter(({ outcome }) => outcome.kind !== 'ordered').length
    collected.calls += batch.reduce((sum, { outcome }) => sum + outcome.calls, 0)
    collected.failed += batch.filter(({ outcome }) => outcome.kind === 'failed').length
    run.report(1 - 1 / (1 + done / 1000))
  }
  if (trouble !== undefined) throw trouble
}

/** Sites are read once for each tracker, not for each keyword. */
function openMatchers(): (check: ClaimedCheck) => SiteMatcher {
  const known = new Map<string, SiteMatcher>()
  return ({ site, match }) => {
    const name = `${match} ${site}`
    const matches = known.get(name) ?? matcherOf(site, match)
    known.set(name, matches)
    return matches
  }
}

function matcherOf(site: string, match: MatchMode): SiteMatcher {
  const verdict = readSite(site, match)
  invariant(verdict.refusal === undefined, 'a stored site was read before it was stored')
  return verdict.matches
}
