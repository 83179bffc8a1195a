import type { Finished, Intent } from '../../platform/idempotency.ts'
import { answerWithin, nobodyWaits } from '../answer-within.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { insertEvents } from '../events/event-rows.ts'
import { findOldestFailed } from '../invoices/dunning-rows.ts'
import { chargeOrLook, readyMethod } from '../payments/charge-payment.ts'
import { clearLostInRestore } from '../payments/lost-in-restore-alarm.ts'
import type { Attempt } from '../payments/payment.ts'
import {
  describeMethod,
  dropMethod,
  findMethod,
  isOfferedBefore,
  keepMethod,
  leaseLostMethod,
  leaseLostMethods,
  retireMethods,
  type StoredMethod,
  setMethodLookup,
} from '../payments/payment-method-rows.ts'
import { findOpenPayment, sendingLeaseMs } from '../payments/payment-rows.ts'
import { findPlan, termsOfPlan } from '../plans/plan-rows.ts'
import type { Card } from '../providers/port.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import {
  getSubscription,
  lockSubscription,
  setPaymentMethod,
  setTerms,
} from '../subscriptions/subscription-rows.ts'
import { keepBusy } from '../sweeps/keep-busy.ts'
import { workIsolated } from '../sweeps/sweep-failures.ts'
import type { PlanTerms } from '../tables.ts'
import { openAttempt, wakeUnsent, withdrawUnsent } from './attempt-rows.ts'
import { chargeRefusal } from './charge-refusal.ts'
import { paymentEvent } from './payment-event.ts'
import { endAwaitedOf, resolveOpenPayment } from './resolve-open-payments.ts'
import { settlePayments } from './settle-payments.ts'

/**
 * An offered payment method. Only the request that stored it holds its lease, and may ask the provider about it without one.
 * The kinds are stored with idempotency keys and read by processes of other releases: those of old, `card` and `trial_card`, stay.
 */
export type OfferIntent<K extends string> = Intent & { readonly kind: K; readonly leased?: true }

/**
 * Puts an offered payment method to use: on a trial for its end, on a running subscription in place of the old one, on a past due
 * one by charging what is owed with it first. Safe to repeat; one that was turned down is refused for its reason.
 */
export async function useMethod(
  app: BillingApp,
  { id: methodId, leased }: OfferIntent<string>,
): Promise<Finished<Subscription>> {
  await answerWithin(app.terms, ({ stays }) =>
    leased ? advanceMethod(app, methodId, stays) : resumeMethod(app, methodId),
  )
  const method = (await findMethod(app.db, methodId))!
  if (method.state === 'dropped') throw chargeRefusal(method.failure)
  const result = await getSubscription(app.db, method.subscriptionId)
  return { state: method.state === 'kept' ? 'done' : 'pending', result }
}

/** Goes on with payment methods whose request is gone. */
export async function resumePaymentMethods(app: BillingApp): Promise<number> {
  return keepBusy({
    most: 16,
    stopping: app.stopping,
    claim: (limit) => leaseLostMethods(app.db, sendingLeaseMs(app.terms), limit),
    work: (methodId) => workIsolated(app, 'payment_methods', methodId, () => advanceMethod(app, methodId)),
  })
}

/**
 * For a repeat: while another asks the provider about it, a key for one use may be spent at this very moment, and asking too
 * would have it refused. What comes after that may be done by any number at once.
 */
async function resumeMethod(app: BillingApp, methodId: string): Promise<void> {
  const method = await findMethod(app.db, methodId)
  const isMine =
    !method || isChecked(method) || (await leaseLostMethod(app.db, methodId, sendingLeaseMs(app.terms)))
  if (isMine) await advanceMethod(app, methodId)
}

/** The provider has said what it is. */
function isChecked({ exchanged, described }: StoredMethod): boolean {
  return exchanged && described
}

