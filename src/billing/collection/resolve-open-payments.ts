import type { BillingApp } from '../app.ts'
import { chargePayment, resendCharge } from '../payments/charge-payment.ts'
import {
  endsLongSilence,
  lookupAgainAfterMs,
  nextLookupBy,
  verdictOfNotFound,
  verdictOfResend,
} from '../payments/doubt.ts'
import { findNextAction } from '../payments/next-action-rows.ts'
import {
  type Attempt,
  isUnproven,
  outcomeOfCharge,
  outcomeOfLookup,
  outcomeOfResend,
  type PaymentOutcome,
} from '../payments/payment.ts'
import {
  isInvoiceOpen,
  leaseAttempts,
  markSent,
  markUnknown,
  sendingLeaseMs,
  type Waiting,
} from '../payments/payment-rows.ts'
import type { PaymentLookup } from '../providers/port.ts'
import { lockSubscription } from '../subscriptions/subscription-rows.ts'
import { keepBusy } from '../sweeps/keep-busy.ts'
import { workIsolated } from '../sweeps/sweep-failures.ts'
import { wakeUnsettled } from '../unsettled-rows.ts'
import { setUnsentMethod } from './attempt-rows.ts'
import type { UnsentRenewal } from './held-invoice-rows.ts'
import { findOvertaken, holdMissed } from './hold-missed.ts'
import { settleTaken } from './settle-from-provider.ts'
import { settlePayments } from './settle-payments.ts'
import { untouched } from './taken-payment-rows.ts'

const mostInHand = 32

/** Resolves attempts that are nobody's: their answer never came, or their sender died. Says how many it was. */
export async function resolveOpenPayments(app: BillingApp): Promise<number> {
  return keepBusy({
    most: mostInHand,
    stopping: app.stopping,
    claim: (limit) =>
      leaseAttempts(app.db, { dueBy: app.clock(), limit, sent: true }, sendingLeaseMs(app.terms)),
    work: (attempt) => workIsolated(app, 'payments', attempt.paymentId, () => resolve(app, attempt)),
  })
}

/**
 * Sends attempts of which nothing has left us so far, because the provider could not be reached or charging was
 * stopped. While that is still so at a provider, a few of them find it out and the rest is left alone.
 */
export async function sendUnsentPayments(app: BillingApp): Promise<number> {
  const heldUp = new Set<string>()
  return keepBusy({
    most: mostInHand,
    stopping: app.stopping,
    claim: (limit) =>
      leaseAttempts(
        app.db,
        { dueBy: app.clock(), limit, sent: false, notAt: [...heldUp] },
        sendingLeaseMs(app.terms),
      ),
    work: (attempt) =>
      workIsolated(app, 'payments', attempt.paymentId, async () => {
        const { heldUpAt } = await sendUnsent(app, attempt, app.clock())
        if (heldUpAt !== null) heldUp.add(heldUpAt)
      }),
  })
}

/** The same for one attempt, if it is open and nobody is at it. */
export async function resolveOpenPayment(app: BillingApp, paymentId: string): Promise<void> {
  const [attempt] = await leaseAttempts(app.db, { paymentId }, sendingLeaseMs(app.terms))
  if (attempt) await resolve(app, attempt)
}

/**
 * Finds out what became of an attempt before anything else may touch its invoice. It is sent again only under the same
 * key, only while the provider still knows that key, and never for an invoice that was withdrawn.
 */
async function resolve(app: BillingApp, attempt: Attempt): Promise<void> {
  const now = app.clock()
  if (attempt.sentAt === null) {
    await sendUnsent(app, attempt, now)
    return
  }

  const provider = app.providers.named(attempt.provider)
  const lookup = await provider.findPayment(attempt.reference, attempt.providerId)
  if (lookup.kind !== 'none') {
    const outcome = outcomeOfLookup(lookup, attempt)
    const isOver =
      !attempt.invoiceOpen || (attempt.awaitedUntil !== null && attempt.awaitedUntil <= app.clock())
    return outcome.kind === 'awaiting' && isOver
      ? endAwaited(app, attempt, outcome.providerId)
      : settleFound(app, attempt, lookup)
  }

  const doubt = {
    sentAt: attempt.sentAt,
    notFoundCount: attempt.notFoundCount,
    notFoundSince: attempt.notFoundSince,
  }
  const verdict = verdictOfNotFound(doubt, now, provider.guards.keyWindowMs)
  switch (verdict.kind) {
    case 'never_arrived':
      return settle(app, attempt, { kind: 'failed', code: 'never_arrived' })
    case 'wait':
      return wait(app, attempt, {
        lookupBy: verdict.lookupBy,
        none: { count: verdict.notFoundCount, since: verdict.notFoundSince },
      })
    case 'resend':
      // Who asks a provider may wait for long, and its invoice may be withdrawn meanwhile.
      if (attempt.invoiceOpen && (await isInvoiceOpen(app.db, attempt.invoiceId))) return resend(app, attempt)
      return wait(app, attempt, { lookupBy: nextLookupBy(attempt.sentAt, now, provider.guards.keyWindowMs) })
  }
}

