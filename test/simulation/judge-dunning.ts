import { addLocal } from './calendar.ts'
import {
  type Facts,
  type Invoice,
  mayHaveWorked,
  type Payment,
  type Subscription,
  settledAt,
} from './facts.ts'
import { isFinal } from './judge-calendar.ts'
import { groupBy } from './lists.ts'

/** Days after its first failure on which an invoice is tried again by itself. */
const dunningDays = [1, 3, 5, 7]

/**
 * Every retry day is kept: whoever sweeps once it has come tries again, with the subscription's own card. Days that nobody
 * swept on collapse into one try. What stands in the way is a fact of that very moment: an attempt that nobody has the outcome
 * of, a card that will not pass however often it is tried, a calendar that stands still after a restore.
 */
export function retriesAreMade(facts: Facts): string[] {
  const sweeps = quietSweeps(facts)
  return dunningsOf(facts).flatMap((dunning) => {
    const { invoice, days, firstFailedAt, end, attempts } = dunning
    const first = attempts.find(({ status, code }) => status === 'failed' && code !== 'withdrawn')
    if (first?.settled_at && firstFailedAt > first.settled_at.getTime())
      return [`${invoice.id} counts its days from later than ${first.id} failed`]
    const missed = sweeps.find(({ at, step }) => {
      const day = days.findLast((one) => one <= at)
      if (day === undefined || at >= end || isLeaving(facts, invoice.subscription_id, at)) return false
      const settled = (one: Payment) => settledAt(facts, one, step)
      return (
        !isTried(dunning, day, at, settled) && !isUnderWay(attempts, at, settled) && !isHopeless(dunning, at)
      )
    })
    if (!missed) return []
    const day = dunningDays[days.findLastIndex((one) => one <= missed.at)]
    return [`${invoice.id} was not tried again on day ${day}: the sweep of #${missed.step} left it`]
  })
}

/**
 * What is not paid for ends after the last retry: that was made, or is still the one of the day before when that is answered; or
 * the card had been declined for good. Whoever was leaving anyway is not dunned.
 */
export function givenUpAfterTheLastRetry(facts: Facts): string[] {
  const dunnings = new Map(dunningsOf(facts).map((one) => [one.invoice.id, one]))
  return facts.subscriptions
    .filter(({ status, cancel_code }) => status === 'canceled' && cancel_code === 'payment_failed')
    .filter((subscription) => {
      const end = subscription.canceled_at!.getTime()
      // The end itself is one that the database forgot and was told of again, without what led to it. It then comes before
      // the next charge that the copy knows of, which may be earlier than it was.
      const ends = [end, ...toldEnds(facts, subscription)]
      if (facts.restores.some(({ from, at }) => ends.some((one) => from <= one && one <= at))) return false
      const given = facts.invoices.filter(
        ({ subscription_id, status }) => subscription_id === subscription.id && status === 'uncollectible',
      )
      // What else is owed is given up with the first that is.
      return !given.some((invoice) => {
        const dunning = dunnings.get(invoice.id)
        if (!dunning) return wasLeaving(facts, subscription, end)
        const last = dunning.days.at(-1)!
        const settled = (one: Payment) => one.settled_at?.getTime() ?? Number.POSITIVE_INFINITY
        return end >= last && (isTried(dunning, last, end, settled) || isHopeless(dunning, end))
      })
    })
    .map(
      ({ id, canceled_at }) => `${id} ended unpaid at ${canceled_at!.toISOString()} without its last retry`,
    )
}

/** When it was to end, as requests and an exported history told. */
function toldEnds({ events }: Facts, { id }: Subscription): number[] {
  return events
    .filter(({ type, subscription_id }) => type === 'subscription.canceling' && subscription_id === id)
    .map(({ data }) => Date.parse(String(data['cancel_at'])))
}

type Dunning = {
  readonly invoice: Invoice
  readonly firstFailedAt: number
  /** The instants of its retries. */
  readonly days: readonly number[]
  /** When it was paid, or given up; infinite while it is owed. */
  readonly end: number
  readonly attempts: readonly Payment[]
  /** Those with the card that was the subscription's own at the time. */
  readonly own: readonly Payment[]
  /** When the provider took those up that it has on record. */
  readonly takenUpAt: ReadonlyMap<string, number>
  /** When its customer brought another card that was kept. */
  readonly newCards: readonly number[]
}

