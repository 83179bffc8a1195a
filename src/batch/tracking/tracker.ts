import { addDays, type Day, dayOf, daysBetween, daysInMonth, instantAt } from '../../platform/time.ts'
import type { Keyword } from '../keywords/keyword.ts'
import type { MatchMode } from './site.ts'

export const everyNames = ['day', 'week', 'month'] as const
export type Every = (typeof everyNames)[number]

/** When checks are made, as the clocks of a zone show it. */
export type Window = { readonly from: string; readonly to: string; readonly zone: string }

/** What a workspace wants to have checked: one site in one series. */
export type Tracker = {
  readonly workspaceId: string
  readonly id: string
  readonly site: string
  readonly match: MatchMode
  readonly engine: string
  readonly device: string
  readonly location: string
  readonly language: string | null
  readonly depth: number
  readonly source: string
  readonly every: Every
  readonly window: Window
  /** Null: every keyword of the workspace. */
  readonly keywords: readonly Keyword[] | null
  readonly budgetPerDay: number | null
  /** Weeks and months are counted from this day, so that they never drift. */
  readonly anchorDay: Day
  readonly nextDay: Day
  readonly nextPlanAt: Date
}

export type CheckPlan = {
  readonly day: Day
  /** When its window opens. */
  readonly opensAt: Date
  /** The last slot: a window that lasts until its day closes leaves room for what is made late or again. */
  readonly lastSlotAt: Date
  /** What is not done by then has failed for the day. */
  readonly closesAt: Date
}

const roomMs = 2 * 3_600_000

/** A day's window. One that does not end later than it begins ends on the next day. */
export function planOf(day: Day, { from, to, zone }: Window): CheckPlan {
  const opensAt = instantAt(day, from, zone)
  const endsAt = to > from ? instantAt(day, to, zone) : instantAt(addDays(day, 1), to, zone)
  const midnight = instantAt(day, '24:00', zone)
  const closesAt = endsAt > midnight ? endsAt : midnight
  const halfway = (opensAt.getTime() + endsAt.getTime()) / 2
  const lastSlotAt = new Date(Math.max(halfway, Math.min(endsAt.getTime(), closesAt.getTime() - roomMs)))
  return { day, opensAt, lastSlotAt, closesAt }
}

/** The first day after another on which checks are due. */
export function dayAfter(anchor: Day, every: Every, after: Day): Day {
  if (every === 'day') return addDays(after, 1)
  if (every === 'week')
    return addDays(anchor, Math.max(0, Math.floor(daysBetween(anchor, after) / 7) + 1) * 7)
  const monthsSince = (day: Day) => Number(day.slice(0, 4)) * 12 + Number(day.slice(5, 7)) - 1
  const same = monthsAfter(anchor, Math.max(0, monthsSince(after) - monthsSince(anchor)))
  return same > after ? same : monthsAfter(anchor, Math.max(0, monthsSince(after) - monthsSince(anchor)) + 1)
}

/** The 31st of January plus a month is the last of February, and plus two the 31st of March. */
function monthsAfter(anchor: Day, months: number): Day {
  const [year, month, day] = anchor.split('-').map(Number) as [number, number, number]
  const index = year * 12 + month - 1 + months
  const [laterYear, laterMonth] = [Math.floor(index / 12), (index % 12) + 1]
  const laterDay = Math.min(day, daysInMonth(laterYear, laterMonth))
  return `${String(laterYear).padStart(4, '0')}-${String(laterMonth).padStart(2, '0')}-${String(laterDay).padStart(2, '0')}`
}

/** The day on which a new tracker starts: today, unless all of its slots have passed. */
export function firstCheckDay(window: Window, now: Date): Day {
  const today = dayOf(now, window.zone)
  return planOf(today, window).lastSlotAt > now ? today : addDays(today, 1)
}

/** How many days that nobody planned, because no process ran, are caught up with: as failed ones. */
export const mostMissedDays = 31

export const mostTries = 3

/** How long a check waits that went wrong for the n-th time. */
export function waitMsAfter(tries: number): number {
  return tries <= 1 ? 10 * 60_000 : 60 * 60_000
}
