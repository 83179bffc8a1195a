import type { BillingDb, BillingTx } from '../app.ts'
import type { Currency, Money } from '../money.ts'
import type { KnownDispute } from '../payments/record-dispute.ts'

export type KnownPayment = {
  readonly paymentId: string
  readonly provider: string
  readonly providerId: string | null
  readonly reference: string
  readonly amount: Money
  /** Somebody is at it, or was until their lease ran out. */
  readonly isBeingSent: boolean
  /** We have given it up, or the provider declined it. */
  readonly isFailed: boolean
  readonly knew: KnownBefore
}

/** What we knew of a payment before the provider was asked about it: whatever changed since may be newer than the answer. */
export type KnownBefore = {
  readonly refunded: bigint
  readonly dispute: KnownDispute['status']
  readonly lost: bigint
}

/** Nothing has come to a payment that is not known to be taken. */
export const untouched: KnownBefore = { refunded: 0n, dispute: null, lost: 0n }

/** The payment that a provider knows by this reference of ours. */
export async function findByReference(db: BillingDb, reference: string): Promise<KnownPayment | undefined> {
  const found = await db
    .selectFrom('billing.payment')
    .select([
      'id',
      'provider',
      'provider_id',
      'amount',
      'currency',
      'status',
      'refunded',
      'dispute_status',
      'dispute_lost',
    ])
    .where('provider_reference', '=', reference)
    .executeTakeFirst()
  return (
    found && {
      paymentId: found.id,
      provider: found.provider,
      providerId: found.provider_id,
      reference,
      amount: { minor: found.amount, currency: found.currency },
      isBeingSent: found.status === 'sending',
      isFailed: found.status === 'failed',
      knew: { refunded: found.refunded, dispute: found.dispute_status, lost: found.dispute_lost },
    }
  )
}

/** What may change about a payment after its money was taken. */
export type TakenPayment = {
  readonly paymentId: string
  readonly invoiceId: string
  readonly accountId: string
  readonly subscriptionId: string
  readonly currency: Currency
  readonly unmatched: boolean
  readonly captured: bigint
  readonly refunded: bigint
  readonly refundPending: bigint
  readonly dispute: KnownDispute & {
    readonly amount: bigint | null
    readonly openedAt: Date | null
    readonly closedAt: Date | null
  }
}

/** Locked, so that no refund and no dispute of it is recorded meanwhile. */
export async function lockTakenPayment(tx: BillingTx, paymentId: string): Promise<TakenPayment> {
  const row = await tx
    .selectFrom('billing.payment')
    .select([
      'invoice_id',
      'account_id',
      'subscription_id',
      'captured',
      'refunded',
      'refund_pending',
      'currency',
      'unmatched',
      'dispute_status',
      'dispute_amount',
      'dispute_opened_at',
      'dispute_closed_at',
      'dispute_lost',
      'dispute_postings',
    ])
    .where('id', '=', paymentId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  const about = {
    paymentId,
    invoiceId: row.invoice_id,
    accountId: row.account_id,
    subscriptionId: row.subscription_id,
    unmatched: row.unmatched,
  }
  return {
    ...about,
    currency: row.currency,
    captured: row.captured,
    refunded: row.refunded,
    refundPending: row.refund_pending,
    dispute: {
      ...about,
      status: row.dispute_status,
      amount: row.dispute_amount,
      openedAt: row.dispute_opened_at,
      closedAt: row.dispute_closed_at,
      lost: row.dispute_lost,
      postings: row.dispute_postings,
    },
  }
}
