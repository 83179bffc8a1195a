import { sql } from 'kysely'
import { eraseAnswers } from '../../platform/idempotency.ts'
import { eraseContact, findAccount } from '../accounts/account-rows.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { insertEvents } from '../events/event-rows.ts'
import { eraseMethods } from '../payments/payment-method-rows.ts'
import { eraseSetups } from '../payments/setup-rows.ts'
import { refuse } from '../refusals.ts'
import { hasLiveSubscription, lockSubscriptions } from '../subscriptions/subscription-rows.ts'

/** Forgets the person behind an account: contact, cards and every word they wrote. Money and the trial row stay. */
export async function eraseAccount(app: BillingApp, accountId: string, actor: Actor): Promise<Date> {
  const now = app.clock()
  await app.db.transaction().execute(async (tx) => {
    // Subscriptions before the account, and the account before cards, as everywhere: whoever settles a last charge of a
    // subscription that has ended meets us at its lock.
    const subscriptions = await lockSubscriptions(tx, accountId)
    if (subscriptions.some(({ status }) => status !== 'canceled')) throw refuse('subscription_exists')
    // The account's row lock keeps a subscription from starting meanwhile: it needs the row to refer to. One may have
    // started just before, so that is asked again.
    const locked = await sql`select 1 from billing.account where id = ${accountId} for update`.execute(tx)
    if (locked.rows.length === 0) throw refuse('account_not_found')
    if (await hasLiveSubscription(tx, accountId)) throw refuse('subscription_exists')

    await eraseTraces(tx, accountId, now)
    await insertAudit(tx, { at: now, actor, action: 'account.erase', accountId, target: accountId })
    await insertEvents(tx, now, [{ type: 'account.erased', accountId, subscriptionId: null }])
  })
  return (await findAccount(app.db, accountId))?.erasedAt ?? now
}

/** Removes every word about the person. The caller holds the account's row. */
export async function eraseTraces(tx: BillingTx, accountId: string, now: Date): Promise<void> {
  await tx
    .updateTable('billing.subscription')
    .set({ cancel_note: null })
    .where('account_id', '=', accountId)
    .where('cancel_note', 'is not', null)
    .execute()
  await eraseContact(tx, accountId, now)
  await tx
    .updateTable('billing.refund')
    .set({ note: null })
    .where('account_id', '=', accountId)
    .where('note', 'is not', null)
    .execute()
  await eraseMethods(tx, accountId, now)
  await eraseSetups(tx, accountId)
  await eraseWebhookBodies(tx, accountId)
  await eraseAnswers(tx, await listAnswered(tx, accountId), now)
  await tx
    .updateTable('billing.unmatched_settlement')
    .set({ note: null })
    .where('payment_id', 'in', (query) =>
      query.selectFrom('billing.payment').select('id').where('account_id', '=', accountId),
    )
    .execute()
}

/** The provider's notifications may describe the payer. What they were about, and that they came, stays. */
async function eraseWebhookBodies(tx: BillingTx, accountId: string): Promise<void> {
  await sql`
    update billing.webhook set sealed = null
    where sealed is not null and reference in (
      select p.provider_reference from billing.payment p join billing.invoice i on i.id = p.invoice_id
      where i.account_id = ${accountId})`.execute(tx)
}

/** Everything of this account that an answer may be about. */
async function listAnswered(tx: BillingTx, accountId: string): Promise<string[]> {
  const found = await sql<{ id: string }>`
    select id from billing.subscription where account_id = ${accountId}
    union all
    select id from billing.setup where account_id = ${accountId}
    union all
    select r.id from billing.refund r join billing.invoice i on i.id = r.invoice_id
    where i.account_id = ${accountId}`.execute(tx)
  return found.rows.map(({ id }) => id)
}
