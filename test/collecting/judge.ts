import { type Check, none } from '../endurance/report.ts'
import type { Evidence, MonthlyEvidence, SourceEvidence, Usage } from './evidence.ts'

/** What must hold after a campaign, by the service's books and by those of the simulators. */
export function judge(evidence: Evidence): Check[] {
  const { sources, monthly, kills, restarts, training } = evidence
  const paid = sources.reduce((sum, { book }) => sum + book.paid, 0)
  const lost = sources.reduce((sum, one) => sum + one.lost, 0)
  return [
    ...sources.flatMap((one) => [...judgeRows(one, evidence), ...judgeUsage(one, evidence)]),
    ...monthly.flatMap((one) => judgeMonth(one, evidence)),
    ...monthly
      .filter(({ source }) => sources.every((tracked) => tracked.source !== source))
      .flatMap((one) => judgeUsage(one, evidence)),
    atLeastOne('workers killed in the middle of a run', kills),
    atLeastOne('workers stopped and started', restarts),
    atLeastOne('calls that crashes lost, by our count', lost),
    atLeastOne('calls that were paid for', paid),
    {
      what: 'the classifier trains on what was collected',
      measured: `${training.status}${training.error === null ? '' : ` (${training.error})`}, model ${training.modelId ?? 'none'}`,
      goal: 'a run that succeeded, and a model',
      held: training.status === 'succeeded' && training.modelId !== null,
    },
  ]
}

/** What every keyword of a tracker has, and whether it is true. */
function judgeRows(one: SourceEvidence, { days, tries }: Evidence): Check[] {
  const { source, keywords, failedByReason, orphaned } = one
  const told = Object.entries(one.rowsByDay)
  const whole = told.filter(([, { rows, keywords: about }]) => rows === keywords && about === keywords)
  const orphansFailed = failedByReason['worker_lost'] ?? 0
  const failed = sumOf(failedByReason, (reason) => !isExplained(reason))
  const most = mostFailing(one, days * keywords, tries)
  return [
    {
      what: `${source}: days on which every keyword has one row`,
      measured: `${whole.length} of ${told.length}`,
      goal: `${days} of ${days}, ${keywords} keywords each`,
      held: whole.length === days && told.length === days,
    },
    none(`${source}: failed rows without a reason`, one.failedWithoutReason),
    {
      what: `${source}: rows that failed though they were tried`,
      measured: `${failed} of ${days * keywords}`,
      goal: `at most ${most}, by the faults that were drawn`,
      held: failed <= most,
    },
    {
      what: `${source}: rows that failed because a worker was killed`,
      measured: String(orphansFailed),
      goal: `at most ${orphaned}, which were in its hands`,
      held: orphansFailed <= orphaned,
    },
    none(
      `${source}: days on which checks failed for want of a budget that was left`,
      one.stingyDays.length,
      one.stingyDays,
    ),
    none(`${source}: checks that neither ended nor failed`, one.openChecks),
    none(`${source}: rows that tell another place than the web showed`, one.untrue.length, one.untrue),
  ]
}

// Budgets, crashes and what a source keeps to itself are judged by counts of their own.
function isExplained(reason: string): boolean {
  return reason === 'budget_exhausted' || reason === 'worker_lost' || reason === 'not_shown'
}

/**
 * How many checks may fail: those whose every try met a fault, and those of the orphans, which have a try less; twice as many as
 * are to be expected, and some. Checks that are ordered share a call and fail together, and what became of them is known a stop later.
 */
function mostFailing(one: SourceEvidence, checks: number, tries: number): number {
  const { failing, orphaned, keptBack, checksPerCall } = one
  const isOrdered = checksPerCall > 1
  const tried = isOrdered ? tries - 1 : tries
  const expected = checks * failing ** tried + orphaned * failing ** (tried - 1)
  return Math.ceil(2 * expected) + 5 + (isOrdered ? checksPerCall : 0) + keptBack
}

