import { resolveOpenPayments } from '../../../src/billing/collection/resolve-open-payments.ts'
import { retryDueInvoices } from '../../../src/billing/collection/retry-due-invoices.ts'
import { settleFromProvider } from '../../../src/billing/collection/settle-from-provider.ts'
import { renewDueSubscriptions } from '../../../src/billing/lifecycle/renew-due-subscriptions.ts'
import { endsOf, type Pair, paidOnce, unless } from '../pair.ts'
import { type Actor, card, firstRenewal, type Stage } from '../stage.ts'
import { changeCard } from './renewals.ts'

/** A renewal whose customer is awaited, on the day of its first retry, by which the card asks nobody any more. */
async function openAwaited(stage: Stage) {
  const accountId = stage.newAccount()
  const { subscriptionId } = await stage.subscribe(accountId)
  stage.skipTo(firstRenewal)
  stage.script.askCustomer(card)
  await renewDueSubscriptions(stage.app)
  stage.script.askCustomer(card, false)
  stage.skipTo('2026-04-06T09:00:00+09:00')
  const { reference } = [...stage.script.book.values()].find(({ status }) => status === 'awaiting')!
  return { accountId, subscriptionId, reference }
}

/** The customer confirms in the browser, and the provider tells us. */
async function confirm(stage: Stage, { app, side }: Actor, reference: string): Promise<boolean> {
  const isDone = await side.pass('confirm', async () => stage.script.confirm(reference))
  if (isDone) await settleFromProvider(app, reference)
  return isDone
}

export const confirmRetry: Pair = {
  name: 'confirm-retry',
  fact: 'a customer who confirms while a retry begins pays once',
  isVariant: true,
  async open(stage) {
    const { accountId, reference } = await openAwaited(stage)
    return {
      accountId,
      A: async ({ app }) => {
        await resolveOpenPayments(app)
        return retryDueInvoices(app)
      },
      B: (actor) => confirm(stage, actor, reference),
      check: (run, facts) => {
        const [, confirmed] = endsOf<number | boolean>(run, String)
        const { status } = facts.payments.find(({ provider_reference }) => provider_reference === reference)!
        return [
          ...paidOnce(facts),
          ...unless(
            status === (confirmed === 'true' ? 'succeeded' : 'failed'),
            `confirmed ${confirmed}, and the payment has ${status}`,
          ),
        ]
      },
    }
  },
}

export const confirmCard: Pair = {
  name: 'confirm-card',
  fact: 'a customer who confirms while another card is offered pays with one of the two',
  isVariant: true,
  async open(stage) {
    const { accountId, subscriptionId, reference } = await openAwaited(stage)
    return {
      accountId,
      A: (actor) => changeCard(actor, subscriptionId),
      B: (actor) => confirm(stage, actor, reference),
      check: (run, facts) => {
        const [changed] = endsOf<{ state: string } | boolean>(run, (value) =>
          String(typeof value === 'boolean' ? value : value.state),
        )
        return [
          ...unless(changed === 'done' || changed === 'pending', `the new card was answered ${changed}`),
          ...paidOnce(facts),
        ]
      },
    }
  },
}
