import { addLocal } from './calendar.ts'
import { dataOf, type Facts, type Payment, type Subscription } from './facts.ts'
import { groupBy } from './lists.ts'

export function chargedOnce({
  book,
  periods,
  payments,
  invoices,
  subscriptions,
  prices,
  adopted,
}: Facts): string[] {
  const found: string[] = []
  const attemptsOf = attemptsByInvoice(payments)
  const chargesOf = groupBy(book, ({ reference }) => reference)
  for (const { subscription_id, k, start_at, end_at, invoice_id } of periods) {
    const name = `period ${k} of ${subscription_id}`
    const invoice = invoices.find(({ id }) => id === invoice_id)!
    const subscription = subscriptions.find(({ id }) => id === subscription_id)!
    const attempts = attemptsOf.get(invoice_id) ?? []
    const proper = attempts.filter(({ status, unmatched }) => status === 'succeeded' && !unmatched)
    if (proper.length > 1) found.push(`${name} was charged ${proper.length} times`)
    for (const unmatched of attempts.filter((payment) => payment.unmatched)) {
      const charge = chargesOf.get(unmatched.id)?.[0]
      const withdrawn = invoice.status === 'void' || invoice.status === 'uncollectible'
      if (!withdrawn && !charge?.late) found.push(`${name} was charged once more, as ${unmatched.id}`)
    }
    for (const { reference, amount, at } of attempts.flatMap(({ id }) => chargesOf.get(id) ?? [])) {
      if (amount.minor !== invoice.amount_due || amount.currency !== invoice.currency)
        found.push(
          `${name}: ${reference} asked for ${amount.minor} ${amount.currency}, due was ${invoice.amount_due}`,
        )
      if (at < start_at.getTime()) found.push(`${name} was charged before it began`)
    }
    if (attempts[0] && attempts[0].created_at >= end_at && !adopted.has(attempts[0].id))
      found.push(`${name} was over when it was first charged`)
    if (invoice.amount_due !== subscription.amount || invoice.currency !== subscription.currency)
      found.push(`${name} is billed ${invoice.amount_due}, its terms say ${subscription.amount}`)
  }
  for (const { id, plan_id, amount } of subscriptions)
    if (!prices.get(plan_id)?.includes(amount))
      found.push(`${id} costs ${amount}, which ${plan_id} never did`)
  const billed = groupBy(periods, ({ invoice_id }) => invoice_id)
  for (const { id } of invoices) if (billed.get(id)?.length !== 1) found.push(`${id} bills not one period`)
  return found
}

/** The attempts on each invoice, by their numbers: within a millisecond, ids of two processes are in no order. */
function attemptsByInvoice(payments: readonly Payment[]): Map<string, Payment[]> {
  return groupBy(
    [...payments].sort((one, other) => one.attempt - other.attempt),
    ({ invoice_id }) => invoice_id,
  )
}

/** The k-th interval after an anchor, computed anew. */
function startOf({ anchor, time_zone, interval_unit, interval_count }: Subscription, k: number): number {
  const at = anchor.getTime()
  return k === 0 ? at : addLocal(at, time_zone, interval_unit, k * interval_count)
}

