import { grantTrial } from '../../../src/billing/lifecycle/grant-trial.ts'
import { endsOf, type Pair, unless } from '../pair.ts'
import type { Run } from '../run-order.ts'
import type { Begun } from '../stage.ts'
import { type Actor, card, type Stage } from '../stage.ts'

const planId = 'starter-monthly'

async function grant({ app }: Actor, accountId: string): Promise<string> {
  const asked = grantTrial(app, { accountId, planId, actor: 'test' })
  return (await app.db.transaction().execute(asked.begin)).id
}

export const trialTrial: Pair = {
  name: 'trial-trial',
  fact: 'of two requests for a trial one gets it',
  async open(stage) {
    const accountId = stage.newAccount()
    return {
      accountId,
      A: (actor) => grant(actor, accountId),
      B: (actor) => grant(actor, accountId),
      check: (run, facts) => {
        const ends = endsOf<string>(run, () => 'granted')
        return [
          ...unless(ends.sort().join(' ') === 'granted trial_already_used', `the two ended ${ends}`),
          ...unless(facts.grants === 1 && facts.subscriptions.length === 1, `${facts.grants} grants`),
        ]
      },
    }
  },
}

export const trialSubscribe: Pair = {
  name: 'trial-subscribe',
  fact: 'a trial beside a subscribe ends as a trial with a card or as a paid subscription, never as both',
  async open(stage) {
    const accountId = await stage.knownAccount()
    return {
      accountId,
      A: (actor) => grant(actor, accountId),
      B: ({ app }) => stage.subscribeBy(app, accountId),
      check: (run, facts) => {
        const [trial, subscribed] = endsOf<string | { state: string }>(run, (value) =>
          typeof value === 'string' ? 'granted' : value.state,
        )
        const [only] = facts.subscriptions
        const charges = facts.provider.length
        const end = `trial ${trial}, subscribe ${subscribed}, ${only?.status}, ${charges} charges`
        if (trial === 'granted')
          return unless(
            subscribed === 'done' &&
              only!.status === 'trialing' &&
              only!.payment_method_id !== null &&
              charges === 0,
            end,
          )
        return unless(
          trial === 'subscription_exists' &&
            subscribed === 'done' &&
            only!.status === 'active' &&
            charges === 1 &&
            facts.grants === 0,
          end,
        )
      },
    }
  },
}

export const subscribeSubscribe: Pair = {
  name: 'subscribe-subscribe',
  fact: 'of two subscribes of one account one is charged and the other refused',
  isVariant: true,
  async open(stage) {
    const accountId = await stage.knownAccount()
    const subscribe = ({ app }: Actor) => stage.subscribeBy(app, accountId)
    return {
      accountId,
      A: subscribe,
      B: subscribe,
      check: (run, facts) => {
        const ends = endsOf<{ state: string }>(run, ({ state }) => state)
        return [
          ...unless(ends.sort().join(' ') === 'done subscription_exists', `the two ended ${ends}`),
          ...unless(facts.provider.length === 1, `${facts.provider.length} charges`),
        ]
      },
    }
  },
}

type Reply = { status: number; text: string; code: string | undefined }

async function post(stage: Stage, { http }: Actor, url: string, key: string, body: object): Promise<Reply> {
  const headers = { authorization: `Bearer ${stage.token}`, 'idempotency-key': key }
  const answer = await http.inject({ method: 'POST', url, headers, payload: body })
  return { status: answer.statusCode, text: answer.body, code: answer.json().error?.code }
}

/** Both asked the same under one key: final answers are the same bytes, and who came too early is told so. */
async function sameAnswers(run: Run, ask: () => Promise<Reply>, status: number): Promise<string[]> {
  const replies = [run.results.A, run.results.B].map((result) => {
    if (result.status === 'rejected') throw result.reason
    return result.value as Reply
  })
  const final = replies.filter((reply) => reply.status === status)
  const early = replies.filter(({ code }) => code === 'request_in_progress')
  const again = await ask()
  return [
    ...unless(
      final.length >= 1 && final.length + early.length === 2,
      `the two were answered ${replies.map((reply) => `${reply.status} ${reply.code ?? ''}`).join(' and ')}`,
    ),
    ...unless(again.status === status, `a repeat was answered ${again.status} ${again.code}`),
    ...unless(
      new Set([...final, again].map(({ text }) => text)).size === 1,
      'a repeat was answered in other words',
    ),
  ]
}

export const keySubscribe: Pair = {
  name: 'key-subscribe',
  fact: 'a subscribe sent twice under one key is charged once and answered alike',
  async open(stage) {
    const accountId = stage.newAccount()
    const body = { account_id: accountId, plan_id: planId, payment_method: { billing_key: card } }
    const ask = (actor: Actor) => post(stage, actor, '/api/billing/subscribe', accountId, body)
    return {
      accountId,
      A: ask,
      B: ask,
      check: async (run, facts) => [
        ...(await sameAnswers(run, () => ask(stage.actors.A), 201)),
        ...unless(facts.provider.length === 1, `${facts.provider.length} charges`),
      ],
    }
  },
}

export const keyRefund: Pair = {
  name: 'key-refund',
  fact: 'a refund sent twice under one key goes back once and is answered alike',
  isVariant: true,
  async open(stage) {
    const accountId = stage.newAccount()
    const { invoiceId }: Begun = await stage.subscribe(accountId)
    const body = { invoice_id: invoiceId, amount: 4000 }
    const ask = (actor: Actor) => post(stage, actor, '/api/billing/refund', accountId, body)
    return {
      accountId,
      A: ask,
      B: ask,
      check: async (run, facts) => [
        ...(await sameAnswers(run, () => ask(stage.actors.A), 200)),
        ...unless(facts.payments[0]!.refunded === 4000, `${facts.payments[0]!.refunded} went back`),
      ],
    }
  },
}