/** What of a source was used, by both books. */
function judgeUsage(one: Usage, { longestStallMs }: Evidence): Check[] {
  const { source, book, budgetPerDay, ratePerSecond } = one
  const most = Math.max(0, ...Object.values(book.paidByDay))
  // Calls that left a second apart arrive together at a simulator that stood still between them.
  const stallSeconds = longestStallMs / 1000
  const mostASecond = Math.floor(ratePerSecond * (1.25 + 2 * stallSeconds))
  const mostAMinute = Math.floor(ratePerSecond * (60 + 2 * stallSeconds)) + 1
  const goal = (allowed: number) =>
    `at most ${allowed} (${ratePerSecond} a second, the longest stall ${Math.round(longestStallMs)} ms)`
  return [
    {
      what: `${source}: most paid calls in a day`,
      measured: `${most} at the source, ${one.mostSpentInADay} in our books`,
      goal: `at most ${budgetPerDay}`,
      held: most <= budgetPerDay && one.mostSpentInADay <= budgetPerDay,
    },
    {
      what: `${source}: most calls within a second, at the source`,
      measured: `${book.mostInASecond} of ${book.calls}`,
      goal: goal(mostASecond),
      held: book.mostInASecond <= mostASecond,
    },
    {
      what: `${source}: most calls within a minute, at the source`,
      measured: `${book.mostInAMinute} of ${book.calls}`,
      goal: goal(mostAMinute),
      held: book.mostInAMinute <= mostAMinute,
    },
    none(`${source}: calls that were turned away because they came too fast`, book.throttled),
    {
      what: `${source}: hosts at which it was asked`,
      measured: one.callsByHost.map((calls) => `${calls} calls`).join(', '),
      goal: 'every one of them',
      held: one.callsByHost.every((calls) => calls > 0),
    },
    {
      what: `${source}: faults that were drawn`,
      measured: String(sumOf(book.struck)),
      goal: 'at least one where ten are to be expected, or it proves little',
      held: sumOf(book.struck) > 0 || (book.calls > 0 && book.calls * one.failing < 10),
    },
    {
      what: `${source}: good answers paid for again`,
      measured: String(book.paidAgain),
      goal: `at most ${one.lost}, which crashes lost`,
      held: book.paidAgain <= one.lost,
    },
    {
      what: `${source}: what we count as spent`,
      measured: `${one.spent}, and ${one.reserved} still set aside`,
      goal: `at least the ${book.paid} that the source put on the bill, and nothing set aside`,
      held: one.spent >= book.paid && one.reserved === 0,
    },
  ]
}

const mostTries = 3

/** What every keyword has of a source that is asked once a month. */
function judgeMonth(one: MonthlyEvidence, { keywords }: Evidence): Check[] {
  const { source, tells, checks, book } = one
  const { done = 0, no_data: untold = 0, failed = 0 } = checks
  const allowedAgain = one.lost * one.keywordsPerCall
  // Keywords of one call fail together.
  const expected = Math.ceil(2 * keywords * one.failing ** mostTries) + 5 + one.keywordsPerCall
  const mostFailed = Math.min(expected, keywords - 1)
  return [
    {
      what: `${source}: keywords that it was asked for in ${one.month.slice(0, 7)}`,
      measured: `${done} told, ${untold} without ${tells}, ${failed} failed`,
      goal: `${keywords} in all, none open, at most ${mostFailed} failed`,
      held:
        done + untold + failed === keywords && sumOf(checks) === keywords && failed <= mostFailed && done > 0,
    },
    none(`${source}: failed keywords without a reason`, one.failedWithoutReason),
    none(`${source}: keywords told of which no ${tells} are stored`, one.doneInVain),
    {
      what: `${source}: keywords that were told again in the month`,
      measured: String(book.toldAgain),
      goal: `at most ${allowedAgain}, of calls that crashes lost`,
      held: book.toldAgain <= allowedAgain,
    },
  ]
}

function sumOf(counts: Readonly<Record<string, number>>, has = (_name: string) => true): number {
  return Object.entries(counts).reduce((sum, [name, count]) => sum + (has(name) ? count : 0), 0)
}

function atLeastOne(what: string, count: number): Check {
  return { what, measured: String(count), goal: 'at least one, or it proves little', held: count > 0 }
}
