import { newId } from '../../platform/id.ts'
import type { Finished, Intent } from '../../platform/idempotency.ts'
import type { Vault } from '../../platform/vault/vault.ts'
import {
  type Contact,
  ensureAccount,
  findContact,
  putContact,
  unerase,
  updateTimeZone,
} from '../accounts/account-rows.ts'
import { answerWithin } from '../answer-within.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, auditStatement, insertAudit, type NewAudit } from '../audit/audit-rows.ts'
import { chargeRefusal } from '../collection/charge-refusal.ts'
import { resolveOpenPayment } from '../collection/resolve-open-payments.ts'
import { settlePayments } from '../collection/settle-payments.ts'
import { type OfferIntent, useMethod } from '../collection/try-payment-method.ts'
import { eventStatement, type NewEvent } from '../events/event-rows.ts'
import type { MoneyRequest } from '../money-request.ts'
import { chargeOrLook } from '../payments/charge-payment.ts'
import type { Attempt } from '../payments/payment.ts'
import {
  type GivenMethod,
  insertMethod,
  methodStatement,
  type NewMethod,
  sealMethod,
} from '../payments/payment-method-rows.ts'
import { sendingLeaseMs } from '../payments/payment-rows.ts'
import { findPlan, type Plan, termsOfPlan } from '../plans/plan-rows.ts'
import { refuse } from '../refusals.ts'
import { period } from '../subscriptions/period.ts'
import { openPeriods } from '../subscriptions/period-rows.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import { getCharged, insertSubscription, lockLiveSubscription } from '../subscriptions/subscription-rows.ts'
import { type MethodIntake, methodIntake, requireChargeable } from './method-intake.ts'
import { requireOwnCustomer } from './set-up-payment-method.ts'

export type SubscribeRequest = {
  readonly accountId: string
  readonly planId: string
  readonly method: GivenMethod
  /** The caller's token reaches this account alone. */
  readonly bound: boolean
  readonly timeZone: string | undefined
  readonly contact: Contact | undefined
  readonly actor: Actor
}

/** A first charge, or the payment method of a trial that has none. */
export type SubscribeIntent =
  | (Intent & {
      readonly kind: 'first_charge'
      /** Only the request that wrote the attempt holds its lease and may send it without asking. */
      readonly attempt?: Attempt
    })
  | OfferIntent<'trial_card'>

/** Starts a recurring subscription: writes the intent, takes the money, and continues what an earlier request left behind. */
export function subscribe(
  app: BillingApp,
  request: SubscribeRequest,
): MoneyRequest<SubscribeIntent, Subscription> {
  return {
    begin: (tx) => beginSubscription(tx, app.clock(), request, methodIntake(app)),
    finish: (intent) =>
      intent.kind === 'trial_card'
        ? // Its first charge comes when the trial ends.
          useMethod(app, intent)
        : finishFirstCharge(app, intent.id, intent.attempt),
  }
}

async function beginSubscription(
  tx: BillingTx,
  now: Date,
  request: SubscribeRequest,
  { provider, keys, terms }: MethodIntake,
): Promise<SubscribeIntent> {
  const plan = await getOfferedPlan(tx, request.planId)
  await requireOwnCustomer(tx, provider, request)
  const known = await ensureAccount(tx, request.accountId, request.timeZone ?? terms.timeZone, now)
  const started = await insertIncomplete(tx, request, request.timeZone ?? known, plan, now)
  const trial = started ? undefined : await lockTrialWithoutMethod(tx, request.accountId)
  const subscription = started ?? trial
  if (!subscription) throw refuse('subscription_exists')
  // A trial that stays on its plan keeps the terms it began with.
  requireChargeable(provider, subscription.planId === plan.planId ? subscription.price : plan.price)

  const { subscriptionId } = subscription
  const given: NewMethod = {
    methodId: started?.methodId ?? newId('pm_', now),
    provider: provider.name,
    given: request.method,
    accountId: request.accountId,
    bound: request.bound,
    subscriptionId,
    purpose: started ? 'first' : 'trial',
    planId: plan.planId,
    planTerms: trial && trial.planId !== plan.planId ? termsOfPlan(plan) : null,
    // A first payment method lives and dies with its attempt, which has a lease of its own.
    leaseMs: started ? null : sendingLeaseMs(terms),
    now,
  }
  const audit = auditOf(request, subscriptionId, now)
  await noteRequest(tx, now, keys.vault, request)
  if (!started) {
    await insertMethod(tx, keys, given)
    await insertAudit(tx, audit)
    return { kind: 'trial_card', id: given.methodId, subject: subscriptionId, leased: true }
  }

  const method = sealMethod(keys, given)
  const first = { k: 0, period: { start: started.periodStart, end: started.periodEnd }, held: false }
  const [attempt] = await openPeriods(tx, now, [{ subscription: started, due: first, method }], terms, [
    methodStatement(given, method),
    auditStatement(audit),
    eventStatement(now, [createdEvent(started)]),
  ])
  return { kind: 'first_charge', id: attempt!.paymentId, subject: subscriptionId, attempt: attempt! }
}

