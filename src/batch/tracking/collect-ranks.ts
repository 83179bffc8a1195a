import { newId } from '../../platform/id.ts'
import { invariant } from '../../platform/invariant.ts'
import { addDays, type Day, dayOf, instantAt } from '../../platform/time.ts'
import type { BatchApp, BatchTx } from '../app.ts'
import { ensureMonths, monthOf } from '../month-rows.ts'
import type { RankObservation } from '../ranks/rank.ts'
import { mergeObservations } from '../ranks/record-ranks.ts'
import { fenceOfRun, type RunInHand, workRun } from '../runs/work-run.ts'
import { dayTold, type RankSource, type Source } from '../sources/port.ts'
import { awake, holdMsAfter, judgeSource } from './breaker.ts'
import {
  bookCalls,
  type CheckEnd,
  type ClaimedCheck,
  claimChecks,
  closeChecks,
  endChecks,
  freeLostChecks,
  insertPlan,
  listDueTrackers,
  listSpending,
  noteWhyWaiting,
  scopesOf,
} from './check-rows.ts'
import { type CheckOutcome, makeCheck } from './make-check.ts'
import { openPacer } from './pacer.ts'
import { type MatchMode, readSite, type SiteMatcher } from './site.ts'
import { holdCalls, lockSource, openSourceRow, updateSource } from './source-rows.ts'
import { tellState } from './tell-state.ts'
import { dayAfter, mostMissedDays, mostTries, planOf, waitMsAfter } from './tracker.ts'
import {
  installationScope,
  lockDueTracker,
  moveTracker,
  trackerScope,
  workspaceScope,
} from './tracker-rows.ts'

export type Collected = {
  planned: number
  checks: number
  failed: number
  calls: number
  lost: number
  closed: number
}

/** A run that makes every check that is due, at every source. */
export async function collectRanks(app: BatchApp, { runId }: { runId: string }): Promise<void> {
  await workRun(app, runId, async (run) => {
    const collected = await collect(app, run)
    return async () => ({ metrics: { ...collected } })
  })
}

async function collect(app: BatchApp, run: RunInHand): Promise<Collected> {
  const now = app.clock()
  const by = newId('clt_', now)
  const collected: Collected = { planned: 0, checks: 0, failed: 0, calls: 0, lost: 0, closed: 0 }
  const inRun = <T>(work: (tx: BatchTx) => Promise<T>): Promise<T> =>
    app.db.transaction().execute(async (tx) => {
      await app.fence(tx)
      await fenceOfRun(run)(tx)
      return work(tx)
    })

  for (const { settings } of app.sources.values()) await openSourceRow(app.db, settings)
  collected.lost = await inRun((tx) => freeLostChecks(tx, by, new Date(now.getTime() + waitMsAfter(1))))
  collected.planned = await planDueDays(app, inRun)
  collected.closed = await closeDays(app, inRun)
  const drains = [...app.sources.values()].flatMap((source) =>
    source.ranks ? [drainSource(app, run, { source, ranks: source.ranks, by, inRun, collected })] : [],
  )
  // Whatever goes wrong at one source, the others' answers are stored before the run ends.
  const ended = await Promise.allSettled(drains)
  const broken = ended.find((one) => one.status === 'rejected')
  if (broken) throw broken.reason
  collected.closed += await closeDays(app, inRun)
  run.signal.throwIfAborted()
  return collected
}

type InRun = <T>(work: (tx: BatchTx) => Promise<T>) => Promise<T>

/** Plans every day whose window has opened. Days that nobody planned in time are planned too, and then have failed. */
async function planDueDays(app: BatchApp, inRun: InRun): Promise<number> {
  const now = app.clock()
  // Wherever clocks are, the days that are planned lie in these months.
  const days = [-mostMissedDays - 4, -16, 0, 2].map((count) => addDays(dayOf(now, 'UTC'), count))
  await ensureMonths(app.pool, 'rank', new Set(days.map(monthOf)))
  let planned = 0
  for (;;) {
    const count = await inRun(async (tx) => {
      const tracker = await lockDueTracker(tx, now)
      if (!tracker) return undefined
      const earliest = addDays(dayOf(now, tracker.window.zone), -mostMissedDays)
      let day = tracker.nextDay
      while (day < earliest) day = dayAfter(tracker.anchorDay, tracker.every, day)
      let inserted = 0
      for (let plan = planOf(day, tracker.window); plan.opensAt <= now; plan = planOf(day, tracker.window)) {
        inserted += await insertPlan(tx, tracker, plan, now)
        day = dayAfter(tracker.anchorDay, tracker.every, day)
      }
      await moveTracker(tx, tracker, day, planOf(day, tracker.window).opensAt)
      return inserted
    })
    if (count === undefined) return planned
    planned += count
  }
}