/**
 * Has the provider end a payment that waits for its customer, so that something else may be tried. It has failed once the
 * provider says so, and not before: the customer may confirm it at this very moment, and then it is paid.
 */
async function endAwaited(app: BillingApp, attempt: Attempt, providerId: string): Promise<void> {
  const provider = app.providers.named(attempt.provider)
  const { kind } = await provider.cancelPayment(attempt.reference, providerId)
  if (kind === 'canceled') {
    const code = attempt.invoiceOpen ? 'authentication_required' : 'withdrawn'
    return settle(app, attempt, { kind: 'failed', code })
  }
  if (kind !== 'paid') return settle(app, attempt, { kind: 'unknown' })
  const lookup = await provider.findPayment(attempt.reference, providerId)
  if (outcomeOfLookup(lookup, attempt).kind !== 'paid') return settle(app, attempt, { kind: 'unknown' })
  await settleFound(app, attempt, lookup)
}

/** Ends what a subscription's customer is still awaited for, because another payment method is about to pay instead. */
export async function endAwaitedOf(app: BillingApp, subscriptionId: string): Promise<void> {
  const awaited = await findNextAction(app.db, subscriptionId)
  if (!awaited) return
  const [attempt] = await leaseAttempts(app.db, { paymentId: awaited.paymentId }, sendingLeaseMs(app.terms))
  if (attempt?.providerId) await endAwaited(app, attempt, attempt.providerId)
}

/** The provider that could not be asked, so that still nothing has left us; null: it could, or somebody else is at it. */
type Sent = { readonly heldUpAt: string | null }

const passed: Sent = { heldUpAt: null }

/**
 * Nothing has left us so far: say that it may from now on, then send. Nothing is sent for an invoice that was withdrawn, but
 * what a lost database may have sent for it is looked up until it can no longer arrive.
 */
async function sendUnsent(app: BillingApp, leased: Attempt, now: Date): Promise<Sent> {
  if (!leased.invoiceOpen && !leased.maybeSentBefore) {
    await settle(app, leased, { kind: 'failed', code: 'withdrawn' })
    return passed
  }
  const attempt = leased.invoiceOpen ? await moveUnsent(app, leased) : leased
  if (!attempt) return passed
  const overtaken = attempt.invoiceOpen ? await findOvertaken(app, attempt, now) : undefined
  if (overtaken) return lookThenHold(app, attempt, overtaken, now)
  if (!(await markSent(app.db, attempt, now))) return passed
  const outcome: PaymentOutcome = attempt.invoiceOpen
    ? await chargePayment(app, attempt)
    : { kind: 'unknown' }
  await settlePayments(app, [{ attempt: { ...attempt, sentAt: now }, outcome, fresh: true }])
  return outcome.kind === 'not_sent' ? { heldUpAt: attempt.provider } : passed
}

/**
 * A charge that could not be sent waits with the payment method of its time, and the provider that holds that may never be
 * asked again. Once its customer has brought another, it is that one's to pay: under the same key, because it was never
 * used. What a lost database may have sent stays where it may be found. Undefined: somebody else has its lease by now.
 */
async function moveUnsent(app: BillingApp, attempt: Attempt): Promise<Attempt | undefined> {
  if (!attempt.replaced || attempt.maybeSentBefore) return attempt
  return app.db.transaction().execute(async (tx) => {
    const subscription = await lockSubscription(tx, attempt.subscriptionId)
    const own = subscription?.status === 'canceled' ? null : subscription?.methodId
    if (!own) return attempt
    const method = await setUnsentMethod(tx, attempt, own)
    return method && { ...attempt, provider: method.provider, method, replaced: false }
  })
}

/**
 * What the provider knows of it is settled. Nothing: it is held, at once or, where a database since lost may have sent it,
 * when that can no longer arrive.
 */
