import { sql } from 'kysely'
import { highestId } from '../../platform/id.ts'
import type { BillingDb } from '../app.ts'
import type { OurPayment } from './compare.ts'

/** The providers that payments of that time were made with. */
export async function listProvidersOf(db: BillingDb, from: Date, to: Date): Promise<string[]> {
  const { rows } = await sql<{ provider: string }>`
    select distinct provider from billing.payment where created_at >= ${from} and created_at < ${to}`.execute(
    db,
  )
  return rows.map(({ provider }) => provider)
}

export type PaymentsOfTime = {
  readonly provider: string
  readonly from: Date
  readonly to: Date
  /** Those in which money moved or may have moved, or only those whose money was taken. */
  readonly which: 'not_failed' | 'succeeded'
  /** The id behind which to go on. */
  readonly after: string
}

const pageSize = 500

/** A page of payments that were made in some time, by id. An id tells when it was made, so that nothing older or newer is read. */
export async function listPaymentsOfTime(
  db: BillingDb,
  { provider, from, to, which, after }: PaymentsOfTime,
): Promise<{ paymentId: string; reference: string }[]> {
  return db
    .selectFrom('billing.payment')
    .select(['id as paymentId', 'provider_reference as reference'])
    .where('created_at', '>=', from)
    .where('created_at', '<', to)
    .where('provider', '=', provider)
    .$if(which === 'succeeded', (query) => query.where('status', '=', 'succeeded'))
    .$if(which === 'not_failed', (query) => query.where('status', '<>', 'failed'))
    .where('id', '>', after)
    .where('id', '<', highestId('pay_', to))
    .orderBy('id')
    .limit(pageSize)
    .execute()
}

/** The payment that goes by this reference, and who was asked for it. */
export async function findPlace(
  db: BillingDb,
  reference: string,
): Promise<{ paymentId: string; provider: string } | undefined> {
  return db
    .selectFrom('billing.payment')
    .select(['id as paymentId', 'provider'])
    .where('provider_reference', '=', reference)
    .executeTakeFirst()
}

/** What we know of the payments that a provider knows by these references. */
export async function findOurs(
  db: BillingDb,
  provider: string,
  references: readonly string[],
): Promise<ReadonlyMap<string, OurPayment>> {
  if (references.length === 0) return new Map()
  const rows = await db
    .selectFrom('billing.payment')
    .select([
      'id',
      'provider_reference',
      'provider_id',
      'account_id',
      'status',
      'amount',
      'currency',
      'refunded',
      'refund_pending',
      'dispute_status',
      'dispute_amount',
      'dispute_lost',
    ])
    .where('provider_reference', 'in', [...references])
    .where('provider', '=', provider)
    .execute()
  return new Map(
    rows.map((row) => [
      row.provider_reference,
      {
        paymentId: row.id,
        reference: row.provider_reference,
        providerId: row.provider_id,
        accountId: row.account_id,
        status: row.status,
        amount: { minor: row.amount, currency: row.currency },
        refunded: row.refunded,
        refundPending: row.refund_pending,
        dispute: row.dispute_status && {
          status: row.dispute_status,
          amount: row.dispute_amount!,
          lost: row.dispute_lost,
        },
      },
    ]),
  )
}
