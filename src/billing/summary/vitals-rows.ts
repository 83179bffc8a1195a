import { sql } from 'kysely'
import type { BillingDb } from '../app.ts'
import { type Blocker, blockedBy, everyProvider, unreachableBecause } from '../charging-stop-rows.ts'
import type { Currency, Money } from '../money.ts'
import { isOpenPayment } from '../unsettled-rows.ts'

/** What tells at a glance whether money and news flow. Ages are in seconds of service time. */
export type BillingVitals = {
  readonly unknownPayments: number
  readonly unknownPaymentAge: number
  readonly unknownRefunds: number
  readonly unknownRefundAge: number
  readonly webhooksWaiting: number
  readonly webhooksFailed: number
  readonly webhookLag: number
  readonly chargingStopped: boolean
  readonly unmatched: readonly { currency: string; payments: number; amount: bigint }[]
}

/** A charge without a clear answer. One that waits for its customer has a clear one. */
const inDoubt = sql`
  (status = 'unknown' and not exists (select from billing.next_action a where a.payment_id = payment.id)
    or status = 'sending' and sending_until < statement_timestamp())`

export async function readVitals(db: BillingDb, now: Date): Promise<BillingVitals> {
  const age = (column: string) =>
    sql`coalesce(greatest(extract(epoch from ${now}::timestamptz - min(${sql.ref(column)})), 0), 0)::float8`
  const found = await sql<Omit<BillingVitals, 'unmatched'>>`
    select p.count as "unknownPayments", p.age as "unknownPaymentAge",
      r.count as "unknownRefunds", r.age as "unknownRefundAge",
      w.count as "webhooksWaiting", w.age as "webhookLag",
      (select count(*)::int from billing.webhook where status = 'failed') as "webhooksFailed",
      exists (select from billing.charging_stop) as "chargingStopped"
    from
      -- One that is being sent right now is not in doubt yet.
      (select count(*)::int as count, ${age('created_at')} as age from billing.payment
       where ${inDoubt}) p,
      (select count(*)::int as count, ${age('created_at')} as age from billing.refund
       where status = 'pending' and step = 'unknown') r,
      (select count(*)::int as count, ${age('received_at')} as age from billing.webhook
       where status = 'waiting') w`.execute(db)
  const unmatched = await sql<BillingVitals['unmatched'][number]>`
    select currency, count(*)::int as payments,
      sum(captured - refunded - settled_by_hand - dispute_lost)::bigint as amount
    from billing.payment where unmatched and captured <> refunded + settled_by_hand + dispute_lost
    group by currency order by currency`.execute(db)
  return { ...found.rows[0]!, unmatched: unmatched.rows }
}

export type UnknownMovement = {
  readonly id: string
  readonly kind: 'payment' | 'refund'
  readonly invoice_id: string
  readonly account_id: string
  readonly amount: Money
  readonly provider: string
  readonly reference: string
  /** The provider's own id of the payment. */
  readonly provider_id: string | null
  readonly created_at: Date
  readonly lookups: number
  /** Real time. */
  readonly next_lookup_at: Date
}

type MoneyRow<T> = Omit<T, 'amount'> & { readonly amount: bigint; readonly currency: Currency }

function withMoney<T extends { readonly amount: bigint; readonly currency: Currency }>({
  amount,
  currency,
  ...row
}: T): Omit<T, 'amount' | 'currency'> & { readonly amount: Money } {
  return { ...row, amount: { minor: amount, currency } }
}

/** Charges and refunds that got no clear answer, oldest first. */
export async function listUnknown(db: BillingDb, limit: number): Promise<UnknownMovement[]> {
  const found = await sql<MoneyRow<UnknownMovement>>`
    select * from (
      select id, 'payment' as kind, invoice_id, account_id, amount, currency, provider, provider_reference as reference,
        provider_id, created_at, lookup_count as lookups, next_lookup_at
      from billing.payment
      where ${inDoubt} and sent_at is not null
      union all
      select r.id, 'refund', r.invoice_id, r.account_id, r.amount, r.currency, p.provider, coalesce(r.provider_reference, ''),
        p.provider_id, r.created_at, r.lookup_count, r.next_lookup_at
      from billing.refund r join billing.payment p on p.id = r.payment_id
      where r.status = 'pending' and r.step = 'unknown') open
    order by created_at, id limit ${limit}`.execute(db)
  return found.rows.map(withMoney)
}

export type UnsentMovement = Omit<UnknownMovement, 'lookups' | 'next_lookup_at' | 'provider_id'> & {
  readonly blocked_by: Blocker
  /** Why charging was stopped, if that holds it up. */
  readonly cause: string | null
  readonly tries: number
  /** Real time. */
  readonly next_try_at: Date
}

/** Charges and refunds whose time has come and of which nothing could be sent so far, oldest first. A stop holds up no refund. */
export async function listUnsent(db: BillingDb, limit: number): Promise<UnsentMovement[]> {
  const cause = sql`(select h.cause from billing.charging_stop h where h.provider in (${everyProvider}, p.provider) order by h.provider limit 1)`
  const found = await sql<MoneyRow<UnsentMovement>>`
    select * from (
      select p.id, 'payment' as kind, p.invoice_id, p.account_id, p.amount, p.currency, p.provider,
        p.provider_reference as reference, p.created_at, ${blockedBy('p.provider')} as blocked_by, ${cause} as cause,
        p.lookup_count as tries, p.next_lookup_at as next_try_at
      from billing.payment p where ${isUnsent}
      union all
      select r.id, 'refund', r.invoice_id, r.account_id, r.amount, r.currency, p.provider, coalesce(r.provider_reference, ''),
        r.created_at, ${unreachableBecause('p.provider')}, null, r.lookup_count, r.next_lookup_at
      from billing.refund r join billing.payment p on p.id = r.payment_id
      where r.status = 'pending' and r.sent_at is null and r.unanswered) waiting
    order by created_at, id limit ${limit}`.execute(db)
  return found.rows.map(withMoney)
}

const isUnsent = sql`${isOpenPayment('p')} and p.sent_at is null`

/** Charges of which nothing could be sent so far. */
export async function countUnsent(db: BillingDb): Promise<number> {
  const found = await sql<{ count: number }>`
    select count(*)::int as count from billing.payment p where ${isUnsent}`.execute(db)
  return found.rows[0]!.count
}

export type UnprocessedWebhook = {
  readonly event_id: string
  readonly type: string
  readonly status: 'waiting' | 'failed'
  readonly tries: number
  readonly last_error: string | null
  readonly received_at: Date
}

/** News that had no effect so far, oldest first. */
export async function listWaitingWebhooks(db: BillingDb, limit: number): Promise<UnprocessedWebhook[]> {
  const found = await sql<UnprocessedWebhook>`
    select event_id, type, status, tries, last_error, received_at from billing.webhook
    where status in ('waiting', 'failed') order by received_at, event_id limit ${limit}`.execute(db)
  return found.rows
}
