import type { BillingApp, BillingTx } from '../app.ts'
import { insertEvents } from '../events/event-rows.ts'
import { isGivenUp } from '../invoices/dunning-rows.ts'
import { closeInvoice, listOwed } from '../invoices/invoice-rows.ts'
import { endSubscription } from '../subscriptions/end-subscription.ts'
import { type Batched, workBatch, workFailed } from '../sweeps/sweep-failures.ts'
import {
  type CanceledSubscription,
  listUnpaidInvoices,
  lockCanceled,
  lockEndedTrials,
  lockGivenUp,
} from './due-subscription-rows.ts'

const batch = 100

/** Carries out cancellations whose time has come. */
export async function endCanceled(app: BillingApp): Promise<number> {
  return endAll<CanceledSubscription>(app, {
    sweep: 'cancellations',
    lock: lockCanceled,
    act: async (tx, now, due) => {
      await closeUnpaid(tx, now, due)
      for (const { id, at, code } of due)
        await endSubscription(tx, id, { code: code ?? 'requested', at, now })
      return due.length
    },
  })
}

/**
 * Closes what was not paid and is no longer tried: a cancellation that a restore brought back may find such an invoice. One
 * whose charge is under way is settled by its outcome; but while a restored database still stands still, all that the
 * provider has is known, and nothing more is to be sent for somebody who had left.
 */
async function closeUnpaid(tx: BillingTx, now: Date, due: readonly CanceledSubscription[]): Promise<void> {
  const unpaid = await listUnpaidInvoices(
    tx,
    due.map(({ id }) => id),
  )
  for (const { invoiceId, accountId, subscriptionId, begun } of unpaid) {
    const gaveUp = begun && due.some((one) => one.id === subscriptionId && one.code === 'payment_failed')
    await closeInvoice(tx, invoiceId, gaveUp ? 'uncollectible' : 'void')
    await insertEvents(tx, now, [
      {
        type: gaveUp ? 'invoice.uncollectible' : 'invoice.voided',
        accountId,
        subscriptionId,
        data: { invoice_id: invoiceId },
      },
    ])
  }
}

/** Ends trials that are over and have no payment method. */
export async function endTrials(app: BillingApp): Promise<number> {
  return endAll<{ id: string; at: Date }>(app, {
    sweep: 'trials_ended',
    lock: lockEndedTrials,
    act: async (tx, now, due) => {
      for (const { id, at } of due) await endSubscription(tx, id, { code: 'trial_ended', at, now })
      return due.length
    },
  })
}

/** Gives up on invoices whose payment method will not pass and whose last dunning day has come. */
export async function endUnpaid(app: BillingApp): Promise<number> {
  return endAll<{ id: string; accountId: string }>(app, {
    sweep: 'given_up',
    lock: lockGivenUp,
    act: async (tx, now, due) => {
      let ended = 0
      for (const { id, accountId } of due) if (await giveUp(tx, id, accountId, now)) ended++
      return ended
    },
  })
}

async function giveUp(tx: BillingTx, subscriptionId: string, accountId: string, now: Date): Promise<boolean> {
  // Read again under the lock: a new payment method may have saved it meanwhile.
  if (!(await isGivenUp(tx, subscriptionId, now))) return false
  for (const { invoiceId } of await listOwed(tx, subscriptionId)) {
    await closeInvoice(tx, invoiceId, 'uncollectible')
    await insertEvents(tx, now, [
      { type: 'invoice.uncollectible', accountId, subscriptionId, data: { invoice_id: invoiceId } },
    ])
  }
  await endSubscription(tx, subscriptionId, { code: 'payment_failed', at: now, now })
  return true
}

async function endAll<Row extends { readonly id: string }>(
  app: BillingApp,
  due: Batched<Row, number>,
): Promise<number> {
  let total = 0
  for (const ended of await workFailed(app, due)) total += ended
  while (!app.stopping?.aborted) {
    const { rows, results } = await workBatch(app, due, batch)
    for (const ended of results) total += ended
    if (rows < batch) break
  }
  return total
}
