import { sql } from 'kysely'
import { enqueue } from '../../platform/queue/queue.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { eventInsert, insertEvents, type NewEvent } from '../events/event-rows.ts'
import { nextDunning } from '../invoices/dunning.ts'
import type { InvoiceStatus } from '../invoices/invoice.ts'
import {
  closeInvoice,
  listOwed,
  noteFirstFailure,
  paidUpdate,
  scheduleDunning,
} from '../invoices/invoice-rows.ts'
import { postingCtes, postTransfers } from '../ledger/ledger-rows.ts'
import type { Currency } from '../money.ts'
import { clearContradictions, raiseContradiction } from '../payments/contradiction.ts'
import { lookupAgainAfterMs, nextCheck } from '../payments/doubt.ts'
import { deleteNextActions, insertNextAction } from '../payments/next-action-rows.ts'
import type { Attempt, FailureCode, PaymentOutcome } from '../payments/payment.ts'
import { dropMethod, keptUpdate, retireMethods, wakeCards } from '../payments/payment-method-rows.ts'
import {
  markAwaiting,
  markFailed,
  markSucceeded,
  markUnknown,
  markUnsent,
  succeededUpdate,
} from '../payments/payment-rows.ts'
import type { Card } from '../providers/port.ts'
import { insertRefund } from '../refunds/refund-rows.ts'
import { endSubscription } from '../subscriptions/end-subscription.ts'
import { afterFailure, type SubscriptionStatus, statusAfterPaid } from '../subscriptions/subscription.ts'
import { lockSubscriptionsOf } from '../subscriptions/subscription-rows.ts'

/** An attempt and what became of it. `fresh`: nothing had been sent for it before. */
export type Settling = {
  readonly attempt: Attempt
  readonly outcome: PaymentOutcome
  readonly fresh: boolean
}

/** Records outcomes, each once, with everything that follows from it. Many are recorded in one transaction. */
export async function settlePayments(app: BillingApp, settlings: readonly Settling[]): Promise<void> {
  const now = app.clock()
  for (const settling of settlings) {
    const { outcome } = settling
    if (outcome.kind === 'unknown' || outcome.kind === 'not_sent') await recordDoubt(app, settling, now)
    else if (outcome.kind === 'awaiting') await recordAwaiting(app, settling.attempt, outcome, now)
  }
  let rest = settlings
    .map(({ attempt: { paymentId }, outcome }) => ({ paymentId, outcome }))
    .filter(isDecided)
  const subscriptionOf = new Map(settlings.map(({ attempt }) => [attempt.paymentId, attempt.subscriptionId]))
  while (rest.length > 0) {
    // One outcome per subscription at a time: the second depends on where the first leaves it.
    const seen = new Set<string | undefined>()
    const together = rest.filter(({ paymentId }) => {
      const subscriptionId = subscriptionOf.get(paymentId)
      if (seen.has(subscriptionId)) return false
      seen.add(subscriptionId)
      return true
    })
    rest = rest.filter((one) => !together.includes(one))
    await app.db.transaction().execute(async (tx) => {
      await app.fence(tx)
      await settleDecided(app, tx, together, now)
    })
  }
}

type Decided = {
  readonly paymentId: string
  readonly outcome: Extract<PaymentOutcome, { kind: 'paid' | 'failed' }>
}

function isDecided(one: { paymentId: string; outcome: PaymentOutcome }): one is Decided {
  return one.outcome.kind === 'paid' || one.outcome.kind === 'failed'
}

/** No answer, or nothing sent: the attempt waits, and its next look is set. */
async function recordDoubt(app: BillingApp, { attempt, outcome, fresh }: Settling, now: Date): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    await app.fence(tx)
    if (outcome.kind === 'not_sent' && fresh) {
      return markUnsent(tx, attempt.paymentId, lookupAgainAfterMs(attempt.lookupCount + 1))
    }
    if (outcome.kind === 'unknown' && outcome.alarm) {
      await raiseContradiction(tx, outcome.alarm, attempt.paymentId, now)
    }
    const isNew = await markUnknown(tx, attempt.paymentId, {
      nextLookupAfterMs: lookupAgainAfterMs(attempt.lookupCount),
      unanswered: !(outcome.kind === 'unknown' && outcome.answered),
      lookupBy: nextCheck(
        attempt.sentAt ?? now,
        now,
        app.providers.named(attempt.provider).guards.keyWindowMs,
      ),
    })
    if (isNew) await insertEvents(tx, now, [eventOf('payment.unknown', attempt)])
  })
}