export function periodsFollowTheCalendar({
  subscriptions,
  periods,
  invoices,
  plans,
  requests,
}: Facts): string[] {
  const found: string[] = []
  for (const subscription of subscriptions) {
    const own = periods.filter(({ subscription_id }) => subscription_id === subscription.id)
    own.forEach(({ k, start_at, end_at, invoice_id }, at) => {
      const name = `period ${k} of ${subscription.id}`
      if (k !== at) found.push(`${name} stands where ${at} should`)
      const right =
        startOf(subscription, k) === start_at.getTime() && startOf(subscription, k + 1) === end_at.getTime()
      if (!right) found.push(`${name} is ${start_at.toISOString()} to ${end_at.toISOString()}`)
      const invoice = invoices.find(({ id }) => id === invoice_id)!
      if (
        invoice.period_start.getTime() !== start_at.getTime() ||
        invoice.period_end.getTime() !== end_at.getTime()
      )
        found.push(`${name} and its invoice disagree on when it is`)
    })
    const { status, next_billing_at, trial_ends_at, last_k } = subscription
    const begins = own[0]?.start_at.getTime() ?? trial_ends_at?.getTime()
    if (trial_ends_at && begins !== trial_ends_at.getTime())
      found.push(`${subscription.id} is billed from another instant than its trial's end`)
    const asked = requests.find((entry) => dataOf(entry)?.subscription_id === subscription.id)
    const zone = (asked?.body as { timezone?: string } | undefined)?.timezone
    // A trial keeps the zone in which it began.
    if (zone !== undefined && zone !== subscription.time_zone && !trial_ends_at)
      found.push(`${subscription.id} lives in ${subscription.time_zone}, and ${zone} was asked for`)
    if (trial_ends_at && trial_ends_at.getTime() !== trialEndOf(subscription, plans))
      found.push(`${subscription.id} is on trial until ${trial_ends_at.toISOString()}`)
    if (last_k !== own.length - 1)
      found.push(`${subscription.id} counts ${last_k} and has ${own.length} periods`)
    const next = own.length === 0 ? trial_ends_at?.getTime() : startOf(subscription, own.length)
    if (status !== 'canceled' && next_billing_at?.getTime() !== next)
      found.push(`${subscription.id} is billed next at ${next_billing_at?.toISOString()}`)
  }
  return found
}

/** The plan may have been replaced since; every plan with a trial offers its own days. */
function trialEndOf(
  { created_at, time_zone, trial_ends_at }: Subscription,
  plans: Facts['plans'],
): number | undefined {
  return plans
    .map(({ trial_days }) => addLocal(created_at.getTime(), time_zone, 'day', trial_days))
    .find((end) => end === trial_ends_at!.getTime())
}

/** Declined so that no later try can pass. The customer may offer the same card anew, as another payment method. */
export function isFinal(code: string | null): boolean {
  return ['lost_or_stolen', 'expired_card', 'billing_key_invalid'].includes(code ?? '')
}

/** By itself an invoice is tried again a day after it first failed at the soonest; only another card comes sooner. */
export function retriesKeepTheirDays({
  payments,
  invoices,
  subscriptions,
  adopted,
}: Pick<Facts, 'payments' | 'invoices' | 'subscriptions' | 'adopted'>): string[] {
  const found: string[] = []
  for (const [invoiceId, attempts] of attemptsByInvoice(payments)) {
    const invoice = invoices.find(({ id }) => id === invoiceId)!
    if (invoice.attempt_count !== attempts.length)
      found.push(`${invoiceId} counts ${invoice.attempt_count} attempts of ${attempts.length}`)
    attempts.slice(1).forEach((attempt, at) => {
      // Which card a forgotten attempt tried, nobody knows any more.
      if (adopted.has(attempt.id)) return
      const before = attempts[at]!
      const settled = before.settled_at?.getTime() ?? Number.POSITIVE_INFINITY
      if (!before.unmatched && attempt.created_at.getTime() < settled)
        found.push(`${attempt.id} began before ${before.id} was settled`)
      const lost = attempts
        .slice(0, at + 1)
        .filter(
          ({ id, payment_method_id }) => payment_method_id === attempt.payment_method_id && !adopted.has(id),
        )
        .find(({ code }) => isFinal(code))
      if (lost) found.push(`${attempt.id} tried a card again that is ${lost.code}`)
      if (attempt.payment_method_id !== before.payment_method_id) return
      const failed = invoice.first_failed_at?.getTime() ?? 0
      const zone = subscriptions.find(({ id }) => id === invoice.subscription_id)!.time_zone
      if (attempt.created_at.getTime() < addLocal(failed, zone, 'day', 1))
        found.push(`${attempt.id} came too soon`)
    })
    const byItself = groupBy(attempts, ({ payment_method_id }) => payment_method_id)
    // One that made way for another card never left us.
    for (const [method, own] of byItself)
      if (own.filter(({ id, code }) => !adopted.has(id) && code !== 'withdrawn').length > 5)
        found.push(`${method} was tried ${own.length} times`)
  }
  return found
}
