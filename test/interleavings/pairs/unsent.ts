import type { BillingApp } from '../../../src/billing/app.ts'
import {
  resolveOpenPayments,
  sendUnsentPayments,
} from '../../../src/billing/collection/resolve-open-payments.ts'
import { retryDueInvoices } from '../../../src/billing/collection/retry-due-invoices.ts'
import { renewDueSubscriptions } from '../../../src/billing/lifecycle/renew-due-subscriptions.ts'
import { onlyProvider } from '../../billing/scripted-billing.ts'
import { endsOf, type Pair, paidOnce, unless } from '../pair.ts'
import { type Actor, card, firstRenewal, type Stage } from '../stage.ts'
import { beginCardChange, changeCard } from './renewals.ts'

/** A renewal whose charge never left us. */
async function openUnsentRenewal(stage: Stage) {
  const accountId = stage.newAccount()
  const { subscriptionId } = await stage.subscribe(accountId)
  stage.skipTo(firstRenewal)
  stage.script.nextCharges({ kind: 'not_sent' })
  await renewDueSubscriptions(stage.app)
  await stage.passTime()
  return { accountId, subscriptionId }
}

/** A renewal that was declined, and whose retry never left us. */
async function openUnsentRetry(stage: Stage) {
  const accountId = stage.newAccount()
  const { subscriptionId } = await stage.subscribe(accountId)
  stage.skipTo(firstRenewal)
  stage.script.declineCard(card, 'insufficient_funds')
  await renewDueSubscriptions(stage.app)
  stage.script.declineCard(card, null)
  stage.skipTo('2026-04-06T09:00:00+09:00')
  stage.script.nextCharges({ kind: 'not_sent' })
  await retryDueInvoices(stage.app)
  await stage.passTime()
  return { accountId, subscriptionId }
}

const word = (value: number | { state: string }) => String(typeof value === 'number' ? value : value.state)

export const unsentCard: Pair = {
  name: 'unsent-card',
  fact: 'a retry that never left us makes way for a new card, or is sent, and the money is taken once',
  isVariant: true,
  async open(stage) {
    const { accountId, subscriptionId } = await openUnsentRetry(stage)
    return {
      accountId,
      A: ({ app }) => sendUnsentPayments(app),
      B: async (actor) => {
        await timePasses(stage, actor)
        return changeCard(actor, subscriptionId)
      },
      check: (run, facts) => {
        const [, changed] = endsOf(run, word)
        return [
          ...unless(changed === 'done' || changed === 'pending', `the new card was answered ${changed}`),
          ...paidOnce(facts),
        ]
      },
    }
  },
}

export const unsentMoves: Pair = {
  name: 'unsent-moves',
  fact: 'a renewal that never left us is asked of the old card or of the new one, never of both',
  async open(stage) {
    const { accountId, subscriptionId } = await openUnsentRenewal(stage)
    const asked = new Set<string>()
    stage.script.hooks.beforeCharge = async ({ billingKey }) => void asked.add(billingKey)
    return {
      accountId,
      A: ({ app }) => sendUnsentPayments(app),
      B: async ({ app, side }) => {
        // One step, so that few orders tell all; while the other side holds the subscription it is too late for another card.
        await side.pass('another card', async () => {
          if (!(await isFree(stage, subscriptionId))) return
          await stage.passTime()
          await (await beginCardChange(stage.app, subscriptionId))(stage.app)
          await stage.passTime()
        })
        return sendUnsentPayments(app)
      },
      check: (run, facts) => {
        endsOf(run, word)
        stage.script.hooks.beforeCharge = async () => {}
        return [...unless(asked.size === 1, `asked were ${[...asked].join(' and ')}`), ...paidOnce(facts)]
      },
    }
  },
}

export const unsentLate: Pair = {
  name: 'unsent-late',
  fact: 'whoever slept through its lease does not call unsent what somebody else sends meanwhile',
  isVariant: true,
  async open(stage) {
    const { accountId, subscriptionId } = await openUnsentRetry(stage)
    return {
      accountId,
      A: async (actor) => {
        await sendUnsentPayments(notSending(actor))
        return changeCard(actor, subscriptionId)
      },
      B: async (actor) => {
        await timePasses(stage, actor)
        return resolveOpenPayments(actor.app)
      },
      check: (run, facts) => {
        const [changed] = endsOf(run, word)
        return [
          ...unless(changed === 'done' || changed === 'pending', `the new card was answered ${changed}`),
          ...paidOnce(facts),
        ]
      },
    }
  },
}

async function isFree({ app }: Stage, subscriptionId: string): Promise<boolean> {
  const { rowCount } = await app.pool.query(
    'select from billing.subscription where id = $1 for update skip locked',
    [subscriptionId],
  )
  return rowCount === 1
}

/** By now the lease of whoever sleeps is over, and its attempt is anybody's. */
function timePasses(stage: Stage, { side }: Actor): Promise<void> {
  return side.pass('time passes', () => stage.passTime())
}

/** Its charges do not leave it. */
function notSending({ app, side }: Actor): BillingApp {
  const charge = () => side.pass('charge', async () => ({ kind: 'not_sent' as const }))
  return { ...app, providers: onlyProvider({ ...app.providers.forNew, charge }) }
}
