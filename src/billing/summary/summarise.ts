import { openSlowAnswers, type Patience } from '../../platform/slow-answers.ts'
import { addDays, type Day, dayOf, daysBetween } from '../../platform/time.ts'
import type { BillingApp } from '../app.ts'
import { type DayTotal, readDayTotals } from '../ledger/day-total-rows.ts'
import {
  countFailing,
  countSubscriptions,
  countUnknownOf,
  countUpcoming,
  type FailingCount,
  type OpenQuestions,
  readAccountDayTotals,
  type TermsCount,
  type UpcomingDay,
} from './summary-rows.ts'
import { readVitals } from './vitals-rows.ts'

/** What is counted over all subscriptions, invoices and days. */
type Figures = {
  readonly asOf: Date
  readonly from: Day
  readonly until: Day
  readonly terms: readonly TermsCount[]
  readonly days: readonly DayTotal[]
  readonly failing: readonly FailingCount[]
  readonly upcoming: readonly UpcomingDay[]
}

/** What somebody may have to act on, as it is now. */
type State = {
  readonly unknown: OpenQuestions
  /** Null for a token of one account: notifications and stops concern all. */
  readonly installation: {
    readonly webhooksWaiting: number
    readonly webhooksFailed: number
    readonly webhookLag: number
    readonly chargingStopped: boolean
  } | null
}

export type Summary = Figures & State

export const churnDays = 30
const upcomingDays = 30
const usualDays = 30
export const mostDays = 400

/** The days a summary tells of: those named, or the last thirty, today included. */
export function daysOf(
  app: BillingApp,
  from: Date | undefined,
  to: Date | undefined,
): { from: Day; until: Day } | undefined {
  const zone = app.terms.timeZone
  const last = dayOf(to ?? app.clock(), zone)
  const first = from ? dayOf(from, zone) : addDays(last, 1 - usualDays)
  if (first > last || daysBetween(first, last) >= mostDays) return undefined
  return { from: first, until: addDays(last, 1) }
}

type Days = { readonly from: Day; readonly until: Day }

/**
 * How billing stands. Two passes over the subscriptions are what its figures cost, so they are remembered for a while and say
 * when they were counted; in a sandbox everybody wants to see what they have just done. Its state is never remembered.
 */
export function openSummaries(
  app: BillingApp,
  patience?: Patience,
): (accountId: string | undefined, days: Days) => Promise<Summary> {
  const answer = openSlowAnswers<Figures>({ freshWhileQuick: app.terms.sandbox }, patience)
  return async (accountId, days) => {
    const count = () => countFigures(app, accountId, days)
    const [figures, state] = await Promise.all([
      accountId === undefined ? answer(`${days.from} ${days.until}`, count) : count(),
      readState(app, accountId),
    ])
    return { ...figures, ...state }
  }
}

async function countFigures(
  app: BillingApp,
  accountId: string | undefined,
  { from, until }: Days,
): Promise<Figures> {
  const { db, terms } = app
  const now = app.clock()
  const zone = terms.timeZone
  const [counts, days, failing, upcoming] = await Promise.all([
    countSubscriptions(db, accountId, new Date(now.getTime() - churnDays * 86_400_000)),
    accountId === undefined
      ? readDayTotals(db, zone, from, until)
      : readAccountDayTotals(db, accountId, zone, from, until),
    countFailing(db, accountId),
    countUpcoming(db, accountId, zone, new Date(now.getTime() + upcomingDays * 86_400_000)),
  ])
  return { asOf: now, from, until, terms: counts, days, failing, upcoming }
}

async function readState({ db, clock }: BillingApp, accountId: string | undefined): Promise<State> {
  if (accountId !== undefined)
    return { unknown: await countUnknownOf(db, accountId, clock()), installation: null }
  const vitals = await readVitals(db, clock())
  const { unknownPayments: payments, unknownRefunds: refunds, unknownPaymentAge, unknownRefundAge } = vitals
  const oldestSeconds = Math.max(unknownPaymentAge, unknownRefundAge)
  return { unknown: { payments, refunds, oldestSeconds }, installation: vitals }
}

const monthsOf = {
  day: [365n, 12n],
  week: [365n, 84n],
  month: [1n, 1n],
  year: [1n, 12n],
} as const

/** What running subscriptions come to in a month, by currency. Those that are ending are left out. */
export function monthlyRevenue(terms: readonly TermsCount[]): { currency: string; amount: bigint }[] {
  const sums = new Map<string, bigint>()
  for (const { status, currency, unit, every, amount } of terms) {
    if (status !== 'active' && status !== 'past_due') continue
    const [times, per] = monthsOf[unit]
    sums.set(currency, (sums.get(currency) ?? 0n) + (amount * times) / (per * BigInt(every)))
  }
  return [...sums].sort().map(([currency, amount]) => ({ currency, amount }))
}

/** The share of those that ran in the last thirty days and no longer do. Trials that lapsed and first charges refused at once are none. */
export function churnOf(terms: readonly TermsCount[]): { ended: number; live: number; rate: number } {
  const ended = terms.reduce((sum, { lost }) => sum + lost, 0)
  const live = terms.reduce(
    (sum, { status, count }) => sum + (status === 'canceled' || status === 'incomplete' ? 0 : count),
    0,
  )
  return { ended, live, rate: ended === 0 ? 0 : ended / (ended + live) }
}