function dunningsOf({ invoices, payments, subscriptions, methods, events, book }: Facts): Dunning[] {
  const takenUpAt = new Map(book.map(({ reference, at }) => [reference, at]))
  // One that was offered and turned down was nobody's own.
  const turnedDown = new Set(
    methods.filter(({ failure }) => failure !== null && failure !== 'lost_in_restore').map(({ id }) => id),
  )
  const attemptsOf = groupBy(payments, ({ invoice_id }) => invoice_id)
  return invoices
    .filter(({ first_failed_at, hold }) => first_failed_at !== null && hold === null)
    .map((invoice) => {
      const subscription = subscriptions.find(({ id }) => id === invoice.subscription_id)!
      const attempts = [...(attemptsOf.get(invoice.id) ?? [])].sort((a, b) => a.attempt - b.attempt)
      const firstFailedAt = invoice.first_failed_at!.getTime()
      return {
        invoice,
        firstFailedAt,
        days: dunningDays.map((day) => addLocal(firstFailedAt, subscription.time_zone, 'day', day)),
        end: (invoice.paid_at ?? subscription.canceled_at)?.getTime() ?? Number.POSITIVE_INFINITY,
        attempts,
        own: attempts.filter(({ payment_method_id }) => !turnedDown.has(payment_method_id)),
        takenUpAt,
        newCards: events
          .filter(
            ({ type, subscription_id }) =>
              type === 'payment_method.changed' && subscription_id === subscription.id,
          )
          .map(({ occurred_at }) => occurred_at.getTime()),
      }
    })
}

/** Tried since that day had come, or the try of a day before was still in doubt when it came. One that made way never left us. */
function isTried(
  { own, takenUpAt }: Dunning,
  day: number,
  until: number,
  settled: (one: Payment) => number,
): boolean {
  return own.some((one) => {
    const began = one.created_at.getTime()
    if (one.code === 'withdrawn' || began > until) return false
    return began >= day || doubtEndOf(one, takenUpAt, settled) >= day
  })
}

/** Whoever did not come to confirm it was awaited until the next retry at the latest, from when the provider began to wait. */
function doubtEndOf(
  payment: Payment,
  takenUpAt: Dunning['takenUpAt'],
  settled: (one: Payment) => number,
): number {
  const { id, code, created_at } = payment
  if (code === 'authentication_required') return takenUpAt.get(id) ?? created_at.getTime()
  return settled(payment)
}

/** Until its outcome is known, nothing else may be asked for this invoice. */
function isUnderWay(attempts: readonly Payment[], at: number, settled: (one: Payment) => number): boolean {
  return attempts.some((one) => one.created_at.getTime() <= at && settled(one) >= at)
}

/** Its card was declined for good, and no other has come since. */
function isHopeless({ own, newCards }: Dunning, at: number): boolean {
  return own.some(({ code, settled_at }) => {
    const since = settled_at?.getTime() ?? Number.POSITIVE_INFINITY
    return isFinal(code) && since <= at && !newCards.some((one) => one > since && one <= at)
  })
}

/**
 * It is to end, which closes what is owed: nobody is dunned who is leaving. Only a restore that brings a cancellation back meets
 * an invoice that had failed before it.
 */
function isLeaving({ events }: Facts, subscriptionId: string, at: number): boolean {
  const last = events
    .filter(({ subscription_id }) => subscription_id === subscriptionId)
    .filter(({ type }) => type === 'subscription.canceling' || type === 'subscription.resumed')
    .findLast(({ occurred_at }) => occurred_at.getTime() <= at)
  return last?.type === 'subscription.canceling'
}

/** It was to end with the period whose charge failed, or ended meanwhile. */
function wasLeaving({ allRequests }: Facts, { id }: Subscription, end: number): boolean {
  return allRequests.some(
    (one) =>
      one.path === '/api/billing/cancel' &&
      (one.body as { subscription_id?: string }).subscription_id === id &&
      one.at <= end &&
      mayHaveWorked(one),
  )
}

const cutShort = new Set(['died', 'failed', 'stalled'])

/** Sweeps that came to their end and met nobody else at work, on a calendar that ran: none of them leaves what is due. */
function quietSweeps({ history, restores }: Facts): { readonly at: number; readonly step: number }[] {
  const deeds = groupBy(
    history.filter(({ kind }) => kind === 'request' || kind === 'delivery' || kind === 'work'),
    ({ step }) => String(step),
  )
  const found: { at: number; step: number }[] = []
  let at: number | undefined
  let stopped = false
  for (const entry of history) {
    if (entry.kind === 'time') at = Date.parse(entry.now)
    if (entry.kind === 'restore') stopped = true
    if (entry.kind !== 'work' || cutShort.has(entry.outcome)) continue
    if (entry.what === 'resume charging') stopped = false
    if (entry.what !== 'sweep' || stopped || at === undefined) continue
    const isForgotten = restores.some(({ since, step }) => entry.step > since && entry.step <= step)
    if (!isForgotten && deeds.get(String(entry.step))!.length === 1) found.push({ at, step: entry.step })
  }
  return found
}
