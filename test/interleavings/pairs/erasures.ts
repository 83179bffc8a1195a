import { resolveOpenPayment } from '../../../src/billing/collection/resolve-open-payments.ts'
import { eraseAccount } from '../../../src/billing/lifecycle/erase-account.ts'
import { endSubscription } from '../../../src/billing/subscriptions/end-subscription.ts'
import { onlyProvider } from '../../billing/scripted-billing.ts'
import type { Facts } from '../invariants.ts'
import { endsOf, type Pair, unless } from '../pair.ts'
import type { Actor, Stage } from '../stage.ts'
import { beginCardChange, cancel } from './renewals.ts'

const erase = async ({ app }: Actor, accountId: string) => {
  await eraseAccount(app, accountId, 'test')
  return 'erased'
}

function cardsAreGone(facts: Facts): string[] {
  return unless(
    facts.methods.every(({ state }) => state === 'dropped'),
    'a card outlives the erasure',
  )
}

export const eraseSettle: Pair = {
  name: 'erase-settle',
  fact: 'an account is erased beside the end of a doubt about its last charge: the money goes back and no card stays',
  async open(stage) {
    const accountId = stage.newAccount()
    const { subscriptionId, paymentId } = await stage.subscribeInDoubt(accountId, true)
    // Its own lookup finds nothing out yet.
    const silent = { ...stage.actors.A, app: { ...stage.app, providers: unanswering(stage) } }
    await cancel(silent, subscriptionId)
    await stage.app.pool.query(`update billing.subscription set cancel_note = 'words' where id = $1`, [
      subscriptionId,
    ])
    await stage.passTime()
    return {
      accountId,
      A: async ({ app }) => {
        await resolveOpenPayment(app, paymentId)
        return 'settled'
      },
      B: (actor) => erase(actor, accountId),
      check: (run, facts) => [
        ...unless(
          endsOf<string>(run, String).join() === 'settled,erased',
          endsOf<string>(run, String).join(),
        ),
        ...cardsAreGone(facts),
      ],
    }
  },
}

function unanswering(stage: Stage) {
  return onlyProvider({ ...stage.app.providers.forNew, findPayment: async () => ({ kind: 'unknown' }) })
}

export const eraseCard: Pair = {
  name: 'erase-card',
  fact: 'an account is erased beside a card that was offered before its subscription ended: no card stays',
  async open(stage) {
    const accountId = stage.newAccount()
    const { subscriptionId } = await stage.subscribe(accountId)
    const finishCardChange = await beginCardChange(stage.app, subscriptionId)
    const now = stage.app.clock()
    await stage.app.db
      .transaction()
      .execute((tx) => endSubscription(tx, subscriptionId, { code: 'requested', at: now, now }))
    return {
      accountId,
      A: (actor) => finishCardChange(actor.app),
      B: (actor) => erase(actor, accountId),
      check: (run, facts) => {
        const [changed, erased] = endsOf<{ state: string } | string>(run, (value) =>
          typeof value === 'string' ? value : value.state,
        )
        return [
          // Dropped by the erasure it has no reason of its own to tell.
          ...unless(
            changed === 'already_canceled' || changed === 'provider_error',
            `the card was answered ${changed}`,
          ),
          ...unless(erased === 'erased', `the erasure was answered ${erased}`),
          ...cardsAreGone(facts),
        ]
      },
    }
  },
}

export const eraseSubscribe: Pair = {
  name: 'erase-subscribe',
  fact: 'an account is erased before a subscription begins, or not at all: a card in use is never erased',
  isVariant: true,
  async open(stage) {
    const accountId = await stage.knownAccount()
    return {
      accountId,
      A: (actor) => erase(actor, accountId),
      B: ({ app }) => stage.subscribeBy(app, accountId),
      check: (run, facts) => {
        const [erased, subscribed] = endsOf<{ state: string } | string>(run, (value) =>
          typeof value === 'string' ? value : value.state,
        )
        return [
          ...unless(subscribed === 'done', `the subscribe was answered ${subscribed}`),
          ...unless(
            erased === 'erased' || erased === 'subscription_exists',
            `the erasure was answered ${erased}`,
          ),
          ...unless(
            facts.methods.every(({ state }) => state === 'kept'),
            'the card of a running subscription is gone',
          ),
        ]
      },
    }
  },
}