function auditOf({ accountId, actor }: SubscribeRequest, subscriptionId: string, now: Date): NewAudit {
  return { at: now, actor, action: 'subscription.subscribe', accountId, target: subscriptionId }
}

function createdEvent({ accountId, subscriptionId, planId }: Subscription): NewEvent {
  return { type: 'subscription.created', accountId, subscriptionId, data: { plan_id: planId } }
}

async function getOfferedPlan(tx: BillingTx, planId: string): Promise<Plan> {
  const plan = await findPlan(tx, planId)
  if (!plan?.active) throw refuse('plan_not_found')
  return plan
}

/** Undefined when the account has a live subscription. */
async function insertIncomplete(
  tx: BillingTx,
  { accountId }: SubscribeRequest,
  timeZone: string,
  plan: Plan,
  now: Date,
): Promise<Subscription | undefined> {
  const first = period(now, timeZone, { unit: plan.interval, count: plan.intervalCount }, 0)
  return insertSubscription(
    tx,
    {
      subscriptionId: newId('sub_', now),
      accountId,
      timeZone,
      status: 'incomplete',
      anchor: now,
      lastK: 0,
      nextBillingAt: first.end,
      periodStart: first.start,
      periodEnd: first.end,
      trialEndsAt: null,
      cancelAt: null,
      canceledAt: null,
      cancelCode: null,
      cancelNote: null,
      methodId: newId('pm_', now),
      createdAt: now,
    },
    plan,
  )
}

async function lockTrialWithoutMethod(tx: BillingTx, accountId: string): Promise<Subscription | undefined> {
  const live = await lockLiveSubscription(tx, accountId)
  return live?.status === 'trialing' && live.methodId === null ? live : undefined
}

/** What else the request told us: the zone and the person. */
async function noteRequest(
  tx: BillingTx,
  now: Date,
  vault: Vault,
  { accountId, timeZone, contact }: SubscribeRequest,
): Promise<void> {
  if (timeZone !== undefined) await updateTimeZone(tx, accountId, timeZone)
  if (contact !== undefined) {
    await unerase(tx, accountId)
    const before = await findContact(tx, vault, accountId)
    await putContact(tx, vault, accountId, { ...before, ...contact }, now)
  }
}

/** Takes the first period's money: done once it is paid, pending while nobody knows, a refusal otherwise. */
async function finishFirstCharge(
  app: BillingApp,
  paymentId: string,
  own: Attempt | undefined,
): Promise<Finished<Subscription>> {
  await answerWithin(app.terms, ({ stays }) =>
    own ? chargeFirst(app, own, stays) : resolveOpenPayment(app, paymentId),
  )
  const { payment, subscription } = await getCharged(app.db, paymentId)
  if (payment.status === 'failed') throw chargeRefusal(payment.code)
  if (payment.status !== 'succeeded') return { state: 'pending', result: subscription }
  // Canceled while its charge was in doubt: the money is on its way back, and nothing was started.
  if (payment.unmatched) throw refuse('already_canceled')
  return { state: 'done', result: subscription }
}

async function chargeFirst(app: BillingApp, attempt: Attempt, mayGiveUp: () => boolean): Promise<void> {
  const answer = await chargeOrLook(app, attempt)
  // The caller is told, and asks again with a fresh intent: this one must not come alive later.
  const outcome =
    answer.kind === 'not_sent' && mayGiveUp()
      ? ({ kind: 'failed', code: 'provider_unavailable' } as const)
      : answer
  await settlePayments(app, [{ attempt, outcome, fresh: true }])
}
