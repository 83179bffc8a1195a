import type { BillingApp } from '../../../src/billing/app.ts'
import {
  resolveOpenPayments,
  sendUnsentPayments,
} from '../../../src/billing/collection/resolve-open-payments.ts'
import { retryDueInvoices } from '../../../src/billing/collection/retry-due-invoices.ts'
import { renewDueSubscriptions } from '../../../src/billing/lifecycle/renew-due-subscriptions.ts'
import type { Subscription } from '../../../src/billing/subscriptions/subscription.ts'
import { onlyProvider } from '../../billing/scripted-billing.ts'
import type { ChargePlay } from '../../billing/scripted-provider.ts'
import { type Case, endsOf, type Pair, paidOnce, unless } from '../pair.ts'
import type { Run } from '../run-order.ts'
import { type Actor, card, firstRenewal, type Stage } from '../stage.ts'
import { beginCardChange, cancel, changeCard, chargesOf } from './renewals.ts'

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

/** A renewal that was declined, and whose retry met this. */
async function openRetry(stage: Stage, met: ChargePlay) {
  const accountId = stage.newAccount()
  const { subscriptionId } = await stage.subscribe(accountId)
  stage.skipTo(firstRenewal)
  stage.script.declineCard(card, 'insufficient_funds')
  await renewDueSubscriptions(stage.app)
  stage.script.declineCard(card, null)
  stage.skipTo('2026-04-06T09:00:00+09:00')
  stage.script.nextCharges(met)
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
    const { accountId, subscriptionId } = await openRetry(stage, { kind: 'not_sent' })
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
    const { accountId, subscriptionId } = await openRetry(stage, { kind: 'not_sent' })
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

export const unsentCancel: Pair = {
  name: 'unsent-cancel',
  fact: 'a retry that never left us is not sent for an invoice whose withdrawal could be read before',
  isVariant: true,
  open: (stage) => openRetryAndCancel(stage, { kind: 'not_sent' }, ({ app }) => sendUnsentPayments(app)),
}

export const resendCancel: Pair = {
  name: 'resend-cancel',
  fact: 'a retry that never arrived is not sent again for an invoice whose withdrawal could be read before',
  isVariant: true,
  open: (stage) => openRetryAndCancel(stage, { kind: 'lost_request' }, ({ app }) => resolveOpenPayments(app)),
}

async function openRetryAndCancel(stage: Stage, met: ChargePlay, A: Case['A']): Promise<Case> {
  const { accountId, subscriptionId } = await openRetry(stage, met)
  return {
    accountId,
    A,
    B: (actor) => cancel(actor, subscriptionId),
    // What was sent and is not sent again is in doubt until the provider has forgotten its key.
    later: async () => {
      for (const instant of ['2026-04-07T10:00:00+09:00', '2026-04-07T11:00:00+09:00']) {
        stage.skipTo(instant)
        await stage.settle()
      }
    },
    check: (run, facts) => {
      const [, canceled] = endsOf<number | Subscription>(run, (value) =>
        typeof value === 'number' ? String(value) : value.status,
      )
      const paid = chargesOf(facts) === 2
      return [
        ...unless(
          canceled === 'canceled' || (canceled === 'canceling' && paid),
          `it is ${canceled}, paid: ${paid}`,
        ),
        ...unless(!sentAfterReading(run), 'it was sent though its withdrawal could be read'),
      ]
    },
  }
}

/** Whether the first side did anything between the end of the other one and its charge: then it could have read of it. */
function sentAfterReading({ trace }: Run): boolean {
  const ended = trace.findLastIndex(({ side, kind }) => side === 'B' && kind === 'commit')
  const charged = trace.findIndex(({ side, label }) => side === 'A' && label === 'charge')
  return trace.slice(ended + 1, Math.max(charged, 0)).some(({ side }) => side === 'A')
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
