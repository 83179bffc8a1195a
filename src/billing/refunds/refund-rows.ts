import { type InsertObject, sql } from 'kysely'
import { newId } from '../../platform/id.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Currency, Money } from '../money.ts'
import { realTimeIn } from '../payments/payment-rows.ts'
import type { BillingTables } from '../tables.ts'
import type { Refund, Refundable, RefundFailure, RefundReason } from './refund.ts'

export type RefundablePayment = Refundable & {
  readonly invoiceId: string
  readonly accountId: string
  readonly subscriptionId: string
  /** Undefined when the invoice has no payment that could be refunded. */
  readonly paymentId: string | undefined
  readonly currency: Currency
}

/** An invoice with its payment, locked against other refunds of it. */
export async function lockRefundable(
  tx: BillingTx,
  invoiceId: string,
): Promise<RefundablePayment | undefined> {
  const invoice = await tx
    .selectFrom('billing.invoice')
    .select(['account_id', 'subscription_id', 'currency'])
    .where('id', '=', invoiceId)
    .executeTakeFirst()
  if (!invoice) return undefined
  const payment = await tx
    .selectFrom('billing.payment')
    .select(['id', 'captured', 'refunded', 'refund_pending', 'disputed'])
    .where('invoice_id', '=', invoiceId)
    .where('status', '=', 'succeeded')
    .where('unmatched', '=', false)
    .forUpdate()
    .executeTakeFirst()
  // Read under the lock: every refund changes the invoice only while it holds the payment.
  const now = await sql<{ status: Refundable['invoiceStatus']; in_doubt: boolean }>`
    select i.status, exists (
      select from billing.refund r where r.payment_id = ${payment?.id ?? ''} and r.step = 'unknown') as in_doubt
    from billing.invoice i where i.id = ${invoiceId}`.execute(tx)
  return {
    invoiceId,
    accountId: invoice.account_id,
    subscriptionId: invoice.subscription_id,
    currency: invoice.currency,
    paymentId: payment?.id,
    invoiceStatus: now.rows[0]!.status,
    captured: payment?.captured ?? 0n,
    refunded: payment?.refunded ?? 0n,
    pending: payment?.refund_pending ?? 0n,
    disputed: payment?.disputed ?? false,
    inDoubt: now.rows[0]!.in_doubt,
  }
}

export type NewRefund = {
  readonly paymentId: string
  readonly invoiceId: string
  readonly accountId: string
  readonly amount: Money
  readonly reason: RefundReason | null
  readonly note: string | null
  readonly origin: 'request' | 'unmatched'
}

/** Writes the intent to refund and sets its amount aside. The check on the payment refuses more than was taken. */
export async function insertRefund(
  tx: BillingTx,
  now: Date,
  refund: NewRefund,
  nextLookupAfterMs: number,
): Promise<string> {
  // The payment's row lock hands out the numbers of its refunds.
  const payment = await tx
    .updateTable('billing.payment')
    .set((row) => ({ refund_pending: row('refund_pending', '+', refund.amount.minor) }))
    .where('id', '=', refund.paymentId)
    .returning('provider_reference')
    .executeTakeFirstOrThrow()
  const last = await tx
    .selectFrom('billing.refund')
    .select((row) => row.fn.max('n').as('n'))
    .where('payment_id', '=', refund.paymentId)
    .executeTakeFirst()
  const n = (last?.n ?? 0) + 1
  return insert(tx, now, refund, {
    n,
    provider_reference: sql<string>`billing.refund_reference(${payment.provider_reference}, ${n})`,
    reason: refund.reason,
    note: refund.note,
    origin: refund.origin,
    status: 'pending',
    step: 'queued',
    settled_at: null,
    next_lookup_at: realTimeIn(nextLookupAfterMs),
  })
}

/** Records money that went back without our asking, or that a database since lost had asked for as its n-th. */
export async function insertForeignRefund(
  tx: BillingTx,
  now: Date,
  refund: {
    paymentId: string
    invoiceId: string
    accountId: string
    amount: Money
    asked?: { readonly n: number; readonly reference: string } | undefined
  },
): Promise<string> {
  await tx
    .updateTable('billing.payment')
    .set((row) => ({ refunded: row('refunded', '+', refund.amount.minor) }))
    .where('id', '=', refund.paymentId)
    .execute()
  return insert(tx, now, refund, {
    n: refund.asked?.n ?? null,
    provider_reference: refund.asked?.reference ?? null,
    reason: 'other',
    note: null,
    origin: 'provider',
    status: 'succeeded',
    step: null,
    settled_at: now,
    next_lookup_at: null,
  })
}