/**
 * The customer has to confirm it: what they need for that is kept, and a renewal is past due meanwhile. They have until
 * the provider gives it up or dunning takes its next step, whichever comes first; then it is ended there.
 */
async function recordAwaiting(
  app: BillingApp,
  { paymentId, lookupCount }: Attempt,
  { providerId, nextAction }: Extract<PaymentOutcome, { kind: 'awaiting' }>,
  now: Date,
): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    await app.fence(tx)
    await lockSubscriptionsOf(tx, [paymentId])
    const [locked] = await readLockedPayments(tx, [paymentId])
    if (!locked || !isOpen(locked)) return
    const dunned = isDunned(locked)
    const firstFailedAt = locked.firstFailedAt ?? now
    const step = dunned
      ? nextDunning({ firstFailedAt, timeZone: locked.timeZone, hard: false }, now, app.terms.dunningDays)
      : null
    const until = step && step.at < nextAction.expiresAt ? step.at : nextAction.expiresAt
    const isNew = await insertNextAction(tx, app.vault, locked, nextAction, until)
    await markAwaiting(tx, paymentId, {
      providerId,
      nextLookupAfterMs: lookupAgainAfterMs(lookupCount + 1),
      lookupBy: isNew ? until : (locked.awaitedUntil ?? until),
    })
    if (!isNew) return
    const events: NewEvent[] = [eventOf('payment.action_required', locked)]
    if (dunned) {
      await noteFirstFailure(tx, locked.invoiceId, firstFailedAt)
      if (locked.status !== 'past_due') {
        await updateSubscription(tx, locked.subscriptionId, 'past_due', null)
        events.push(eventOf('subscription.past_due', locked))
      }
    }
    await insertEvents(tx, now, events)
  })
}

function isOpen({ paymentStatus }: LockedPayment): boolean {
  return paymentStatus === 'sending' || paymentStatus === 'unknown'
}

/** Whether a failure of it leads to further tries: it begins nothing, was not ending anyway, and is no operator's. */
function isDunned({ invoiceStatus, held, begins, status }: LockedPayment): boolean {
  const isEnding = status === 'canceling' || status === 'canceled'
  return invoiceStatus === 'open' && !held && !begins && !isEnding
}

/** Everything an outcome depends on, read under the lock of its subscription. */
type LockedPayment = {
  readonly paymentId: string
  readonly paymentStatus: 'sending' | 'unknown' | 'succeeded' | 'failed'
  /** Until when its customer may confirm it. */
  readonly awaitedUntil: Date | null
  readonly methodId: string
  readonly methodPending: boolean
  /** Which card it is can already be shown. */
  readonly methodDescribed: boolean
  readonly amount: bigint
  readonly currency: Currency
  readonly invoiceId: string
  readonly invoiceStatus: InvoiceStatus
  /** Held invoices are an operator's business: their failures start no dunning. */
  readonly held: boolean
  readonly firstFailedAt: Date | null
  readonly dunning: 'retry' | 'give_up' | null
  readonly subscriptionId: string
  readonly accountId: string
  readonly status: SubscriptionStatus
  readonly begins: boolean
  readonly ownMethodId: string | null
  readonly timeZone: string
  readonly owesMore: boolean
}

/** The step inside: locks, reads where everything stands, and writes what follows. */
export async function settleDecided(
  app: BillingApp,
  tx: BillingTx,
  decided: readonly Decided[],
  now: Date,
): Promise<void> {
  const ids = decided.map(({ paymentId }) => paymentId)
  await lockSubscriptionsOf(tx, ids)
  const standings = new Map((await readLockedPayments(tx, ids)).map((one) => [one.paymentId, one]))

  const inDoubt = [...standings.values()].filter(({ paymentStatus }) => paymentStatus === 'unknown')
  await wakeCards(
    tx,
    inDoubt.map((one) => one.subscriptionId),
  )
  await clearContradictions(
    tx,
    inDoubt.map((one) => one.paymentId),
  )
  await deleteNextActions(
    tx,
    inDoubt.filter(({ awaitedUntil }) => awaitedUntil !== null).map((one) => one.paymentId),
  )

  const paid: Paid[] = []
  for (const { paymentId, outcome } of decided) {
    const locked = standings.get(paymentId)
    if (!locked || locked.paymentStatus === 'succeeded') continue
    if (outcome.kind === 'failed') {
      if (isOpen(locked)) await settleFailed(app, tx, locked, outcome.code, now)
    } else if (isOpen(locked) && locked.invoiceStatus === 'open') {
      paid.push({ locked, providerId: outcome.providerId, card: outcome.card })
    } else {
      await settleUnmatched(tx, locked, outcome.providerId, now)
    }
  }
  await settlePaid(tx, paid, now)
}

