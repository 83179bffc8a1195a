import { eraseAnswers } from '../../platform/idempotency.ts'
import { eraseContact, findAccount, lockAccount } from '../accounts/account-rows.ts'
import type { BillingApp, BillingTx } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { insertEvents } from '../events/event-rows.ts'
import { eraseMethods } from '../payments/payment-method-rows.ts'
import { eraseSetups } from '../payments/setup-rows.ts'
import { eraseRefundNotes } from '../refunds/refund-rows.ts'
import { eraseSettlementNotes } from '../refunds/unmatched-rows.ts'
import { refuse } from '../refusals.ts'
import { eraseCancelNotes } from '../subscriptions/cancellation-rows.ts'
import { hasLiveSubscription, lockSubscriptions } from '../subscriptions/subscription-rows.ts'
import { eraseWebhookBodies, listAnswered } from './erasure-rows.ts'

/** Forgets the person behind an account: contact, payment methods and every word they wrote. Money and the trial row stay. */
export async function eraseAccount(app: BillingApp, accountId: string, actor: Actor): Promise<Date> {
  const now = app.clock()
  await app.db.transaction().execute(async (tx) => {
    // Subscriptions before the account, and the account before payment methods, as everywhere: whoever settles a last charge of a
    // subscription that has ended meets us at its lock.
    const subscriptions = await lockSubscriptions(tx, accountId)
    if (subscriptions.some(({ status }) => status !== 'canceled')) throw refuse('subscription_exists')
    // The account's row lock keeps a subscription from starting meanwhile: it needs the row to refer to. One may have
    // started just before, so that is asked again.
    if (!(await lockAccount(tx, accountId))) throw refuse('account_not_found')
    if (await hasLiveSubscription(tx, accountId)) throw refuse('subscription_exists')

    await eraseTraces(tx, accountId, now)
    await insertAudit(tx, { at: now, actor, action: 'account.erase', accountId, target: accountId })
    await insertEvents(tx, now, [{ type: 'account.erased', accountId, subscriptionId: null }])
  })
  return (await findAccount(app.db, accountId))?.erasedAt ?? now
}

/** Removes every word about the person. The caller holds the account's row. */
export async function eraseTraces(tx: BillingTx, accountId: string, now: Date): Promise<void> {
  await eraseCancelNotes(tx, accountId)
  await eraseContact(tx, accountId, now)
  await eraseRefundNotes(tx, accountId)
  await eraseMethods(tx, accountId, now)
  await eraseSetups(tx, accountId)
  await eraseWebhookBodies(tx, accountId)
  await eraseAnswers(tx, await listAnswered(tx, accountId), now)
  await eraseSettlementNotes(tx, accountId)
}
