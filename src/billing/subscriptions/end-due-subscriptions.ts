import { sql } from 'kysely'
import type { BillingApp, BillingTx } from '../app.ts'
import { insertEvents } from '../events/event-rows.ts'
import { closeInvoice, listOwed } from '../invoices/invoice-rows.ts'
import { endSubscription } from './end-subscription.ts'

const batch = 100

/** Carries out cancellations whose time has come. */
export async function endCanceled(app: BillingApp): Promise<number> {
  return inBatches(app, async (tx, now) => {
    const due = await sql<{ id: string; at: Date; code: string | null }>`
      select id, cancel_at as at, cancel_code as code from billing.subscription
      where status = 'canceling' and cancel_at <= ${now}
      order by cancel_at limit ${batch} for update skip locked`.execute(tx)
    for (const { id, at, code } of due.rows)
      await endSubscription(tx, id, { code: code ?? 'requested', at, now })
    return due.rows.length
  })
}

/** Ends trials that are over and have no card. */
export async function endTrials(app: BillingApp): Promise<number> {
  return inBatches(app, async (tx, now) => {
    const due = await sql<{ id: string; at: Date }>`
      select id, next_billing_at as at from billing.subscription
      where status = 'trialing' and payment_method_id is null and next_billing_at <= ${now}
      order by next_billing_at limit ${batch} for update skip locked`.execute(tx)
    for (const { id, at } of due.rows) await endSubscription(tx, id, { code: 'trial_ended', at, now })
    return due.rows.length
  })
}

/** Gives up on invoices whose card will not pass and whose last dunning day has come. */
export async function endUnpaid(app: BillingApp): Promise<number> {
  return inBatches(app, async (tx, now) => {
    const due = await sql<{ id: string; account_id: string }>`
      select s.id, s.account_id from billing.invoice i join billing.subscription s on s.id = i.subscription_id
      where i.due_at <= ${now} and i.dunning = 'give_up'
      order by i.due_at limit ${batch} for update of s skip locked`.execute(tx)
    let ended = 0
    for (const { id, account_id } of due.rows) if (await giveUp(tx, id, account_id, now)) ended++
    return ended
  })
}

async function giveUp(tx: BillingTx, subscriptionId: string, accountId: string, now: Date): Promise<boolean> {
  // Read again under the lock: a new card may have saved it meanwhile.
  const still = await tx
    .selectFrom('billing.invoice')
    .select('id')
    .where('subscription_id', '=', subscriptionId)
    .where('dunning', '=', 'give_up')
    .where('due_at', '<=', now)
    .limit(1)
    .executeTakeFirst()
  if (!still) return false
  for (const { invoiceId } of await listOwed(tx, subscriptionId)) {
    await closeInvoice(tx, invoiceId, 'uncollectible')
    await insertEvents(tx, now, [
      { type: 'invoice.uncollectible', accountId, subscriptionId, data: { invoice_id: invoiceId } },
    ])
  }
  await endSubscription(tx, subscriptionId, { code: 'payment_failed', at: now, now })
  return true
}

async function inBatches(
  app: BillingApp,
  endSome: (tx: BillingTx, now: Date) => Promise<number>,
): Promise<number> {
  let total = 0
  for (;;) {
    const ended = await app.db.transaction().execute(async (tx) => {
      await app.fence(tx)
      return endSome(tx, app.clock())
    })
    total += ended
    if (ended < batch) return total
  }
}