type Paid = { readonly locked: LockedPayment; readonly providerId: string; readonly card: Card | null }

async function readLockedPayments(tx: BillingTx, paymentIds: readonly string[]): Promise<LockedPayment[]> {
  const found = await sql<LockedPayment>`
    select p.id as "paymentId", p.status as "paymentStatus", p.payment_method_id as "methodId",
      a.expires_at as "awaitedUntil",
      m.state = 'pending' as "methodPending", m.last4 is not null as "methodDescribed", p.amount, p.currency,
      i.id as "invoiceId", i.status as "invoiceStatus", i.hold is not null as held, i.first_failed_at as "firstFailedAt", i.dunning,
      s.id as "subscriptionId", s.account_id as "accountId", s.status, s.payment_method_id as "ownMethodId",
      s.last_k = 0 and s.trial_ends_at is null as begins,
      s.time_zone as "timeZone",
      s.status = 'past_due' and exists (
        select from billing.invoice o
        where o.subscription_id = s.id and o.id <> i.id and o.status = 'open' and o.first_failed_at is not null
      ) as "owesMore"
    from billing.payment p
    join billing.invoice i on i.id = p.invoice_id
    join billing.subscription s on s.id = p.subscription_id
    join billing.payment_method m on m.id = p.payment_method_id
    left join billing.next_action a on a.payment_id = p.id
    where p.id = any (${[...paymentIds]})`.execute(tx)
  return found.rows
}

/** Payment, invoice, card, ledger, subscription and events of many, in one statement. */
async function settlePaid(tx: BillingTx, paid: readonly Paid[], now: Date): Promise<void> {
  if (paid.length === 0) return
  const moves = paid.map(({ locked }) => ({
    locked,
    status: statusAfterPaid(locked.status, locked.owesMore),
    // Only an offered card takes the place of another; one that was replaced while it paid does not come back.
    newCard: locked.methodPending && locked.methodId !== locked.ownMethodId && locked.status !== 'canceled',
  }))
  const moved = moves.filter(({ locked, status, newCard }) => newCard || status !== locked.status)
  const taken = paid.map(({ locked, providerId }) => ({
    paymentId: locked.paymentId,
    providerId,
    unmatched: false,
  }))
  const kept = paid
    .filter(({ locked, card }) => locked.methodPending || (card && !locked.methodDescribed))
    .map(({ locked, card }) => ({
      methodId: locked.methodId,
      card: locked.methodDescribed ? null : card,
    }))
  const transfers = paid.map(({ locked }) => ({
    cause: `payment:${locked.paymentId}`,
    accountId: locked.accountId,
    amount: { minor: locked.amount, currency: locked.currency },
    from: 'revenue' as const,
    to: 'provider' as const,
  }))
  await sql`
    with taken as (${succeededUpdate(now, taken)}),
    invoiced as (${paidUpdate(
      now,
      paid.map(({ locked }) => locked.invoiceId),
    )}),
    kept as (${keptUpdate(kept)}),
    ${postingCtes(now, transfers)},
    noted as (${eventInsert(now, moves.flatMap(paidEvents))})
    -- A renewal that is paid leaves its subscription as it is; a first, recovering or newly carded one moves.
    update billing.subscription s
    set status = g.status, payment_method_id = coalesce(g.method_id, s.payment_method_id)
    from unnest(
      ${moved.map(({ locked }) => locked.subscriptionId)}::text[],
      ${moved.map(({ status }) => status)}::text[],
      ${moved.map(({ locked, newCard }) => (newCard ? locked.methodId : null))}::text[]
    ) as g (id, status, method_id)
    where s.id = g.id`.execute(tx)
  const replaced = moves.filter(({ newCard }) => newCard).map(({ locked }) => locked.ownMethodId)
  await retireMethods(
    tx,
    replaced.filter((id) => id !== null),
    now,
  )
  for (const { locked, newCard } of moves) if (newCard) await reviveRetries(tx, locked.subscriptionId, now)
}

function paidEvents(move: {
  locked: LockedPayment
  status: SubscriptionStatus
  newCard: boolean
}): NewEvent[] {
  const { locked, status, newCard } = move
  const arrived = locked.status === 'incomplete' ? 'subscription.activated' : 'subscription.recovered'
  return [
    eventOf('invoice.paid', locked),
    ...(newCard ? [eventOf('payment_method.changed', locked)] : []),
    ...(status !== locked.status ? [eventOf(arrived, locked)] : []),
  ]
}