/** `mayGiveUp`: whether somebody is there to be told that the provider cannot be reached. */
async function advanceMethod(
  app: BillingApp,
  methodId: string,
  mayGiveUp: () => boolean = nobodyWaits,
): Promise<void> {
  const method = await findMethod(app.db, methodId)
  if (method?.state !== 'pending') return
  const underWay = await findOpenPayment(app.db, methodId)
  if (underWay) return resolveOpenPayment(app, underWay)

  const checked = await checkMethod(app, method)
  if (checked.kind === 'failed') {
    if (checked.code === 'provider_unavailable') {
      // A process that is about to end asked nobody, which says nothing about the payment method: it is anybody's.
      if (app.stopping?.aborted) return lookAgain(app, methodId, 0)
      if (!mayGiveUp()) return lookAgain(app, methodId, retryAwayMs)
    }
    return drop(app, methodId, checked.code)
  }

  await endAwaitedOf(app, method.subscriptionId)
  const attempt = await app.db.transaction().execute(async (tx) => {
    return applyMethod(tx, app.clock(), method, checked.card, sendingLeaseMs(app.terms))
  })
  if (!attempt) return
  const answer = await chargeOrLook(app, attempt)
  const outcome =
    answer.kind === 'not_sent' && !app.stopping?.aborted && mayGiveUp()
      ? ({ kind: 'failed', code: 'provider_unavailable' } as const)
      : answer
  await settlePayments(app, [{ attempt, outcome, fresh: true }])
}

// A provider that could not be asked about a payment method is asked again so soon.
const retryAwayMs = 30_000

async function lookAgain(app: BillingApp, methodId: string, afterMs: number): Promise<void> {
  await app.db.transaction().execute((tx) => setMethodLookup(tx, methodId, afterMs))
}

type Checked = { kind: 'usable'; card: Card | null } | { kind: 'failed'; code: string }

/** A payment method that nobody charges now must at least be one: the provider says so, or it is not taken. */
async function checkMethod(app: BillingApp, method: StoredMethod): Promise<Checked> {
  if (isChecked(method)) return { kind: 'usable', card: null }
  const ready = await readyMethod(app, method)
  if (ready.kind === 'not_sent') return { kind: 'failed', code: 'provider_unavailable' }
  if (ready.kind === 'failed') return ready
  if (ready.card) return { kind: 'usable', card: ready.card }

  const described = await app.providers.named(method.provider).describe(ready.billingKey)
  if (described.kind === 'valid') return { kind: 'usable', card: described.card }
  return {
    kind: 'failed',
    code: described.kind === 'invalid' ? 'billing_key_invalid' : 'provider_unavailable',
  }
}

/** Under the subscription's lock. Returns the attempt that must be charged before the payment method is kept, if any. */
async function applyMethod(
  tx: BillingTx,
  now: Date,
  method: StoredMethod,
  card: Card | null,
  leaseMs: number,
): Promise<Attempt | undefined> {
  const { methodId } = method
  const subscription = (await lockSubscription(tx, method.subscriptionId))!
  // Read again under the lock: a twin of this request may have used or dropped it meanwhile.
  // And it may hold a billing key by now, where a key for one use was offered.
  const stored = await findMethod(tx, methodId)
  if (stored?.state !== 'pending') return undefined
  const owes = subscription.status === 'past_due' && method.purpose !== 'trial'
  // Payments come before payment methods in the order of locks.
  const owed = owes ? await freeOldestFailed(tx, subscription.subscriptionId, now) : undefined
  if (!owes) await wakeUnsent(tx, subscription)
  if (card) await describeMethod(tx, methodId, card)
  if (subscription.status === 'canceled') {
    await dropMethod(tx, methodId, 'already_canceled', now)
    return undefined
  }
  if (method.purpose === 'trial') {
    if (subscription.status === 'trialing' && subscription.methodId === null) {
      await convertTrial(tx, subscription, method, now)
    } else {
      await dropMethod(tx, methodId, 'subscription_exists', now)
    }
    return undefined
  }
  if (owes) return chargeOwed(tx, now, stored, owed, leaseMs)
  await replaceMethod(tx, subscription, methodId, now)
  return undefined
}

