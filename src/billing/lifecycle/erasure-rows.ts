import { sql } from 'kysely'
import type { BillingTx } from '../app.ts'

/** The provider's notifications may describe the payer. What they were about, and that they came, stays. */
export async function eraseWebhookBodies(tx: BillingTx, accountId: string): Promise<void> {
  await sql`
    update billing.webhook set sealed = null
    where sealed is not null and reference in (
      select p.provider_reference from billing.payment p join billing.invoice i on i.id = p.invoice_id
      where i.account_id = ${accountId})`.execute(tx)
}

/** Everything of this account that an answer may be about. */
export async function listAnswered(tx: BillingTx, accountId: string): Promise<string[]> {
  const found = await sql<{ id: string }>`
    select id from billing.subscription where account_id = ${accountId}
    union all
    select id from billing.setup where account_id = ${accountId}
    union all
    select r.id from billing.refund r join billing.invoice i on i.id = r.invoice_id
    where i.account_id = ${accountId}`.execute(tx)
  return found.rows.map(({ id }) => id)
}