async function updateSubscription(
  tx: BillingTx,
  subscriptionId: string,
  status: SubscriptionStatus,
  methodId: string | null,
): Promise<void> {
  await tx
    .updateTable('billing.subscription')
    .set({ status, ...(methodId !== null && { payment_method_id: methodId }) })
    .where('id', '=', subscriptionId)
    .execute()
}

/** What else is owed was given up with the old card; the new one has not been tried. */
async function reviveRetries(tx: BillingTx, subscriptionId: string, now: Date): Promise<void> {
  await tx
    .updateTable('billing.invoice')
    .set({ dunning: 'retry', due_at: now })
    .where('subscription_id', '=', subscriptionId)
    .where('status', '=', 'open')
    .where('due_at', 'is not', null)
    .execute()
}

async function settleFailed(
  app: BillingApp,
  tx: BillingTx,
  locked: LockedPayment,
  code: FailureCode,
  now: Date,
): Promise<void> {
  const { paymentId, invoiceId, subscriptionId } = locked
  await markFailed(tx, now, paymentId, code)
  const events: NewEvent[] = [eventOf('payment.failed', locked, code)]
  const ownCard = locked.methodId === locked.ownMethodId
  if (locked.methodPending) await dropMethod(tx, locked.methodId, code, now)
  if (locked.methodPending && !ownCard) events.push(eventOf('payment_method.dropped', locked, code))

  if (locked.invoiceStatus === 'open' && !locked.held) {
    // One that was ended so that the next try can begin fails just before that.
    const failedAt = locked.awaitedUntil ? earlier(new Date(locked.awaitedUntil.getTime() - 1), now) : now
    const verdict = afterFailure({ ...locked, code, ownCard }, failedAt, app.terms.dunningDays)
    if (verdict.kind === 'ends') {
      events.push(eventOf(verdict.invoice === 'void' ? 'invoice.voided' : 'invoice.uncollectible', locked))
      for (const owed of await closeOwed(tx, subscriptionId, invoiceId, verdict.invoice))
        events.push({ ...eventOf('invoice.uncollectible', locked), data: { invoice_id: owed } })
      await insertEvents(tx, now, events)
      await endSubscription(tx, subscriptionId, { code: verdict.cancelCode, at: now, now })
      return
    }
    await scheduleDunning(tx, invoiceId, verdict.firstFailedAt, verdict.step)
    if (locked.status !== 'past_due') {
      await updateSubscription(tx, subscriptionId, 'past_due', null)
      events.push(eventOf('subscription.past_due', locked))
    }
  }
  await insertEvents(tx, now, events)
}

function earlier(one: Date, other: Date): Date {
  return one < other ? one : other
}

/** Closes the invoice that failed and with it whatever else is owed; says which others those were. */
async function closeOwed(
  tx: BillingTx,
  subscriptionId: string,
  invoiceId: string,
  status: 'void' | 'uncollectible',
): Promise<string[]> {
  await closeInvoice(tx, invoiceId, status)
  const others = (await listOwed(tx, subscriptionId)).map((owed) => owed.invoiceId)
  for (const other of others) await closeInvoice(tx, other, 'uncollectible')
  return others
}

/** Money that pays for nothing: the invoice was withdrawn, or the attempt had been given up. It goes back in full. */
async function settleUnmatched(
  tx: BillingTx,
  locked: LockedPayment,
  providerId: string,
  now: Date,
): Promise<void> {
  const { paymentId, invoiceId, accountId } = locked
  const amount = { minor: locked.amount, currency: locked.currency }
  await markSucceeded(tx, now, [{ paymentId, providerId, unmatched: true }])
  await postTransfers(tx, now, [
    { cause: `payment:${paymentId}`, accountId, amount, from: 'unclaimed', to: 'provider' },
  ])
  const refund = {
    paymentId,
    invoiceId,
    accountId,
    amount,
    reason: null,
    note: null,
    origin: 'unmatched',
  } as const
  const refundId = await insertRefund(tx, now, refund, 0)
  if (locked.methodPending) await dropMethod(tx, locked.methodId, 'withdrawn', now)
  await insertEvents(tx, now, [eventOf('payment.found_later', locked)])
  await enqueue(tx, 'billing.send-refund', { refundId })
}

function eventOf(
  type: NewEvent['type'],
  about: Pick<LockedPayment, 'paymentId' | 'invoiceId' | 'subscriptionId' | 'accountId'>,
  code?: string,
): NewEvent {
  return {
    type,
    accountId: about.accountId,
    subscriptionId: about.subscriptionId,
    data: {
      invoice_id: about.invoiceId,
      payment_id: about.paymentId,
      ...(code !== undefined && { code }),
    },
  }
}
