import { invariant } from '../../platform/invariant.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import type { RunInHand } from '../runs/work-run.ts'
import type { RankSource, Source } from '../sources/port.ts'
import type { ClaimedCheck } from './claim-rows.ts'
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

/** The work of one run, wherever it is done. */
export type SharedDrain = {
  readonly by: string
  /** In which budgets have their days. */
  readonly timeZone: string
  readonly inRun: InRun
  readonly collected: Collected
}

/** The work of one run at one source. */
export type Drain<Ranks extends RankSource = RankSource> = SharedDrain & {
  readonly source: Source
  readonly ranks: Ranks
}

/** A check, and what came of it. */
export type Made<Check extends ClaimedCheck = ClaimedCheck> = {
  readonly check: Check
  readonly outcome: CheckOutcome
}

/** How checks are taken, made and stored. */
export type Work<Check extends ClaimedCheck> = {
  claim(tx: BatchTx, most: number): Promise<Check[]>
  make(check: Check, matches: SiteMatcher, pacer: Pacer): Promise<CheckOutcome>
  settle(tx: BatchTx, batch: readonly Made<Check>[]): Promise<void>
}

const mostAtOnce = 32
// A transaction costs about as much for one answer as for many, so answers wait a moment for others.
const storedTogether = mostAtOnce / 2
const storedWithinMs = 250

/**
 * Makes the checks of one source that are due, paced over all processes. Each turn stores the answers that have come and
 * takes as many checks as there is room for, in one transaction.
 */
export async function workThrough<Check extends ClaimedCheck>(
  app: BatchApp,
  run: RunInHand,
  { source, ranks, inRun, collected }: Drain,
  work: Work<Check>,
): Promise<void> {
  const pacer = openPacer(app.db, ranks.name, source.settings.ratePerSecond)
  const matcherFor = openMatchers()
  const calls = openCalls<Check>()
  let done = 0

  for (;;) {
    const batch = calls.takeFinished()
    // What is answered and not yet stored counts too: it may be what makes the source rest.
    const free = mostAtOnce - calls.underWay()
    const isStopping = run.signal.aborted || calls.trouble() !== undefined
    const most = isStopping || free < mostAtOnce / 2 ? 0 : free
    const claimed =
      batch.length === 0 && most === 0
        ? []
        : await inRun(async (tx) => {
            if (batch.length > 0) await work.settle(tx, batch)
            return most > 0 ? work.claim(tx, most) : []
          })
    for (const check of claimed) calls.begin(check, work.make(check, matcherFor(check), pacer))
    if (batch.length > 0) {
      done += batch.length
      collected.checks += batch.filter(({ outcome }) => outcome.kind !== 'ordered').length
      collected.calls += batch.reduce((sum, { outcome }) => sum + outcome.calls, 0)
      collected.failed += batch.filter(({ outcome }) => outcome.kind === 'failed').length
      run.report(1 - 1 / (1 + done / 1000))
    }
    if (calls.underWay() === 0 && calls.finished() === 0) break
    await calls.enoughFinished()
  }
  const trouble = calls.trouble()
  if (trouble !== undefined) throw trouble
}

/** The calls of a source that are under way, and the answers that wait to be stored. */
function openCalls<Check extends ClaimedCheck>() {
  const finished: Made<Check>[] = []
  let underWay = 0
  let trouble: unknown
  let look = () => {}
  return {
    underWay: () => underWay,
    finished: () => finished.length,
    trouble: () => trouble,
    takeFinished: () => finished.splice(0),
    begin(check: Check, making: Promise<CheckOutcome>): void {
      underWay++
      making
        .then(
          (outcome) => void finished.push({ check, outcome }),
          (error) => {
            trouble ??= error
          },
        )
        .finally(() => {
          underWay--
          look()
        })
    },
    /** Resolves when enough was answered, when the first answer has waited long enough, or when no other will come. */
    enoughFinished: () =>
      new Promise<void>((resolve) => {
        let timer: NodeJS.Timeout | undefined
        const end = () => {
          clearTimeout(timer)
          look = () => {}
          resolve()
        }
        look = () => {
          if (underWay === 0 || finished.length >= storedTogether) end()
          else if (finished.length > 0) timer ??= setTimeout(end, storedWithinMs)
        }
        look()
      }),
  }
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
