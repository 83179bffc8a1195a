import type { BillingApp } from '../../../src/billing/app.ts'
import { retryDueInvoices } from '../../../src/billing/collection/retry-due-invoices.ts'
import { cancelSubscription } from '../../../src/billing/lifecycle/cancel-subscription.ts'
import { changePaymentMethod } from '../../../src/billing/lifecycle/change-payment-method.ts'
import { renewDueSubscriptions } from '../../../src/billing/lifecycle/renew-due-subscriptions.ts'
import type { Subscription } from '../../../src/billing/subscriptions/subscription.ts'
import type { Facts } from '../invariants.ts'
import { endsOf, type Pair, unless } from '../pair.ts'
import { type Actor, card, firstRenewal, type Stage } from '../stage.ts'

const newCard = 'bk_test_other'

async function openDue(stage: Stage) {
  const accountId = stage.newAccount()
  const { subscriptionId } = await stage.subscribe(accountId)
  stage.skipTo(firstRenewal)
  return { accountId, subscriptionId }
}

const renew = ({ app }: Actor) => renewDueSubscriptions(app)

export async function cancel({ app }: Actor, subscriptionId: string): Promise<Subscription> {
  const request = { subscriptionId, note: null, actor: 'test', mayTouch: () => true }
  const { begin, finish } = cancelSubscription(app, request)
  return (await finish(await app.db.transaction().execute(begin))).result
}

/** The intent is recorded; whoever finishes it may be another. */
export async function beginCardChange(app: BillingApp, subscriptionId: string) {
  const method = { billingKey: newCard }
  const request = { subscriptionId, method, bound: false, actor: 'test', mayTouch: () => true }
  const intent = await app.db.transaction().execute(changePaymentMethod(app, request).begin)
  return (by: BillingApp) => changePaymentMethod(by, request).finish(intent)
}

export async function changeCard({ app }: Actor, subscriptionId: string) {
  return (await beginCardChange(app, subscriptionId))(app)
}

export function chargesOf(facts: Facts): number {
  return facts.provider.filter(({ paid }) => paid).length
}

export const renewRenew: Pair = {
  name: 'renew-renew',
  fact: 'two sweeps at once renew a subscription once',
  async open(stage) {
    const { accountId } = await openDue(stage)
    return {
      accountId,
      A: renew,
      B: renew,
      check: (run, facts) => {
        const opened = endsOf<number>(run, String).map(Number)
        return [
          ...unless(opened[0]! + opened[1]! === 1, `the sweeps opened ${opened.join(' and ')} periods`),
          ...unless(chargesOf(facts) === 2, `${chargesOf(facts)} charges for two periods`),
        ]
      },
    }
  },
}

export const renewCancel: Pair = {
  name: 'renew-cancel',
  fact: 'of a renewal and a cancellation the first to commit decides, and what was canceled is not charged',
  async open(stage) {
    const { accountId, subscriptionId } = await openDue(stage)
    return {
      accountId,
      A: renew,
      B: (actor) => cancel(actor, subscriptionId),
      check: (run, facts) => {
        const [renewed, canceled] = endsOf<number | Subscription>(run, (value) =>
          typeof value === 'number' ? String(value) : value.status,
        )
        const end = `renewed ${renewed}, answered ${canceled}, ${chargesOf(facts)} charges`
        // Ended before the renewal: the first period alone was paid. After it: what is paid for runs on.
        if (canceled === 'canceled') return unless(renewed === '0' && chargesOf(facts) === 1, end)
        return unless(canceled === 'canceling' && renewed === '1' && chargesOf(facts) === 2, end)
      },
    }
  },
}

export const renewCard: Pair = {
  name: 'renew-card',
  fact: 'a renewal beside a change of card charges one of the two cards once, and the new card stays',
  async open(stage) {
    const { accountId, subscriptionId } = await openDue(stage)
    return {
      accountId,
      A: renew,
      B: (actor) => changeCard(actor, subscriptionId),
      check: (run, facts) => {
        const [, changed] = endsOf<number | { state: string }>(run, (value) =>
          String(typeof value === 'number' ? value : value.state),
        )
        // A sweep passes over what is locked; then the next one renews it.
        return [
          ...unless(changed === 'done', `the new card was answered ${changed}`),
          ...unless(chargesOf(facts) === 2, `${chargesOf(facts)} charges for two periods`),
          ...newCardStays(facts),
        ]
      },
    }
  },
}

export const retryCard: Pair = {
  name: 'retry-card',
  fact: 'a retry beside a new card for what is past due takes the money once',
  isVariant: true,
  async open(stage) {
    const { accountId, subscriptionId } = await openDue(stage)
    stage.script.declineCard(card, 'insufficient_funds')
    await renewDueSubscriptions(stage.app)
    stage.script.declineCard(card, null)
    stage.skipTo('2026-04-06T09:00:00+09:00')
    return {
      accountId,
      A: ({ app }) => retryDueInvoices(app),
      B: (actor) => changeCard(actor, subscriptionId),
      check: (run, facts) => {
        const [, changed] = endsOf<number | { state: string }>(run, (value) =>
          String(typeof value === 'number' ? value : value.state),
        )
        return [
          ...unless(changed === 'done' || changed === 'pending', `the new card was answered ${changed}`),
          ...unless(chargesOf(facts) === 2, `${chargesOf(facts)} charges for two periods`),
          ...unless(facts.subscriptions[0]!.status === 'active', `it is ${facts.subscriptions[0]!.status}`),
          ...newCardStays(facts),
        ]
      },
    }
  },
}

function newCardStays(facts: Facts): string[] {
  const newest = facts.methods.at(-1)!
  return unless(
    facts.methods.length === 2 &&
      newest.state === 'kept' &&
      facts.subscriptions[0]!.payment_method_id === newest.id,
    'the new card is not the one in use',
  )
}
