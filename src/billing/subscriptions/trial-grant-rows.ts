import type { BillingTx } from '../app.ts'

/** Records the one trial of an account, which nothing deletes. False: it has had one. */
export async function insertTrialGrant(
  tx: BillingTx,
  grant: { accountId: string; subscriptionId: string; planId: string; grantedAt: Date },
): Promise<boolean> {
  const granted = await tx
    .insertInto('billing.trial_grant')
    .values({
      account_id: grant.accountId,
      subscription_id: grant.subscriptionId,
      plan_id: grant.planId,
      granted_at: grant.grantedAt,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('account_id')
    .executeTakeFirst()
  return granted !== undefined
}
