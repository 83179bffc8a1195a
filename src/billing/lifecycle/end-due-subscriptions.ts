import { sql } from 'kysely'
import type { BillingApp, BillingTx } from '../app.ts'
import { insertEvents } from '../events/event-rows.ts'
import { closeInvoice, listOwed } from '../invoices/invoice-rows.ts'
import { endSubscription } from '../subscriptions/end-subscription.ts'
import { limitOf, wanted } from '../sweep-failure-rows.ts'
import { type Batched, workBatch, workFailed } from '../sweep-failures.ts'

const batch = 100

/** Carries out cancellations whose time has come. */
export async function endCanceled(app: BillingApp): Promise<number> {
  return endAll<{ id: string; at: Date; code: string | null }>(app, {
    sweep: 'cancellations',
    lock: async (tx, now, which) => {
      const due = await sql<{ id: string; at: Date; code: string | null }>`
        select id, cancel_at as at, cancel_code as code from billing.subscription
        where status = 'canceling' and cancel_at <= ${now} and ${wanted('cancellations', sql.ref('id'), which)}
        order by cancel_at limit ${limitOf(which)} for update skip locked`.execute(tx)
      return due.rows
    },
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
async function closeUnpaid(
  tx: BillingTx,
  now: Date,
  due: readonly { id: string; code: string | null }[],
): Promise<void> {
  const found = await sql<{ id: string; account_id: string; subscription_id: string; begun: boolean }>`
    select i.id, i.account_id, i.subscription_id, d.k > 0 or s.trial_ends_at is not null as begun
    from billing.invoice i
    join billing.period d on d.invoice_id = i.id join billing.subscription s on s.id = i.subscription_id
    where i.subscription_id = any (${due.map(({ id }) => id)}) and i.status = 'open' and i.hold is null
      and (i.first_failed_at is not null and not exists (
          select from billing.payment p where p.invoice_id = i.id and p.status in ('sending', 'unknown'))
        or exists (select from billing.charging_stop where holds_due)
          and exists (select from billing.history_applied))
    order by i.id`.execute(tx)
  for (const { id, account_id, subscription_id, begun } of found.rows) {
    const gaveUp = begun && due.some((one) => one.id === subscription_id && one.code === 'payment_failed')
    await closeInvoice(tx, id, gaveUp ? 'uncollectible' : 'void')
    await insertEvents(tx, now, [
      {
        type: gaveUp ? 'invoice.uncollectible' : 'invoice.voided',
        accountId: account_id,
        subscriptionId: subscription_id,
        data: { invoice_id: id },
      },
    ])
  }
}

/** Ends trials that are over and have no card. */
export async function endTrials(app: BillingApp): Promise<number> {
  return endAll<{ id: string; at: Date }>(app, {
    sweep: 'trials_ended',
    lock: async (tx, now, which) => {
      const due = await sql<{ id: string; at: Date }>`
        select id, next_billing_at as at from billing.subscription
        where status = 'trialing' and payment_method_id is null and next_billing_at <= ${now}
          and ${wanted('trials_ended', sql.ref('id'), which)}
        order by next_billing_at limit ${limitOf(which)} for update skip locked`.execute(tx)
      return due.rows
    },
    act: async (tx, now, due) => {
      for (const { id, at } of due) await endSubscription(tx, id, { code: 'trial_ended', at, now })
      return due.length
    },
  })
}

/** Gives up on invoices whose card will not pass and whose last dunning day has come. */
export async function endUnpaid(app: BillingApp): Promise<number> {
  return endAll<{ id: string; account_id: string }>(app, {
    sweep: 'given_up',
    lock: async (tx, now, which) => {
      const due = await sql<{ id: string; account_id: string }>`
        select s.id, s.account_id from billing.invoice i join billing.subscription s on s.id = i.subscription_id
        where i.due_at <= ${now} and i.dunning = 'give_up' and ${wanted('given_up', sql.ref('s.id'), which)}
        order by i.due_at limit ${limitOf(which)} for update of s skip locked`.execute(tx)
      return due.rows
    },
    act: async (tx, now, due) => {
      let ended = 0
      for (const { id, account_id } of due) if (await giveUp(tx, id, account_id, now)) ended++
      return ended
    },
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