async function lookThenHold(
  app: BillingApp,
  attempt: Attempt,
  { forgottenUntil }: UnsentRenewal,
  now: Date,
): Promise<Sent> {
  const { findPayment, guards } = app.providers.named(attempt.provider)
  const lookup = await findPayment(attempt.reference)
  if (lookup.kind === 'found' || lookup.kind === 'mismatch') {
    if (await markSent(app.db, attempt, now)) await settleFound(app, { ...attempt, sentAt: now }, lookup)
    return passed
  }
  if (lookup.kind !== 'none') {
    await settlePayments(app, [{ attempt, outcome: { kind: 'not_sent' }, fresh: true }])
    return { heldUpAt: attempt.provider }
  }
  const doubt = forgottenUntil && { ...attempt, sentAt: forgottenUntil }
  const verdict = doubt && verdictOfNotFound(doubt, now, guards.keyWindowMs)
  if (verdict?.kind === 'resend')
    await wait(app, attempt, { lookupBy: nextLookupBy(doubt!.sentAt, now, guards.keyWindowMs) })
  else if (verdict?.kind === 'wait')
    await wait(app, attempt, {
      lookupBy: verdict.lookupBy,
      none: { count: verdict.notFoundCount, since: verdict.notFoundSince },
    })
  else await holdMissed(app, attempt)
  return passed
}

/**
 * Sends again under the same key. A "no" settles nothing by itself, because an earlier send may be running: it counts
 * once lookups have found nothing and it was the same "no" for long enough.
 */
async function resend(app: BillingApp, attempt: Attempt): Promise<void> {
  const answer = await resendCharge(app, attempt)
  if (!isUnproven(answer)) {
    const outcome = outcomeOfResend(answer, attempt)
    if (outcome.kind !== 'unknown') await noteAnswer(app, attempt)
    if (outcome.kind === 'paid') return settleRepeated(app, attempt, outcome)
    // The lookup before it was answered.
    return settle(app, attempt, outcome.kind === 'unknown' ? { ...outcome, answered: true } : outcome)
  }

  // The provider may keep a record of what it declined.
  const lookup = await app.providers
    .named(attempt.provider)
    .findPayment(attempt.reference, attempt.providerId)
  if (lookup.kind !== 'none') return settleFound(app, attempt, lookup)
  const { code } = answer
  const before = attempt.resendDeclines?.code === code ? attempt.resendDeclines : null
  const verdict = verdictOfResend(before, app.clock())
  if (verdict.kind === 'believe') return settle(app, attempt, outcomeOfCharge(answer, attempt))
  return wait(app, attempt, { lookupBy: verdict.lookupBy, resendDeclines: { ...verdict.declines, code } })
}

/** The answer may be the first one once more, so what has become of the money since is read by the provider's id. */
async function settleRepeated(
  app: BillingApp,
  attempt: Attempt,
  outcome: Extract<PaymentOutcome, { kind: 'paid' }>,
): Promise<void> {
  const { findPayment } = app.providers.named(attempt.provider)
  const lookup = await findPayment(attempt.reference, outcome.providerId)
  const isThere = outcomeOfLookup(lookup, attempt).kind === 'paid'
  await (isThere ? settleFound(app, attempt, lookup) : settle(app, attempt, outcome))
}

async function settleFound(app: BillingApp, attempt: Attempt, lookup: PaymentLookup): Promise<void> {
  const outcome = outcomeOfLookup(lookup, attempt)
  if (outcome.kind !== 'paid' || lookup.kind !== 'found') return settle(app, attempt, outcome)
  await settleTaken(app, { ...attempt, knew: untouched }, outcome, lookup.payment)
}

async function settle(app: BillingApp, attempt: Attempt, outcome: PaymentOutcome): Promise<void> {
  await settlePayments(app, [{ attempt, outcome, fresh: false }])
}

async function wait(
  app: BillingApp,
  attempt: Attempt,
  waiting: Omit<Waiting, 'nextLookupAfterMs' | 'unanswered'>,
): Promise<void> {
  const waits = {
    nextLookupAfterMs: lookupAgainAfterMs(attempt.lookupCount + 1),
    unanswered: false,
    ...waiting,
  }
  await app.db.transaction().execute((tx) => markUnknown(tx, attempt.paymentId, waits))
}

/** A charge that went unanswered for long is answered: others like it need not wait for their turn. */
async function noteAnswer(app: BillingApp, attempt: Attempt): Promise<void> {
  if (endsLongSilence(attempt.lookupCount)) await wakeUnsettled(app.db, 'sent', attempt.provider)
}