const mostClosed = 1000

/** Ends the checks that will not be made any more: each leaves a failed row with its reason, and never a silent gap. */
async function closeDays(app: BatchApp, inRun: InRun): Promise<number> {
  const now = app.clock()
  for (let closed = 0; ; ) {
    const ended = await inRun(async (tx) => {
      const checks = await closeChecks(tx, now, mostClosed)
      await mergeObservations(
        tx,
        now,
        checks.map((check) => ({
          workspaceId: check.workspaceId,
          observation: failedRow(check, check.reason!, now),
        })),
      )
      return checks.length
    })
    closed += ended
    if (ended < mostClosed) return closed
  }
}

type Series = { keyword: string; day: Day; engine: string; device: string; location: string; depth: number }

function failedRow(check: Series, reason: string, now: Date): RankObservation {
  return { ...rowOf(check, now), status: 'failed', reason, searched_depth: check.depth }
}

function rowOf({ keyword, day, engine, device, location }: Series, now: Date) {
  return { keyword, day: dayTold(engine, day), engine, device, location, checked_at: now.toISOString() }
}

type Drain = {
  readonly source: Source
  readonly ranks: RankSource
  readonly by: string
  readonly inRun: InRun
  readonly collected: Collected
}

const mostAtOnce = 32
const settleAtMost = 200

