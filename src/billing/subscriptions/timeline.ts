import type { BillingDb } from '../app.ts'
import { listAuditOf } from '../audit/audit-rows.ts'
import { type Blocker, isCalendarStopped } from '../charging-stop-rows.ts'
import { type BillingEvent, listEventsOf } from '../events/event-rows.ts'
import { listDunning } from '../invoices/dunning-rows.ts'
import { findTraces } from '../payments/payment-rows.ts'
import { listUnsettled } from '../unsettled-rows.ts'
import type { Subscription } from './subscription.ts'

export type Fact = {
  readonly at: Date
  readonly what: string
  /** Who asked for it, where somebody did. */
  readonly by: string | null
  readonly data: Readonly<Record<string, unknown>>
}

export type Timeline = {
  readonly facts: readonly Fact[]
  readonly next: readonly Next[]
}

export type Next = {
  readonly at: Date
  readonly what: string
  /** Why it does not happen, though its time has come: it is tried again at `at`, and waits as long as this lasts. */
  readonly blocked_by?: Blocker
}

const most = 1000

/**
 * The facts that led a subscription here, oldest first (of a very long life the newest), and what happens next and when. `traces`: with what the provider
 * calls each payment and its failure.
 */
export async function readTimeline(
  db: BillingDb,
  subscription: Subscription,
  now: Date,
  { traces = false }: { traces?: boolean } = {},
): Promise<Timeline> {
  const { subscriptionId } = subscription
  const [events, asked, unpaid, unsettled] = await Promise.all([
    listEventsOf(db, subscriptionId, most),
    listAuditOf(db, subscriptionId, most),
    listUnpaid(db, subscriptionId),
    listDoubts(db, subscriptionId, now),
  ])
  const known = traces ? await traced(db, events) : events
  const facts = [
    ...asked.map(({ at, actor, action }): Fact => ({ at, what: `asked.${action}`, by: actor, data: {} })),
    ...known.map(({ occurredAt, type, data }): Fact => ({ at: occurredAt, what: type, by: null, data })),
  ]
  facts.sort((a, b) => a.at.getTime() - b.at.getTime())
  const dates = [...nextOf(subscription), ...unpaid]
  const next = [
    ...((await isCalendarStopped(db)) ? dates.map((one) => blocked(one, now)) : dates),
    ...unsettled,
  ]
  next.sort((a, b) => a.at.getTime() - b.at.getTime())
  return { facts, next }
}

/** The facts about payments, each with its payment's trace at the provider. */
async function traced(db: BillingDb, events: readonly BillingEvent[]): Promise<BillingEvent[]> {
  const ids = events.map(({ data }) => data['payment_id']).filter((id) => typeof id === 'string')
  const found = await findTraces(db, [...new Set(ids)])
  return events.map((event) => ({
    ...event,
    data: { ...event.data, ...found.get(String(event.data['payment_id'])) },
  }))
}

function blocked(one: Next, now: Date): Next {
  return one.at <= now ? { ...one, blocked_by: 'charging_stopped' } : one
}

/** What the subscription's own dates will bring. */
function nextOf(subscription: Subscription): Next[] {
  const { status, nextBillingAt, cancelAt, methodId } = subscription
  if (status === 'canceling' && cancelAt) return [{ at: cancelAt, what: 'subscription.canceled' }]
  if (nextBillingAt === null || status === 'past_due' || status === 'incomplete') return []
  if (status === 'trialing') {
    return [{ at: nextBillingAt, what: methodId === null ? 'subscription.canceled' : 'trial_end.charge' }]
  }
  return [{ at: nextBillingAt, what: 'renewal.charge' }]
}

async function listUnpaid(db: BillingDb, subscriptionId: string): Promise<Next[]> {
  return (await listDunning(db, subscriptionId, most)).map(({ how, at }) => ({
    at,
    what: how === 'retry' ? 'retry.charge' : 'subscription.canceled',
  }))
}

/** What has no clear answer yet. Lookups wait by real time too, which is told as if the clock only ran. */
async function listDoubts(db: BillingDb, subscriptionId: string, now: Date): Promise<Next[]> {
  return (await listUnsettled(db, subscriptionId, most)).map(({ what, at, waitMs, blockedBy }) => {
    const byClock = at?.getTime() ?? Number.POSITIVE_INFINITY
    const byItself = waitMs === null ? Number.POSITIVE_INFINITY : now.getTime() + waitMs
    const next = { what, at: new Date(Math.max(now.getTime(), Math.min(byClock, byItself))) }
    return blockedBy === null ? next : { ...next, blocked_by: blockedBy }
  })
}
