import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'

/** Which of these lines of a history the database knows: their events happened in it, or they were applied to it. */
export async function listKnownLines(db: BillingDb, keys: readonly string[]): Promise<ReadonlySet<string>> {
  const events = keys.filter((key) => key.startsWith('event:')).map((key) => key.slice(6))
  const { rows } = await sql<{ key: string }>`
    select 'event:' || id as key from billing.event where id = any (${events})
    union all select line from billing.history_applied where line = any (${[...keys]})`.execute(db)
  return new Set(rows.map(({ key }) => key))
}

export async function insertApplied(tx: BillingTx, keys: readonly string[], now: Date): Promise<void> {
  await tx
    .insertInto('billing.history_applied')
    .values(keys.map((key) => ({ line: key, applied_at: now })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** False: it was revoked, or there is no such token. */
export async function revokeTokenAgain(tx: BillingTx, tokenId: string, at: Date): Promise<boolean> {
  const revoked = await sql`
    update platform.token set revoked_at = ${at} where id = ${tokenId} and revoked_at is null
    returning id`.execute(tx)
  return revoked.rows.length > 0
}

/** An end comes earlier and never later. False: it ended by then already, or there is no such token. */
export async function replaceTokenAgain(
  tx: BillingTx,
  tokenId: string,
  { by, until }: { by: string; until: Date },
): Promise<boolean> {
  const replaced = await sql`
    update platform.token set replaced_by = ${by}, expires_at = ${until}
    where id = ${tokenId} and (expires_at is null or expires_at > ${until})
    returning id`.execute(tx)
  return replaced.rows.length > 0
}

/** Payment methods offered for a trial together with another plan than this one, which nobody has used yet. */
export async function listOffersOfOtherPlans(
  tx: BillingTx,
  subscriptionId: string,
  planId: string,
): Promise<string[]> {
  const found = await tx
    .selectFrom('billing.payment_method')
    .select('id')
    .where('subscription_id', '=', subscriptionId)
    .where('state', '=', 'pending')
    .where('purpose', '=', 'trial')
    .where('plan_id', '<>', planId)
    .execute()
  return found.map(({ id }) => id)
}

/** Takes a payment method's key and description away: its customer had replaced it. */
export async function markMethodLost(tx: BillingTx, methodId: string): Promise<void> {
  await tx
    .updateTable('billing.payment_method')
    .set({ sealed: null, brand: null, last4: null, expires: null, failure: 'lost_in_restore' })
    .where('id', '=', methodId)
    .execute()
}