type Stated =
  | 'n'
  | 'provider_reference'
  | 'reason'
  | 'note'
  | 'origin'
  | 'status'
  | 'step'
  | 'settled_at'
  | 'next_lookup_at'

/** Writes a refund of which no more is known than `columns` say. */
async function insert(
  tx: BillingTx,
  now: Date,
  refund: Pick<NewRefund, 'paymentId' | 'invoiceId' | 'accountId' | 'amount'>,
  columns: Pick<InsertObject<BillingTables, 'billing.refund'>, Stated>,
): Promise<string> {
  const id = newId('ref_', now)
  await tx
    .insertInto('billing.refund')
    .values({
      id,
      payment_id: refund.paymentId,
      invoice_id: refund.invoiceId,
      account_id: refund.accountId,
      amount: refund.amount.minor,
      currency: refund.amount.currency,
      code: null,
      created_at: now,
      sent_at: null,
      remaining: null,
      sending_until: null,
      lookup_by: null,
      not_found_since: null,
      resend_code: null,
      resend_since: null,
      ...columns,
    })
    .execute()
  return id
}

const mostForgotten = 100

/** Which of these references are of refunds that we would ask for next, and so have asked for before a restore. */
export async function findForgottenRefunds(
  tx: BillingTx,
  paymentId: string,
  references: readonly string[],
): Promise<{ n: number; reference: string }[]> {
  if (references.length === 0) return []
  const found = await sql<{ n: number; reference: string }>`
    select n, r.reference
    from billing.payment p
    cross join lateral (
      select coalesce(max(f.n), 0) as last from billing.refund f where f.payment_id = p.id
    ) known
    cross join lateral generate_series(1, known.last + ${mostForgotten}) as n
    cross join lateral (select billing.refund_reference(p.provider_reference, n) as reference) r
    where p.id = ${paymentId} and r.reference = any (${[...references]})
      and not exists (select from billing.refund f where f.provider_reference = r.reference)
    order by n`.execute(tx)
  return found.rows
}

/** Refunds of a payment that the provider was asked for and that have no outcome yet. */
export async function listSentRefunds(db: BillingDb, paymentId: string): Promise<string[]> {
  const found = await db
    .selectFrom('billing.refund')
    .select('id')
    .where('payment_id', '=', paymentId)
    .where('status', '=', 'pending')
    .where('sent_at', 'is not', null)
    .orderBy('id')
    .execute()
  return found.map(({ id }) => id)
}

/** Refunds of a payment that have no outcome yet, sent or not. */
export async function listPendingRefunds(db: BillingDb, paymentId: string): Promise<string[]> {
  const found = await db
    .selectFrom('billing.refund')
    .select('id')
    .where('payment_id', '=', paymentId)
    .where('status', '=', 'pending')
    .orderBy('id')
    .execute()
  return found.map(({ id }) => id)
}

export async function findRefund(db: BillingDb, refundId: string): Promise<Refund | undefined> {
  const row = await db
    .selectFrom('billing.refund as r')
    .innerJoin('billing.invoice as i', 'i.id', 'r.invoice_id')
    .innerJoin('billing.subscription as s', 's.id', 'i.subscription_id')
    .select([
      'r.id',
      'r.invoice_id',
      'r.payment_id',
      'r.account_id',
      'r.amount',
      'r.currency',
      'r.reason',
      'r.note',
      'r.status',
      'r.code',
      'r.created_at',
      's.time_zone',
    ])
    .where('r.id', '=', refundId)
    .executeTakeFirst()
  return (
    row && {
      refundId: row.id,
      invoiceId: row.invoice_id,
      paymentId: row.payment_id,
      accountId: row.account_id,
      amount: { minor: row.amount, currency: row.currency },
      reason: row.reason,
      note: row.note,
      status: row.status,
      code: row.code as RefundFailure | null,
      createdAt: row.created_at,
      timeZone: row.time_zone,
    }
  )
}