/**
 * The oldest invoice owed, as far as it may be charged at once. While a charge of it is on its way or in doubt it may not; one
 * that never left us, because its provider cannot be asked, makes way.
 */
async function freeOldestFailed(
  tx: BillingTx,
  subscriptionId: string,
  now: Date,
): Promise<string | undefined> {
  const owed = await findOldestFailed(tx, subscriptionId)
  if (!owed?.inDoubt) return owed?.invoiceId
  const withdrawn = await withdrawUnsent(tx, owed.invoiceId, now)
  if (!withdrawn) return undefined
  const events = [paymentEvent('payment.failed', withdrawn, 'withdrawn')]
  if (withdrawn.methodPending) {
    // It was offered before this one, and whoever offered it is told that it was not charged.
    const code = 'provider_error'
    await dropMethod(tx, withdrawn.methodId, code, now)
    events.push(paymentEvent('payment_method.dropped', withdrawn, code))
  }
  await insertEvents(tx, now, events)
  return owed.invoiceId
}

/** The trial's end stays, and with it the anchor; the plan may be another one, on the terms that were agreed on. */
async function convertTrial(
  tx: BillingTx,
  subscription: Subscription,
  method: StoredMethod,
  now: Date,
): Promise<void> {
  const { methodId } = method
  const terms = await findOtherTerms(tx, subscription, method)
  await setPaymentMethod(tx, subscription.subscriptionId, methodId)
  if (terms) await setTerms(tx, subscription.subscriptionId, terms)
  await keepMethod(tx, methodId)
  await noteChange(tx, subscription, methodId, now, terms)
}

async function findOtherTerms(
  tx: BillingTx,
  subscription: Subscription,
  { planId, planTerms }: StoredMethod,
): Promise<PlanTerms | undefined> {
  if (planId === null || planId === subscription.planId) return undefined
  if (planTerms) return planTerms
  // Offered before its terms were kept with it.
  const plan = await findPlan(tx, planId)
  return plan && termsOfPlan(plan)
}

async function replaceMethod(
  tx: BillingTx,
  subscription: Subscription,
  methodId: string,
  now: Date,
): Promise<void> {
  const { methodId: present } = subscription
  if (present !== null && (await isOfferedBefore(tx, methodId, present))) {
    // It waited for its provider while a newer one was put to use. That is as if it had been replaced by now.
    await keepMethod(tx, methodId)
    return retireMethods(tx, [methodId], now)
  }
  if (present !== null) await retireMethods(tx, [present], now)
  await setPaymentMethod(tx, subscription.subscriptionId, methodId)
  await keepMethod(tx, methodId)
  await noteChange(tx, subscription, methodId, now)
}

async function noteChange(
  tx: BillingTx,
  { accountId, subscriptionId }: Subscription,
  methodId: string,
  now: Date,
  terms?: PlanTerms,
): Promise<void> {
  const data = { payment_method_id: methodId, ...terms }
  await insertEvents(tx, now, [{ type: 'payment_method.changed', accountId, subscriptionId, data }])
  await clearLostInRestore(tx, subscriptionId)
}

/** What is owed is charged with the new payment method. While another charge of it is in doubt, this one waits. */
async function chargeOwed(
  tx: BillingTx,
  now: Date,
  method: StoredMethod,
  owed: string | undefined,
  leaseMs: number,
): Promise<Attempt | undefined> {
  if (owed === undefined) {
    await setMethodLookup(tx, method.methodId, retryDoubtMs)
    return undefined
  }
  await setMethodLookup(tx, method.methodId, null)
  // Whoever comes here has been told whose it is.
  return openAttempt(tx, now, owed, { ...method, offer: null }, leaseMs)
}

// The end of the doubt wakes the payment method; this is for the case that nobody does.
const retryDoubtMs = 60_000

async function drop(app: BillingApp, methodId: string, code: string): Promise<void> {
  await app.db.transaction().execute((tx) => dropMethod(tx, methodId, code, app.clock()))
}
