import { sql } from 'kysely'
import type { BillingDb } from '../app.ts'
import { isOpenPayment } from '../unsettled-rows.ts'
import { realTimeIn } from './payment-rows.ts'

/** A payment method that nobody uses any more and its provider still stores. */
export type MethodToDelete = {
  readonly methodId: string
  readonly provider: string
  readonly sealed: Buffer
  readonly tries: number
  /** A charge of it is in doubt. */
  readonly awaited: boolean
  /** The same one is offered or in use elsewhere. */
  readonly inUse: boolean
}

/** Those whose deletion is due. Each is leased to the caller. */
export async function leaseMethodsToDelete(
  db: BillingDb,
  leaseMs: number,
  limit: number,
): Promise<MethodToDelete[]> {
  const found = await sql<MethodToDelete>`
    with leased as (
      update billing.payment_method_to_delete set next_try_at = ${realTimeIn(leaseMs)}
      where payment_method_id in (
        select payment_method_id from billing.payment_method_to_delete
        where next_try_at <= statement_timestamp()
        order by next_try_at limit ${limit} for update skip locked)
      returning payment_method_id, provider, sealed, tries, key_hash
    )
    select d.payment_method_id as "methodId", d.provider, d.sealed, d.tries,
      exists (
        select from billing.payment p join billing.payment_method m on m.id = p.payment_method_id
        where ${isOpenPayment('p')} and (m.id = d.payment_method_id or m.key_hash = d.key_hash)
      ) as awaited,
      exists (
        select from billing.payment_method m
        where m.key_hash = d.key_hash and m.state <> 'dropped'
          and (m.state = 'pending' and m.id <> d.payment_method_id or exists (
            select from billing.subscription s where s.payment_method_id = m.id and s.status <> 'canceled' and s.id = m.subscription_id))
      ) as "inUse"
    from leased d`.execute(db)
  return found.rows
}

/** Nothing is left to delete, and nothing to open. */
export async function endDeletion(db: BillingDb, methodId: string): Promise<void> {
  await sql`
    with gone as (delete from billing.payment_method_to_delete where payment_method_id = ${methodId} returning payment_method_id)
    update billing.payment_method m set sealed = null
    from gone where m.id = gone.payment_method_id
      and not exists (select from billing.subscription s where s.id = m.subscription_id and s.payment_method_id = m.id)`.execute(
    db,
  )
}

export async function postponeDeletion(
  db: BillingDb,
  methodId: string,
  { afterMs, tries }: { afterMs: number; tries: number },
): Promise<void> {
  await db
    .updateTable('billing.payment_method_to_delete')
    .set({ next_try_at: realTimeIn(afterMs), tries })
    .where('payment_method_id', '=', methodId)
    .execute()
}
