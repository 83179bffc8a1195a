import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Currency, Money } from '../money.ts'
import type { ResendDeclines } from '../payments/doubt.ts'
import { realTimeIn, type Waiting, waitingColumns } from '../payments/payment-rows.ts'
import type { BillingTables } from '../tables.ts'
import type { Refund, RefundReason } from './refund.ts'

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
  /** The part of it that is certain. */
  readonly settled: bigint
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

/** The other refund was sent and has no answer yet. A unique index says too that it is one of a payment at a time. */
const inFlight = sql`o.step in ('sending', 'unknown')`

/** Takes a refund's turn, unless another refund of its payment is on its way. */
export async function takeTurn(tx: BillingTx, refundId: string, now: Date, leaseMs: number): Promise<Turn> {
  const found = await sql<TurnRow>`
    select r.id, r.provider_reference, r.origin, r.amount, r.currency, r.reason, r.status, r.step, r.sent_at, r.remaining,
      r.lookup_count, r.not_found_count, r.not_found_since, r.resend_declines, r.resend_code, r.resend_since, r.created_at,
      exists (select from billing.invoice i, billing.installation n
        where i.id = r.invoice_id and i.issued_at <= n.lookup_first_before) as maybe_sent_before,
      coalesce(r.sending_until > statement_timestamp(), false) as leased,
      p.provider_reference as payment_reference, p.provider, p.provider_id, p.captured, p.refunded as settled,
      -- What the provider is still working on is as good as gone.
      p.refunded + coalesce((select sum(o.amount) from billing.refund o
        where o.payment_id = r.payment_id and o.id <> r.id and o.step = 'accepted'), 0)::bigint as refunded,
      (select o.step from billing.refund o
       where o.payment_id = r.payment_id and o.id <> r.id and ${inFlight} limit 1) as other_step
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
  step: BillingTables['billing.refund']['step']
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
  settled: bigint
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
    settled: row.settled,
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
      ...waitingColumns(waiting),
      lookup_count: row('lookup_count', '+', 1),
    }))
    .where('id', '=', refundId)
    .where('status', '=', 'pending')
    .execute()
}

/** Refunds that are due for a look and that nobody is sending; they are not due again for a second. */
export async function takeDueRefunds(db: BillingDb, now: Date, limit: number): Promise<string[]> {
  const open = sql`status = 'pending' and (sending_until is null or sending_until <= statement_timestamp())`
  // Real time and service time are asked apart, each by its own index, so that a claim costs the same however many wait.
  const found = await sql<{ id: string }>`
    with by_real_time as (
      select id from billing.refund where ${open} and next_lookup_at <= statement_timestamp()
      order by next_lookup_at limit ${limit} for update skip locked),
    by_service_time as (
      select id from billing.refund where ${open} and lookup_by <= ${now}
      order by lookup_by limit ${limit} for update skip locked)
    update billing.refund set next_lookup_at = ${realTimeIn(1000)}, lookup_by = null
    where id in (select id from by_real_time union select id from by_service_time limit ${limit})
    returning id`.execute(db)
  return found.rows.map(({ id }) => id).sort()
}
