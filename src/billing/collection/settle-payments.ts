import type { BillingApp } from '../app.ts'
import { insertEvents, type NewEvent } from '../events/event-rows.ts'
import { nextDunning } from '../invoices/dunning.ts'
import { noteFirstFailure } from '../invoices/dunning-rows.ts'
import { raiseContradiction } from '../payments/contradiction.ts'
import { lookupAgainAfterMs, nextLookupBy } from '../payments/doubt.ts'
import { insertNextAction } from '../payments/next-action-rows.ts'
import type { Attempt, DecidedOutcome, PaymentOutcome } from '../payments/payment.ts'
import { markAwaiting, markUnknown, markUnsent } from '../payments/payment-rows.ts'
import { lockSubscriptionsOf, setSubscriptionStatus } from '../subscriptions/subscription-rows.ts'
import { endGivenUp } from './end-given-up.ts'
import { isOpen, type LockedPayment, readLockedPayments } from './locked-payment-rows.ts'
import { paymentEvent } from './payment-event.ts'
import { settleDecided } from './settle-decided.ts'

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
    const { attempt, outcome } = settling
    if (outcome.kind === 'unknown' || outcome.kind === 'not_sent') await recordDoubt(app, settling, now)
    else if (outcome.kind === 'awaiting' && !(await recordAwaiting(app, attempt, outcome, now)))
      await endGivenUp(app, attempt, outcome.providerId)
  }
  let rest = settlings.filter(isDecided)
  while (rest.length > 0) {
    // One outcome per subscription at a time: the second depends on where the first leaves it.
    const seen = new Set<string>()
    const together = rest.filter(({ attempt: { subscriptionId } }) => {
      if (seen.has(subscriptionId)) return false
      seen.add(subscriptionId)
      return true
    })
    rest = rest.filter((one) => !together.includes(one))
    const decided = together.map(({ attempt: { paymentId }, outcome }) => ({ paymentId, outcome }))
    await app.db.transaction().execute(async (tx) => {
      await settleDecided(tx, now, decided, app.terms.dunningDays)
    })
  }
}

function isDecided(one: Settling): one is Settling & { readonly outcome: DecidedOutcome } {
  return one.outcome.kind === 'paid' || one.outcome.kind === 'failed'
}

/** No answer, or nothing sent: the attempt waits, and its next look is set. */
async function recordDoubt(app: BillingApp, { attempt, outcome, fresh }: Settling, now: Date): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    if (outcome.kind === 'not_sent' && fresh) {
      return markUnsent(tx, attempt, lookupAgainAfterMs(attempt.lookupCount + 1))
    }
    if (outcome.kind === 'unknown' && outcome.alarm) {
      await raiseContradiction(tx, outcome.alarm, attempt.paymentId, now)
    }
    const isNew = await markUnknown(tx, attempt.paymentId, {
      nextLookupAfterMs: lookupAgainAfterMs(attempt.lookupCount),
      unanswered: !(outcome.kind === 'unknown' && outcome.answered),
      lookupBy: nextLookupBy(
        attempt.sentAt ?? now,
        now,
        app.providers.named(attempt.provider).guards.keyWindowMs,
      ),
    })
    if (isNew) await insertEvents(tx, now, [paymentEvent('payment.unknown', attempt)])
  })
}

/**
 * The customer has to confirm it: what they need for that is kept, and a renewal is past due meanwhile. They have until
 * the provider gives it up or dunning takes its next step, whichever comes first; then it is ended there. False: the
 * attempt was given up meanwhile.
 */
async function recordAwaiting(
  app: BillingApp,
  { paymentId, lookupCount }: Attempt,
  { providerId, nextAction }: Extract<PaymentOutcome, { kind: 'awaiting' }>,
  now: Date,
): Promise<boolean> {
  return app.db.transaction().execute(async (tx) => {
    await lockSubscriptionsOf(tx, [paymentId])
    const [locked] = await readLockedPayments(tx, [paymentId])
    if (!locked || !isOpen(locked)) return false
    const dunned = isDunned(locked)
    const firstFailedAt = locked.firstFailedAt ?? now
    // An offered card that waits brings no retry of one that was declined for good.
    const hard = locked.dunning === 'give_up'
    const step = dunned
      ? nextDunning({ firstFailedAt, timeZone: locked.timeZone, hard }, now, app.terms.dunningDays)
      : null
    const until = step && step.at < nextAction.expiresAt ? step.at : nextAction.expiresAt
    const isNew = await insertNextAction(tx, app.vault, locked, nextAction, until)
    await markAwaiting(tx, paymentId, {
      providerId,
      nextLookupAfterMs: lookupAgainAfterMs(lookupCount + 1),
      lookupBy: isNew ? until : (locked.awaitedUntil ?? until),
    })
    if (!isNew) return true
    const events: NewEvent[] = [paymentEvent('payment.action_required', locked)]
    if (dunned) {
      await noteFirstFailure(tx, locked.invoiceId, firstFailedAt)
      if (locked.status !== 'past_due') {
        await setSubscriptionStatus(tx, locked.subscriptionId, 'past_due')
        events.push(paymentEvent('subscription.past_due', locked))
      }
    }
    await insertEvents(tx, now, events)
    return true
  })
}

/** Whether a failure of it leads to further tries: it begins nothing, was not ending anyway, and is no operator's. */
function isDunned({ invoiceStatus, held, begins, status }: LockedPayment): boolean {
  const isEnding = status === 'canceling' || status === 'canceled'
  return invoiceStatus === 'open' && !held && !begins && !isEnding
}
