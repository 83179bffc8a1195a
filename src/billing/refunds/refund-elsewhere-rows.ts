import { sql } from 'kysely'
import type { BillingTx } from '../app.ts'

/**
 * The refund, recorded as made by somebody else, that a missing amount is most likely of: one of just that amount, else the
 * newest. The provider names none of them.
 */
export async function findRefundElsewhere(
  tx: BillingTx,
  paymentId: string,
  missing: bigint,
): Promise<string | undefined> {
  const found = await sql<{ id: string }>`
    select id from billing.refund
    where payment_id = ${paymentId} and origin = 'provider' and provider_reference is null and status = 'succeeded'
    order by amount = ${missing} desc, id desc limit 1`.execute(tx)
  return found.rows[0]?.id
}

/** The references of the refunds of a payment that went through and that the provider knows by a name of ours. */
export async function listNamedRefunds(tx: BillingTx, paymentId: string): Promise<string[]> {
  const found = await sql<{ reference: string }>`
    select provider_reference as reference from billing.refund
    where payment_id = ${paymentId} and provider_reference is not null and status = 'succeeded'
    order by id`.execute(tx)
  return found.rows.map(({ reference }) => reference)
}
