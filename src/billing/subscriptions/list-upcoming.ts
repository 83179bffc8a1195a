import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../../platform/page.ts'
import type { BillingApp } from '../app.ts'
import { readInstant } from '../instant-field.ts'
import { oldestCharged } from './catch-up.ts'
import { type Interval, period, periodIndexAt } from './period.ts'
import {
  listIntervals,
  listRetries,
  listUnsentCharges,
  type Place,
  type Running,
  readRunning,
  type UpcomingCharge,
  type UpcomingFilter,
} from './upcoming-rows.ts'

/**
 * Every charge that would run by an instant, soonest first, without running any: periods that begin by then, ends of
 * trials with a payment method, the next retry of what could not be collected, and what waits to be sent. Only a page of
 * them is ever worked out, however far the instant and however many the subscriptions.
 */
export async function listUpcoming(
  app: BillingApp,
  filter: UpcomingFilter,
  page: PageRequest,
): Promise<Page<UpcomingCharge>> {
  const limit = limitOf(page)
  const after = readPlace(page)
  const now = app.clock()
  const soonest = openSoonest(limit + 1, after)
  const tell = (one: Running) => {
    for (const charge of projected(one, firstPeriod(one, now, after, app.terms.catchUpPeriods))) {
      if (charge.at > filter.until || soonest.isPast(charge.at)) break
      soonest.add(charge)
      // Working a period out costs more than all the rest; the next one need not be if it comes too late anyway.
      if (soonest.isPast(new Date(charge.at.getTime() + shortestMs(intervalOf(one))))) break
    }
  }
  for (const unsent of await listUnsentCharges(app.db, filter, after, limit + 1)) soonest.add(unsent)
  for (const retry of await listRetries(app.db, filter, after, limit + 1)) soonest.add(retry)
  for await (const one of readRunning(app.db, filter, { after }, Math.max(limit + 1, 50))) {
    // They come by their next charge, so that none of those that follow can be sooner.
    if (soonest.isPast(one.next_billing_at)) break
    tell(one)
  }
  // What was told on an earlier page comes again only after its interval, so that few of those are read, or none.
  for (const interval of after ? await listIntervals(app.db, filter) : []) {
    for await (const one of readRunning(
      app.db,
      filter,
      { before: after!, interval },
      Math.max(limit + 1, 50),
    )) {
      if (soonest.isPast(new Date(one.next_billing_at.getTime() + shortestMs(interval)))) break
      tell(one)
    }
  }
  return pageOf(soonest.charges, limit, (charge) => keyOf(charge).split(' '))
}

function readPlace(page: PageRequest): Place | undefined {
  const values = readCursor(page, 3)
  if (!values) return undefined
  const [at, subscriptionId, invoiceId] = values as [string, string, string]
  return { at: readInstant('cursor', at), subscriptionId, invoiceId, key: values.join(' ') }
}

function keyOf(charge: UpcomingCharge): string {
  // Several periods that failed may fall due again at once.
  return `${charge.at.toISOString()} ${charge.subscriptionId} ${charge.invoiceId ?? ''}`
}

/** The soonest so many charges of those it is shown, past a place, in order. */
function openSoonest(most: number, after: Place | undefined) {
  const charges: UpcomingCharge[] = []
  return {
    charges,
    /** Whether nothing from this instant on can be among them any more. */
    isPast: (at: Date) => charges.length === most && at > charges.at(-1)!.at,
    add(charge: UpcomingCharge): void {
      const key = keyOf(charge)
      if (after && key <= after.key) return
      const later = charges.findIndex((other) => keyOf(other) > key)
      charges.splice(later === -1 ? charges.length : later, 0, charge)
      if (charges.length > most) charges.pop()
    },
  }
}

/** No two charges of an interval are nearer, whatever a month's length or a zone's clocks do. */
function shortestMs({ unit, count }: Interval): number {
  return shortestDays[unit] * count * 86_400_000
}

// A zone that leaves a day out gives half a day to it (see `periodStart`).
const shortestDays = { day: 0.4, week: 5, month: 26, year: 363 } as const

/** The first period to tell of. Of those already missed only the newest would be charged. */
function firstPeriod(one: Running, now: Date, after: Place | undefined, catchUpPeriods: number): number {
  const indexAt = (instant: Date) => periodIndexAt(one.anchor, one.time_zone, intervalOf(one), instant)
  const schedule = { anchor: one.anchor, timeZone: one.time_zone, interval: intervalOf(one) }
  const isDue = one.next_billing_at <= now
  const firstCharged = isDue ? oldestCharged(schedule, indexAt(now), now, catchUpPeriods) : 0
  const firstUntold = after && one.next_billing_at <= after.at ? indexAt(after.at) : 0
  return Math.max(one.last_k + 1, firstCharged, firstUntold)
}

/** The charges of one subscription from a period on, without end. */
function* projected(one: Running, from: number): Generator<UpcomingCharge> {
  for (let k = from; ; k++) {
    const due = period(one.anchor, one.time_zone, intervalOf(one), k)
    yield {
      at: due.start,
      what: k === 0 ? 'trial_end' : 'renewal',
      accountId: one.account_id,
      subscriptionId: one.id,
      planId: one.plan_id,
      invoiceId: null,
      amount: { minor: one.amount, currency: one.currency },
      period: due,
      timeZone: one.time_zone,
    }
  }
}

function intervalOf(one: Running): Interval {
  return { unit: one.interval_unit, count: one.interval_count }
}
