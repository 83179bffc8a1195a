import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'

/** A second payment under a reference of ours, at the provider that has it. */
export type DuplicatePayment = {
  readonly provider: string
  readonly providerId: string
  /** Ours, and the reference of both. */
  readonly paymentId: string
  readonly reference: string
}

/** Oldest first. */
export async function listDuplicates(db: BillingDb, limit: number): Promise<DuplicatePayment[]> {
  const found = await sql<DuplicatePayment>`
    select d.provider, d.provider_id as "providerId", d.payment_id as "paymentId", p.provider_reference as reference
    from billing.duplicate_payment d join billing.payment p on p.id = d.payment_id
    order by d.found_at, d.provider, d.provider_id limit ${limit}`.execute(db)
  return found.rows
}

/** Under the payment's lock, as `deleteDuplicate` is: neither overlooks what the other does. */
export async function insertDuplicate(
  tx: BillingTx,
  now: Date,
  { provider, providerId, paymentId }: DuplicatePayment,
): Promise<void> {
  await sql`select from billing.payment where id = ${paymentId} for update`.execute(tx)
  await sql`
    insert into billing.duplicate_payment (provider, provider_id, payment_id, found_at)
    values (${provider}, ${providerId}, ${paymentId}, ${now})
    on conflict do nothing`.execute(tx)
}

/** Says how many others of the same payment are left. */
export async function deleteDuplicate(
  tx: BillingTx,
  { provider, providerId, paymentId }: DuplicatePayment,
): Promise<number> {
  await sql`select from billing.payment where id = ${paymentId} for update`.execute(tx)
  await sql`
    delete from billing.duplicate_payment
    where provider = ${provider} and provider_id = ${providerId}`.execute(tx)
  const left = await sql<{ count: number }>`
    select count(*)::int as count from billing.duplicate_payment where payment_id = ${paymentId}`.execute(tx)
  return left.rows[0]!.count
}
