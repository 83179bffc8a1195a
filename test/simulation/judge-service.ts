import { errorCodeOf, type Facts, type Invoice, type Subscription, settledAt } from './facts.ts'
import type { RequestEntry } from './history.ts'
import { sum } from './lists.ts'

/** Where clocks run, a request and what it met may tell slightly different times. */
const skewMs = 5_000

type Span = { readonly from: number; readonly to: number }

function spanOf({ at, ended }: RequestEntry): Span {
  return ended ? { from: at - skewMs, to: ended.at + skewMs } : { from: at, to: at }
}

/** Whoever is refused is refused for a reason that was there: what was rightful must succeed. */
export function refusalsAreRightful(facts: Facts): string[] {
  return facts.requests.flatMap((entry) => {
    const code = errorCodeOf(entry)
    if (code === undefined || entry.answer!.replayed) return []
    const holds = reasons[code]?.(facts, entry, spanOf(entry)) ?? true
    return holds ? [] : [`#${entry.step} ${entry.method} ${entry.path} was refused: ${code}`]
  })
}

type Reason = (facts: Facts, entry: RequestEntry, span: Span) => boolean

const reasons: Readonly<Record<string, Reason>> = {
  subscription_exists: (facts, entry, { from, to }) =>
    facts.subscriptions.some(
      (one) =>
        one.account_id === accountOf(entry) &&
        one.created_at.getTime() <= to &&
        (endOf(facts, one) ?? Number.POSITIVE_INFINITY) >= from,
    ),
  trial_already_used: ({ grants }, entry) => grants.some(({ account_id }) => account_id === accountOf(entry)),
  already_canceled: (facts, entry, { to }) => {
    const canceledAt = subscriptionOf(facts, entry)?.canceled_at
    // A subscribe is told so when it was canceled in the meantime.
    return entry.path.endsWith('/subscribe') || (canceledAt != null && canceledAt.getTime() <= to)
  },
  subscription_not_found: (facts, entry) => subscriptionOf(facts, entry) === undefined,
  plan_not_found: () => false,
  payment_in_doubt: (facts, entry, span) =>
    facts.payments.some(
      (one) =>
        one.subscription_id === bodyOf(entry)['subscription_id'] && isUnsettled(facts, one, entry, span),
    ),
  invoice_not_found: (facts, entry) => invoiceOf(facts, entry) === undefined,
  invoice_not_paid: (facts, entry, { from }) => {
    const { id, paid_at, status } = invoiceOf(facts, entry)!
    return (
      paid_at === null ||
      paid_at.getTime() >= from ||
      ['void', 'uncollectible'].includes(status) ||
      facts.payments.some((one) => one.invoice_id === id && settledAt(facts, one, entry.step) >= from)
    )
  },
  refund_in_doubt: (facts, entry, span) =>
    facts.refunds.some(
      (one) => one.invoice_id === bodyOf(entry)['invoice_id'] && isUnsettled(facts, one, entry, span),
    ),
  payment_disputed: (facts, entry) => {
    const own = new Set(
      facts.payments.filter((one) => one.invoice_id === bodyOf(entry)['invoice_id']).map(({ id }) => id),
    )
    return facts.book.some(({ reference, dispute }) => dispute && own.has(reference))
  },
  nothing_to_refund: (facts, entry, span) => !leavesEnough(facts, entry, span, 1n),
  refund_exceeds_remaining: (facts, entry, span) =>
    !leavesEnough(facts, entry, span, BigInt((bodyOf(entry)['amount'] as number | undefined) ?? 1)),
  idempotency_key_reused: ({ requests }, entry) =>
    requests.some(
      (one) =>
        one.path === entry.path &&
        one.key === entry.key &&
        one.step <= entry.step &&
        JSON.stringify(one.body) !== JSON.stringify(entry.body),
    ),
}

