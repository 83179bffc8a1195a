import { sql } from 'kysely'
import { newId } from '../../platform/id.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Currency, Money } from '../money.ts'
import type { ResendDeclines } from '../payments/doubt.ts'
import { realTimeIn, type Waiting } from '../payments/payment-rows.ts'
import type { Refund, Refundable, RefundFailure, RefundReason } from './refund.ts'

export type LockedPayment = Refundable & {
  readonly invoiceId: string
  readonly accountId: string
  readonly subscriptionId: string
  /** Undefined when the invoice has no payment that could be refunded. */
  readonly paymentId: string | undefined
  readonly currency: Currency
}

/** An invoice with its payment, locked against other refunds of it. */
export async function lockRefundable(tx: BillingTx, invoiceId: string): Promise<LockedPayment | undefined> {
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
  const id = newId('ref_', now)
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
  await tx
    .insertInto('billing.refund')
    .values({
      id,
      payment_id: refund.paymentId,
      n,
      provider_reference: sql<string>`billing.refund_reference(${payment.provider_reference}, ${n})`,
      invoice_id: refund.invoiceId,
      account_id: refund.accountId,
      amount: refund.amount.minor,
      currency: refund.amount.currency,
      reason: refund.reason,
      note: refund.note,
      origin: refund.origin,
      status: 'pending',
      step: 'queued',
      code: null,
      created_at: now,
      sent_at: null,
      remaining: null,
      settled_at: null,
      sending_until: null,
      next_lookup_at: realTimeIn(nextLookupAfterMs),
      lookup_by: null,
      not_found_since: null,
      resend_code: null,
      resend_since: null,
    })
    .execute()
  return id
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
  const id = newId('ref_', now)
  await tx
    .updateTable('billing.payment')
    .set((row) => ({ refunded: row('refunded', '+', refund.amount.minor) }))
    .where('id', '=', refund.paymentId)
    .execute()
  await tx
    .insertInto('billing.refund')
    .values({
      id,
      payment_id: refund.paymentId,
      n: refund.asked?.n ?? null,
      provider_reference: refund.asked?.reference ?? null,
      invoice_id: refund.invoiceId,
      account_id: refund.accountId,
      amount: refund.amount.minor,
      currency: refund.amount.currency,
      reason: 'other',
      note: null,
      origin: 'provider',
      status: 'succeeded',
      step: null,
      code: null,
      created_at: now,
      sent_at: null,
      remaining: null,
      settled_at: now,
      sending_until: null,
      next_lookup_at: null,
      lookup_by: null,
      not_found_since: null,
      resend_code: null,
      resend_since: null,
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

/** A refund that is this process's to send or look up. */
export type LeasedRefund = {
  readonly refundId: string
  readonly origin: 'request' | 'unmatched' | 'provider'
  readonly amount: Money
  readonly reason: RefundReason | null
  /** Key and reference at the provider, derived from the payment and the refund's number. */
  readonly reference: string
  /** Who took the payment and gives it back. */
  readonly provider: string
  readonly payment: { readonly reference: string; readonly providerId: string; readonly amount: Money }
  /** What has gone back of the payment without this one. */
  readonly refunded: bigint
  /** What was left of the payment when this one was first sent. */
  readonly remaining: Money
  readonly askedAt: Date
  /** It belongs to a time of which a backup may have forgotten what was sent. */
  readonly maybeSentBefore: boolean
  /** Null: nothing has left us yet. */
  readonly sentAt: Date | null
  /** The provider has said that it works on it. */
  readonly accepted: boolean
  readonly lookupCount: number
  readonly notFoundCount: number
  readonly notFoundSince: Date | null
  readonly resendDeclines: (ResendDeclines & { readonly code: string }) | null
}

export type Turn =
  | { kind: 'mine'; refund: LeasedRefund }
  | { kind: 'wait'; inDoubt: boolean }
  | { kind: 'settled' }

/**
 * Takes a refund's turn. Only one refund of a payment is on its way at a time: a unique index says so, and whoever
 * finds it taken waits.
 */
export async function takeTurn(db: BillingDb, refundId: string, now: Date, leaseMs: number): Promise<Turn> {
  try {
    return await db.transaction().execute((tx) => tryTurn(tx, refundId, now, leaseMs))
  } catch (error) {
    if ((error as { constraint?: string }).constraint === 'refund_one_sent')
      return { kind: 'wait', inDoubt: false }
    throw error
  }
}

async function tryTurn(tx: BillingTx, refundId: string, now: Date, leaseMs: number): Promise<Turn> {
  const found = await sql<TurnRow>`
    select r.id, r.provider_reference, r.origin, r.amount, r.currency, r.reason, r.status, r.step, r.sent_at, r.remaining,
      r.lookup_count, r.not_found_count, r.not_found_since, r.resend_declines, r.resend_code, r.resend_since, r.created_at,
      exists (select from billing.invoice i, billing.installation n
        where i.id = r.invoice_id and i.issued_at <= n.lookup_first_before) as maybe_sent_before,
      coalesce(r.sending_until > statement_timestamp(), false) as leased,
      p.provider_reference as payment_reference, p.provider, p.provider_id, p.captured,
      -- What the provider is still working on is as good as gone.
      p.refunded + coalesce((select sum(o.amount) from billing.refund o
        where o.payment_id = r.payment_id and o.id <> r.id and o.step = 'accepted'), 0)::bigint as refunded,
      (select o.step from billing.refund o
       where o.payment_id = r.payment_id and o.id <> r.id and o.step in ('sending', 'unknown') limit 1) as other_step
    from billing.refund r join billing.payment p on p.id = r.payment_id
    where r.id = ${refundId}
    for update of r`.execute(tx)
  const row = found.rows[0]
  if (row?.status !== 'pending') return { kind: 'settled' }
  if (row.leased) return { kind: 'wait', inDoubt: false }
  if (row.step === 'queued' && row.other_step !== null)
    return { kind: 'wait', inDoubt: row.other_step === 'unknown' }
  const refund = toLeased(row)
  const begins = { step: 'sending' as const, sent_at: now, remaining: refund.remaining.minor }
  await tx
    .updateTable('billing.refund')
    .set({
      ...(row.step === 'queued' && begins),
      sending_until: realTimeIn(leaseMs),
      next_lookup_at: realTimeIn(leaseMs),
      lookup_by: null,
    })
    .where('id', '=', refundId)
    .execute()
  return { kind: 'mine', refund }
}

type TurnRow = {
  id: string
  provider_reference: string
  origin: LeasedRefund['origin']
  amount: bigint
  currency: Currency
  reason: RefundReason | null
  status: Refund['status']
  step: 'queued' | 'sending' | 'unknown' | 'accepted' | null
  sent_at: Date | null
  remaining: bigint | null
  lookup_count: number
  not_found_count: number
  not_found_since: Date | null
  resend_declines: number
  resend_code: string | null
  resend_since: Date | null
  created_at: Date
  maybe_sent_before: boolean
  leased: boolean
  payment_reference: string
  provider: string
  provider_id: string | null
  captured: bigint
  refunded: bigint
  other_step: string | null
}

function toLeased(row: TurnRow): LeasedRefund {
  const isQueued = row.step === 'queued'
  return {
    refundId: row.id,
    origin: row.origin,
    amount: { minor: row.amount, currency: row.currency },
    reason: row.reason,
    reference: row.provider_reference,
    provider: row.provider,
    payment: {
      reference: row.payment_reference,
      providerId: row.provider_id ?? '',
      amount: { minor: row.captured, currency: row.currency },
    },
    refunded: row.refunded,
    remaining: { minor: isQueued ? row.captured - row.refunded : row.remaining!, currency: row.currency },
    askedAt: row.created_at,
    maybeSentBefore: row.maybe_sent_before,
    sentAt: isQueued ? null : row.sent_at,
    accepted: row.step === 'accepted',
    lookupCount: row.lookup_count,
    notFoundCount: row.not_found_count,
    notFoundSince: row.not_found_since,
    resendDeclines:
      row.resend_code !== null && row.resend_since !== null
        ? { count: row.resend_declines, since: row.resend_since, code: row.resend_code }
        : null,
  }
}

/** Puts a refund back in line: nothing left us. */
export async function requeueRefund(
  db: BillingDb,
  refundId: string,
  nextLookupAfterMs: number,
): Promise<void> {
  await db
    .updateTable('billing.refund')
    .set((row) => ({
      step: 'queued',
      sent_at: null,
      sending_until: null,
      next_lookup_at: realTimeIn(nextLookupAfterMs),
      unanswered: true,
      lookup_count: row('lookup_count', '+', 1),
    }))
    .where('id', '=', refundId)
    .where('status', '=', 'pending')
    .execute()
}

/** No final answer: `unknown` has none at all, `accepted` is being worked on at the provider. */
export async function parkRefund(
  db: BillingDb,
  refundId: string,
  step: 'unknown' | 'accepted',
  waiting: Waiting,
): Promise<void> {
  await db
    .updateTable('billing.refund')
    .set((row) => ({
      step,
      sending_until: null,
      next_lookup_at: realTimeIn(waiting.nextLookupAfterMs),
      unanswered: waiting.unanswered,
      lookup_by: waiting.lookupBy,
      lookup_count: row('lookup_count', '+', 1),
      ...(waiting.none && { not_found_count: waiting.none.count, not_found_since: waiting.none.since }),
      resend_declines: waiting.resendDeclines?.count ?? 0,
      resend_code: waiting.resendDeclines?.code ?? null,
      resend_since: waiting.resendDeclines?.since ?? null,
    }))
    .where('id', '=', refundId)
    .where('status', '=', 'pending')
    .execute()
}

export type SettledRefund = {
  readonly refundId: string
  readonly paymentId: string
  readonly invoiceId: string
  readonly accountId: string
  readonly subscriptionId: string
  readonly amount: Money
  readonly unmatched: boolean
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
    .returning(['subscription_id', 'unmatched', 'refunded', 'refund_pending'])
    .executeTakeFirstOrThrow()
  return {
    refundId,
    paymentId: ended.payment_id,
    invoiceId: ended.invoice_id,
    accountId: ended.account_id,
    subscriptionId: payment.subscription_id,
    amount: { minor: ended.amount, currency: ended.currency },
    unmatched: payment.unmatched,
    refunded: payment.refunded,
    refundPending: payment.refund_pending,
  }
}

/** Takes back a refund that had succeeded and failed after all. Undefined: none of that reference had succeeded. */
export async function undoRefund(
  tx: BillingTx,
  now: Date,
  reference: string,
): Promise<SettledRefund | undefined> {
  const undone = await tx
    .updateTable('billing.refund')
    .set({ status: 'failed', code: 'refund_declined', settled_at: now })
    .where('provider_reference', '=', reference)
    .where('status', '=', 'succeeded')
    .returning(['id', 'payment_id', 'invoice_id', 'account_id', 'amount', 'currency'])
    .executeTakeFirst()
  if (!undone) return undefined
  const payment = await tx
    .updateTable('billing.payment')
    .set((row) => ({ refunded: row('refunded', '-', undone.amount) }))
    .where('id', '=', undone.payment_id)
    .returning(['subscription_id', 'unmatched', 'refunded', 'refund_pending'])
    .executeTakeFirstOrThrow()
  return {
    refundId: undone.id,
    paymentId: undone.payment_id,
    invoiceId: undone.invoice_id,
    accountId: undone.account_id,
    subscriptionId: payment.subscription_id,
    amount: { minor: undone.amount, currency: undone.currency },
    unmatched: payment.unmatched,
    refunded: payment.refunded,
    refundPending: payment.refund_pending,
  }
}

/** Refunds that are due for a look and that nobody is sending; they are not due again for a second. */
export async function takeDueRefunds(db: BillingDb, now: Date, limit: number): Promise<string[]> {
  const open = sql`status = 'pending' and (sending_until is null or sending_until <= statement_timestamp())`
  // Real time and service time are asked apart, each by its own index, so that a claim costs the same however many wait.
  const found = await sql<{ id: string }>`
    with by_look as (
      select id from billing.refund where ${open} and next_lookup_at <= statement_timestamp()
      order by next_lookup_at limit ${limit} for update skip locked),
    by_check as (
      select id from billing.refund where ${open} and lookup_by <= ${now}
      order by lookup_by limit ${limit} for update skip locked)
    update billing.refund set next_lookup_at = ${realTimeIn(1000)}, lookup_by = null
    where id in (select id from by_look union select id from by_check limit ${limit})
    returning id`.execute(db)
  return found.rows.map(({ id }) => id).sort()
}
