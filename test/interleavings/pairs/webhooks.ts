import type { Subscription } from '../../../src/billing/subscriptions/subscription.ts'
import { openInbox } from '../../../src/billing/webhooks/inbox-rows.ts'
import { processWebhooks } from '../../../src/billing/webhooks/process-webhook.ts'
import { answerOf, endsOf, type Pair, unless } from '../pair.ts'
import { type Actor, type Subscribed, webhookOf } from '../stage.ts'
import { committingLate } from '../stepper.ts'
import { cancel } from './renewals.ts'

export const webhookWebhook: Pair = {
  name: 'webhook-webhook',
  fact: 'a notification delivered twice at once is stored once and has its effect once',
  async open(stage) {
    const accountId = stage.newAccount()
    const { reference } = await stage.subscribeInDoubt(accountId, true)
    const deliver = async ({ app }: Actor) => {
      const event = webhookOf(app, `evt_${accountId}`, reference, 'payment.updated')
      const isNew = await openInbox(committingLate(app.pool)).add(event)
      // By the time it is looked at, whoever looked at it before is long thought dead.
      await stage.passTime()
      await processWebhooks(app)
      return isNew
    }
    return {
      accountId,
      A: deliver,
      B: deliver,
      check: (run, facts) => {
        const ends = endsOf<boolean>(run, (isNew) => (isNew ? 'stored' : 'duplicate'))
        return [
          ...unless(ends.sort().join(' ') === 'duplicate stored', `the two ended ${ends}`),
          ...unless(facts.webhooks.length === 1, `${facts.webhooks.length} notifications`),
          ...unless(facts.subscriptions[0]!.status === 'active', `it is ${facts.subscriptions[0]!.status}`),
        ]
      },
    }
  },
}

export const webhookApi: Pair = {
  name: 'webhook-api',
  fact: 'a notification that overtakes the answer to our own charge changes nothing of it',
  async open(stage) {
    const accountId = stage.newAccount()
    const begun = await stage.beginSubscription(accountId, stage.actors.A.app)
    await stage.storeWebhook(`evt_${accountId}`, begun.reference)
    return {
      accountId,
      A: () => begun.finish(),
      B: ({ app }) => processWebhooks(app),
      check: (run, facts) => {
        const answer = answerOf<Subscribed>(run.results.A)
        const told = 'refused' in answer ? answer.refused : answer.value.result.status
        return [
          ...unless(told === 'active', `the caller was told ${told}`),
          ...unless(facts.provider.length === 1, `${facts.provider.length} charges`),
        ]
      },
    }
  },
}

export const webhookCancel: Pair = {
  name: 'webhook-cancel',
  fact: 'money found while its subscription is canceled pays for it or goes back, never neither',
  isVariant: true,
  async open(stage) {
    const accountId = stage.newAccount()
    const { reference, subscriptionId } = await stage.subscribeInDoubt(accountId, true)
    await stage.storeWebhook(`evt_${accountId}`, reference, 'payment.paid')
    return {
      accountId,
      A: ({ app }) => processWebhooks(app),
      B: (actor) => cancel(actor, subscriptionId),
      check: (run, facts) => {
        const [, canceled] = endsOf<number | Subscription>(run, (value) =>
          typeof value === 'number' ? String(value) : value.status,
        )
        const { refunded, unmatched } = facts.payments[0]!
        const end = `answered ${canceled}, ${refunded} went back`
        if (canceled === 'canceled') return unless(unmatched && refunded === 9900, end)
        return unless(canceled === 'canceling' && !unmatched && refunded === 0, end)
      },
    }
  },
}