/** When it was carried out that a subscription ends; that may be later than it was to end. */
function endOf({ events }: Facts, { id }: Subscription): number | undefined {
  return events
    .find(({ type, subscription_id }) => type === 'subscription.canceled' && subscription_id === id)
    ?.occurred_at.getTime()
}

function bodyOf({ body }: RequestEntry): Record<string, unknown> {
  return (body ?? {}) as Record<string, unknown>
}

function accountOf(entry: RequestEntry): unknown {
  return bodyOf(entry)['account_id'] ?? entry.path.split('/').at(-1)
}

function subscriptionOf({ subscriptions }: Facts, entry: RequestEntry) {
  return subscriptions.find(({ id }) => id === bodyOf(entry)['subscription_id'])
}

function invoiceOf({ invoices }: Facts, entry: RequestEntry): Invoice | undefined {
  return invoices.find(({ id }) => id === bodyOf(entry)['invoice_id'])
}

/** What a copy had in doubt was so for whoever asked before it was made. */
function isUnsettled(
  facts: Facts,
  one: { id: string; created_at: Date; settled_at: Date | null },
  { step }: RequestEntry,
  { from, to }: Span,
): boolean {
  return one.created_at.getTime() <= to && settledAt(facts, one, step) >= from
}

/** Whether so much could have been given back, even if all that was asked for until then went back too. */
function leavesEnough(facts: Facts, entry: RequestEntry, span: Span, amount: bigint): boolean {
  const invoice = invoiceOf(facts, entry)!
  const held = facts.refunds.filter(
    (one) =>
      one.invoice_id === invoice.id &&
      one.created_at.getTime() <= span.to &&
      !(one.status === 'failed' && one.settled_at!.getTime() < span.from),
  )
  return invoice.amount_paid - sum(held, (one) => one.amount) >= amount
}

const declines = new Set(['insufficient_funds', 'lost_or_stolen'])

/** A charge or refund that failed was declined by somebody: the provider's book and its own word tell. */
export function failuresHaveCauses({ payments, refunds, book, refused }: Facts): string[] {
  const chargeOf = new Map(book.map((charge) => [charge.reference, charge]))
  const ours = new Set(
    refunds
      .filter(({ status, origin }) => status === 'succeeded' && origin !== 'provider')
      .map(({ id }) => id),
  )
  return [
    ...payments
      .filter(({ code }) => code !== null && declines.has(code))
      .filter(({ id, code }) => chargeOf.get(id)?.code !== code)
      .map(({ id, code }) => `${id} failed with ${code}, which nobody said`),
    ...payments
      .filter(
        ({ code, provider_reference }) =>
          code === 'provider_error' && refused && !refused.has(provider_reference),
      )
      .map(({ id }) => `${id} failed with provider_error, and the provider refused nothing`),
    ...refunds
      .filter(
        ({ code, provider_reference }) =>
          code === 'refund_declined' && refused && !refused.has(provider_reference ?? ''),
      )
      .filter(({ payment_id }) => {
        const charge = chargeOf.get(payment_id)
        const strange = charge?.refunds.some(
          ({ reference, status }) => reference === null || status === 'failed' || !ours.has(reference),
        )
        return !strange && !charge?.dispute
      })
      .map(({ id }) => `${id} was declined, and nothing stood against it`),
  ]
}

/** What an outage left behind is collected by nobody but an operator, and none is at work here. */
export function heldStaysHeld({ events, periods, payments, invoices }: Facts): string[] {
  return events
    .filter(({ type }) => type === 'invoice.held')
    .flatMap(({ subscription_id, data }) => {
      const held = periods.find((one) => one.subscription_id === subscription_id && one.k === data['period'])
      const invoice = invoices.find(({ id }) => id === held?.invoice_id)
      const tried = payments.some(({ invoice_id }) => invoice_id === invoice?.id)
      return invoice && (tried || invoice.due_at !== null)
        ? [`${invoice.id} was held, and is collected all the same`]
        : []
    })
}
