import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'
import type { ProviderDispute } from '../providers/port.ts'

/** Records the provider's word on a dispute, what it cost so far and when to ask again. */
export async function updateDispute(
  tx: BillingTx,
  paymentId: string,
  dispute: ProviderDispute,
  { lookupAt, lost, postings }: { lookupAt: Date | null; lost: bigint; postings: number },
): Promise<void> {
  await tx
    .updateTable('billing.payment')
    .set((row) => ({
      dispute_status: dispute.status,
      dispute_amount: dispute.amount.minor,
      dispute_opened_at: dispute.openedAt,
      dispute_closed_at: dispute.closedAt,
      dispute_lookup_at: lookupAt,
      dispute_lost: lost,
      dispute_postings: row('dispute_postings', '+', postings),
    }))
    .where('id', '=', paymentId)
    .execute()
}

/**
 * The provider refused something because the payment is disputed. How much of it and since when, the next lookup tells.
 * False: we knew.
 */
export async function markDisputed(tx: BillingTx, paymentId: string, now: Date): Promise<boolean> {
  const marked = await tx
    .updateTable('billing.payment')
    .set((row) => ({
      dispute_status: 'open' as const,
      dispute_amount: row('captured', '-', row.ref('refunded')),
      dispute_opened_at: now,
      dispute_closed_at: null,
      dispute_lookup_at: now,
    }))
    .where('id', '=', paymentId)
    .where('disputed', '=', false)
    .returning('id')
    .executeTakeFirst()
  return marked !== undefined
}

export type OpenDispute = { readonly id: string; readonly reference: string }

/** Takes open disputes whose lookup is due, and puts their next one off until then. */
export async function claimOpenDisputes(
  db: BillingDb,
  now: Date,
  nextLookupAt: Date,
  limit: number,
): Promise<OpenDispute[]> {
  const claimed = await sql<OpenDispute>`
    update billing.payment p set dispute_lookup_at = ${nextLookupAt}
    from (
      select id from billing.payment where dispute_status = 'open' and dispute_lookup_at <= ${now}
      order by dispute_lookup_at limit ${limit} for update skip locked
    ) due
    where p.id = due.id
    returning p.id, p.provider_reference as reference`.execute(db)
  return claimed.rows
}

/** One that ended meanwhile is not asked about again. */
export async function setDisputeLookup(db: BillingDb, paymentId: string, at: Date): Promise<void> {
  await db
    .updateTable('billing.payment')
    .set({ dispute_lookup_at: at })
    .where('id', '=', paymentId)
    .where('dispute_status', '=', 'open')
    .execute()
}
