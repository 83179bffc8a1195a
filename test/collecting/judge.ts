import { type Check, none } from '../endurance/report.ts'
import type { Evidence, SourceEvidence } from './evidence.ts'

/** What must hold after a campaign, by the service's books and by those of the simulators. */
export function judge(evidence: Evidence): Check[] {
  const { sources, kills, restarts, training } = evidence
  const paid = sources.reduce((sum, { book }) => sum + book.paid, 0)
  const lost = sources.reduce((sum, one) => sum + one.lost, 0)
  return [
    ...sources.flatMap((one) => judgeSource(one, evidence)),
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

function judgeSource(one: SourceEvidence, { keywords, days, longestStallMs }: Evidence): Check[] {
  const { source, book, budgetPerDay, ratePerSecond } = one
  const told = Object.entries(one.rowsByDay)
  const whole = told.filter(([, { rows, keywords: about }]) => rows === keywords && about === keywords)
  const most = Math.max(0, ...Object.values(book.paidByDay))
  // Calls that left a second apart arrive together at a simulator that stood still between them.
  const mostAllowed = Math.floor(ratePerSecond * (1.25 + (2 * longestStallMs) / 1000))
  return [
    {
      what: `${source}: days on which every keyword has one row`,
      measured: `${whole.length} of ${told.length}, ${one.failed} rows failed`,
      goal: `${days} of ${days}, ${keywords} keywords each`,
      held: whole.length === days && told.length === days,
    },
    none(`${source}: failed rows without a reason`, one.failedWithoutReason),
    none(`${source}: checks that neither ended nor failed`, one.openChecks),
    none(`${source}: rows that tell another place than the web showed`, one.untrue.length, one.untrue),
    {
      what: `${source}: most paid calls in a day`,
      measured: `${most} at the source, ${one.mostSpentInADay} in our books`,
      goal: `at most ${budgetPerDay}`,
      held: most <= budgetPerDay && one.mostSpentInADay <= budgetPerDay,
    },
    {
      what: `${source}: most calls within a second, at the source`,
      measured: `${book.mostInASecond} of ${book.calls}`,
      goal: `at most ${mostAllowed} (${ratePerSecond} a second, the longest stall ${Math.round(longestStallMs)} ms)`,
      held: book.mostInASecond <= mostAllowed && book.calls > 0,
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

function atLeastOne(what: string, count: number): Check {
  return { what, measured: String(count), goal: 'at least one, or it proves little', held: count > 0 }
}