export type SettledRefund = {
  readonly refundId: string
  readonly paymentId: string
  readonly invoiceId: string
  readonly accountId: string
  readonly subscriptionId: string
  readonly amount: Money
  readonly unmatched: boolean
  /** What was taken. */
  readonly captured: bigint
  /** What has gone back of the payment in all. */
  readonly refunded: bigint
  /** What other refunds of it are still to give back. */
  readonly refundPending: bigint
}

/** Ends a pending refund and its claim on the payment. Undefined: it had ended already. */
export async function endRefund(
  tx: BillingTx,
  now: Date,
  refundId: string,
  end: { status: 'succeeded' } | { status: 'failed'; code: RefundFailure },
): Promise<SettledRefund | undefined> {
  const paymentLocked = await sql<{ id: string }>`
    select p.id from billing.payment p
    where p.id = (select payment_id from billing.refund where id = ${refundId})
    for update`.execute(tx)
  if (paymentLocked.rows.length === 0) return undefined
  const ended = await tx
    .updateTable('billing.refund')
    .set({
      status: end.status,
      code: end.status === 'failed' ? end.code : null,
      step: null,
      settled_at: now,
      sending_until: null,
      next_lookup_at: null,
      lookup_by: null,
    })
    .where('id', '=', refundId)
    .where('status', '=', 'pending')
    .returning(['payment_id', 'invoice_id', 'account_id', 'amount', 'currency'])
    .executeTakeFirst()
  if (!ended) return undefined
  const payment = await tx
    .updateTable('billing.payment')
    .set((row) => ({
      refund_pending: row('refund_pending', '-', ended.amount),
      ...(end.status === 'succeeded' && { refunded: row('refunded', '+', ended.amount) }),
    }))
    .where('id', '=', ended.payment_id)
    .returning(['subscription_id', 'unmatched', 'captured', 'refunded', 'refund_pending'])
    .executeTakeFirstOrThrow()
  return {
    refundId,
    paymentId: ended.payment_id,
    invoiceId: ended.invoice_id,
    accountId: ended.account_id,
    subscriptionId: payment.subscription_id,
    amount: { minor: ended.amount, currency: ended.currency },
    unmatched: payment.unmatched,
    captured: payment.captured,
    refunded: payment.refunded,
    refundPending: payment.refund_pending,
  }
}

/** Takes back a refund that had succeeded and failed after all. Undefined: no such refund had succeeded. */
export async function undoRefund(
  tx: BillingTx,
  now: Date,
  by: { readonly reference: string } | { readonly refundId: string },
): Promise<SettledRefund | undefined> {
  const undone = await tx
    .updateTable('billing.refund')
    .set({ status: 'failed', code: 'refund_declined', settled_at: now })
    .$if('reference' in by, (query) =>
      query.where('provider_reference', '=', (by as { reference: string }).reference),
    )
    .$if('refundId' in by, (query) => query.where('id', '=', (by as { refundId: string }).refundId))
    .where('status', '=', 'succeeded')
    .returning(['id', 'payment_id', 'invoice_id', 'account_id', 'amount', 'currency'])
    .executeTakeFirst()
  if (!undone) return undefined
  const payment = await tx
    .updateTable('billing.payment')
    .set((row) => ({ refunded: row('refunded', '-', undone.amount) }))
    .where('id', '=', undone.payment_id)
    .returning(['subscription_id', 'unmatched', 'captured', 'refunded', 'refund_pending'])
    .executeTakeFirstOrThrow()
  return {
    refundId: undone.id,
    paymentId: undone.payment_id,
    invoiceId: undone.invoice_id,
    accountId: undone.account_id,
    subscriptionId: payment.subscription_id,
    amount: { minor: undone.amount, currency: undone.currency },
    unmatched: payment.unmatched,
    captured: payment.captured,
    refunded: payment.refunded,
    refundPending: payment.refund_pending,
  }
}

/** Forgets what was written about an account's refunds. */
export async function eraseRefundNotes(tx: BillingTx, accountId: string): Promise<void> {
  await tx
    .updateTable('billing.refund')
    .set({ note: null })
    .where('account_id', '=', accountId)
    .where('note', 'is not', null)
    .execute()
}