/** Makes the checks of one source that are due: claimed in batches, paced over all processes, settled in batches. */
async function drainSource(app: BatchApp, run: RunInHand, drain: Drain): Promise<void> {
  const { source, ranks, inRun, collected } = drain
  const pacer = openPacer(app.db, ranks.name, source.settings.ratePerSecond)
  const matcherFor = openMatchers()
  const finished: { check: ClaimedCheck; outcome: CheckOutcome }[] = []
  const underWay = new Set<Promise<void>>()
  let done = 0
  let trouble: unknown

  const begin = (check: ClaimedCheck) => {
    const made = makeCheck(ranks, check, matcherFor(check), pacer.turn)
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
    const free = mostAtOnce - underWay.size
    const isStopping = run.signal.aborted || trouble !== undefined
    const claimed =
      isStopping || free < mostAtOnce / 2 ? [] : await inRun((tx) => claim(app, tx, drain, free))
    claimed.forEach(begin)
    if (underWay.size === 0 && finished.length === 0 && claimed.length === 0) break
    if (finished.length === 0) await Promise.race(underWay)
    const batch = finished.splice(0, settleAtMost)
    if (batch.length === 0) continue
    await inRun((tx) => settle(app, tx, drain, batch))
    done += batch.length
    collected.checks += batch.length
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

/** Takes checks as far as every budget reaches, and sets aside what they may cost. */
async function claim(
  app: BatchApp,
  tx: BatchTx,
  { source, ranks, by }: Drain,
  most: number,
): Promise<ClaimedCheck[]> {
  const now = app.clock()
  const { name, budgetPerDay, workspaceBudgetPerDay } = source.settings
  const before = await lockSource(tx, name)
  const state = awake(before, now)
  if (!state) {
    await noteWhyWaiting(tx, { source: name }, before.lastError ?? 'source_resting', now)
    return []
  }
  if (state !== before) await updateSource(tx, name, state)

  const spentOn = dayOf(now, app.timeZone)
  const trackers = await listDueTrackers(tx, name, now)
  if (trackers.length === 0) return []
  const spending = await listSpending(tx, name, spentOn, [...new Set(trackers.flatMap(scopesOf))])
  const usedOf = (scope: string) => spending.get(scope)?.used ?? 0
  const taken = new Map<string, number>()
  const leftOf = (scope: string, budget: number) => budget - usedOf(scope) - (taken.get(scope) ?? 0)

  const claimed: ClaimedCheck[] = []
  for (const tracker of trackers) {
    const { workspaceId, trackerId, engine, depth } = tracker
    const callsEach = ranks.callsFor(engine, depth)
    const left = Math.min(
      leftOf(installationScope, budgetPerDay),
      workspaceBudgetPerDay > 0
        ? leftOf(workspaceScope(workspaceId), workspaceBudgetPerDay)
        : Number.MAX_SAFE_INTEGER,
      tracker.budgetPerDay === null
        ? Number.MAX_SAFE_INTEGER
        : leftOf(trackerScope(workspaceId, trackerId), tracker.budgetPerDay),
    )
    const affordable = callsEach === 0 ? most : Math.floor(left / callsEach)
    if (affordable <= 0) {
      await noteWhyWaiting(tx, { source: name, workspaceId, trackerId }, 'budget_exhausted', now)
      continue
    }
    const share = Math.min(most - claimed.length, affordable)
    const checks = await claimChecks(tx, tracker, { source: name, by, now, spentOn, callsEach, most: share })
    claimed.push(...checks)
    for (const scope of scopesOf(tracker))
      taken.set(scope, (taken.get(scope) ?? 0) + checks.length * callsEach)
    if (claimed.length >= most) break
  }
  await bookCalls(
    tx,
    name,
    spentOn,
    [...taken]
      .filter(([, reserved]) => reserved > 0)
      .map(([scope, reserved]) => ({ scope, reserved, spent: 0 })),
  )
  return claimed
}

/** Stores what checks found, what they cost and how the source fares, all at once. */
async function settle(
  app: BatchApp,
  tx: BatchTx,
  { source, by }: Drain,
  batch: readonly { check: ClaimedCheck; outcome: CheckOutcome }[],
): Promise<void> {
  const now = app.clock()
  const { name } = source.settings
  const failures = batch.flatMap(({ outcome }) => (outcome.kind === 'failed' ? [outcome] : []))
  const before = await lockSource(tx, name)
  const nextDay = instantAt(dayOf(now, app.timeZone), '24:00', app.timeZone)
  // A source that is left alone already is not judged again by the calls that were under way.
  const after =
    before.state === 'ready'
      ? judgeSource(before, { good: batch.length - failures.length, failures }, now, nextDay)
      : before
  await updateSource(tx, name, after)
  if (after.throttles > before.throttles) await holdCalls(tx, name, holdMsAfter(after.throttles))
  await tellState(tx, name, before.state, after.state, now)

  await endChecks(
    tx,
    by,
    batch.map((one) => endOf(one, now)),
    now,
  )
  await mergeObservations(
    tx,
    now,
    batch.flatMap((one) => observationOf(one, now)),
  )
  for (const [day, calls] of callsByDay(batch)) await bookCalls(tx, name, day, calls)
}

/** A refusal or a hurry is not the keyword's fault, and costs it no try. */
function endOf({ check, outcome }: { check: ClaimedCheck; outcome: CheckOutcome }, now: Date): CheckEnd {
  const { workspaceId, trackerId, day, keywordId, tries, dueAt } = check
  const place = { workspaceId, trackerId, day, keywordId }
  if (outcome.kind !== 'failed') return { ...place, status: 'done', tries, dueAt, reason: null }
  const { reason } = outcome
  if (outcome.of !== 'answer') return { ...place, status: 'due', tries: tries - 1, dueAt, reason }
  if (tries >= mostTries) return { ...place, status: 'failed', tries, dueAt, reason }
  return { ...place, status: 'due', tries, dueAt: new Date(now.getTime() + waitMsAfter(tries)), reason }
}

function observationOf({ check, outcome }: { check: ClaimedCheck; outcome: CheckOutcome }, now: Date) {
  const { workspaceId } = check
  const row = rowOf(check, now)
  if (outcome.kind === 'failed') {
    const isLast = outcome.of === 'answer' && check.tries >= mostTries
    return isLast ? [{ workspaceId, observation: failedRow(check, outcome.reason, now) }] : []
  }
  if (outcome.kind === 'untold') return [{ workspaceId, observation: failedRow(check, outcome.reason, now) }]
  if (outcome.kind === 'mean') {
    const position = Math.round(outcome.position)
    const searched_depth = Math.max(check.depth, position)
    const observation: RankObservation = {
      ...row,
      status: 'ranked',
      position,
      mean_position: outcome.position,
      searched_depth,
    }
    return [{ workspaceId, observation }]
  }
  const observation: RankObservation =
    outcome.kind === 'ranked'
      ? {
          ...row,
          status: 'ranked',
          position: outcome.position,
          searched_depth: check.depth,
          ...(outcome.url.length <= 2048 && { url: outcome.url }),
        }
      : { ...row, status: 'not_in_depth', searched_depth: outcome.depth }
  return [{ workspaceId, observation }]
}

/** What was set aside is freed, and what was used is spent, on the day whose budget it was taken from. */
function callsByDay(batch: readonly { check: ClaimedCheck; outcome: CheckOutcome }[]) {
  const days = new Map<Day, Map<string, { scope: string; reserved: number; spent: number }>>()
  for (const { check, outcome } of batch) {
    const scopes = days.get(check.spentOn) ?? new Map()
    days.set(check.spentOn, scopes)
    for (const scope of scopesOf(check)) {
      const { reserved = 0, spent = 0 } = scopes.get(scope) ?? {}
      scopes.set(scope, { scope, reserved: reserved - check.reserved, spent: spent + outcome.calls })
    }
  }
  return [...days].map(([day, scopes]) => [day, [...scopes.values()]] as const)
}
