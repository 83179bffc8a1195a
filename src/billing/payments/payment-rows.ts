import { type RawBuilder, sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import type { BillingDb, BillingTx } from '../app.ts'
import type { Currency } from '../money.ts'
import { isOpenPayment } from '../unsettled-rows.ts'
import { type Attempt, keptCode, type PaymentStatus, type ProviderTrace } from './payment.ts'

/** How long a sender may be at it before the sweep resumes its attempt: a lookup, a send, and some air. */
export function sendingLeaseMs(terms: { providerTimeoutMs: number }): number {
  return 2 * terms.providerTimeoutMs + 5_000
}

/** Real time, so many milliseconds from now, by the one clock that all processes share. */
export function realTimeIn(ms: number): RawBuilder<Date> {
  return sql<Date>`clock_timestamp() + make_interval(secs => ${ms / 1000})`
}

/** Whether a charge of this invoice is on its way, or has no clear answer yet. */
export function isInDoubt(invoiceId: string): RawBuilder<boolean> {
  return sql<boolean>`exists (
    select from billing.payment p where p.invoice_id = ${sql.ref(invoiceId)} and ${isOpenPayment('p')})`
}

/**
 * Leases open attempts that nobody is sending: the one named, or those that are due for a look by real time or by
 * service time, of which something was sent or nothing has left us so far, but for some providers.
 */
export async function leaseAttempts(
  db: BillingDb,
  which: { paymentId: string } | { dueBy: Date; limit: number; sent: boolean; notAt?: readonly string[] },
  leaseMs: number,
): Promise<Attempt[]> {
  const open = sql`${isOpenPayment()}
      and (sending_until is null or sending_until <= statement_timestamp())`
  const limit = 'limit' in which ? which.limit : 1
  const elsewhere =
    'notAt' in which && which.notAt?.length ? sql`and provider <> all (${[...which.notAt]}::text[])` : sql``
  // Real time and service time are asked apart, each by its own index, so that a claim costs the same however many wait.
  const picked =
    'paymentId' in which
      ? sql`picked as (
          select id from billing.payment where id = ${which.paymentId} and ${open} for update skip locked)`
      : sql`by_real_time as (
          select id from billing.payment
          where ${open} and ${which.sent ? sql`sent_at is not null` : sql`sent_at is null`}
            and next_lookup_at <= statement_timestamp() ${elsewhere}
          order by next_lookup_at limit ${limit} for update skip locked),
        by_service_time as (
          select id from billing.payment
          where ${open} and ${which.sent ? sql`sent_at is not null` : sql`sent_at is null`}
            and lookup_by <= ${which.dueBy} ${elsewhere}
          order by lookup_by limit ${limit} for update skip locked),
        picked as (select id from by_real_time union select id from by_service_time limit ${limit})`
  const found = await sql<AttemptRow>`
    with ${picked},
    leased as (
      update billing.payment set sending_until = ${realTimeIn(leaseMs)}, next_lookup_at = ${realTimeIn(leaseMs)}, lookup_by = null
      where id in (select id from picked)
      returning id, provider_reference, provider, provider_id, invoice_id, subscription_id, account_id, payment_method_id,
        amount, currency, sent_at, sending_until, lookup_count, not_found_count, not_found_since, resend_declines, resend_code, resend_since
    )
    select ${attemptColumns}
    from leased p
    join billing.invoice i on i.id = p.invoice_id
    join billing.payment_method m on m.id = p.payment_method_id
    join billing.subscription s on s.id = p.subscription_id
    cross join billing.installation n
    order by p.id`.execute(db)
  return found.rows.map(toAttempt)
}

const attemptColumns = sql.raw(`
  p.id, p.provider_reference, p.provider, p.provider_id, i.issued_at as due_at, coalesce(i.issued_at <= n.lookup_first_before, false) as maybe_sent_before,
  p.invoice_id, p.subscription_id, p.account_id, p.amount, p.currency, i.description, p.sent_at, p.lookup_count,
  p.not_found_count, p.not_found_since, p.resend_declines, p.resend_code, p.resend_since,
  i.status = 'open' as invoice_open, m.id as method_id,
  (select expires_at from billing.next_action a where a.payment_id = p.id) as awaited_until,
  p.sending_until::text as lease, m.provider as method_provider, m.sealed, m.exchanged, m.state = 'pending' and m.last4 is null as is_offer, m.bound,
  coalesce(m.state = 'kept' and m.id <> s.payment_method_id, false) as replaced`)

type AttemptRow = {
  id: string
  provider_reference: string
  provider: string
  provider_id: string | null
  due_at: Date
  maybe_sent_before: boolean
  invoice_id: string
  subscription_id: string
  account_id: string
  amount: bigint
  currency: Currency
  description: string
  sent_at: Date | null
  lease: string
  awaited_until: Date | null
  lookup_count: number
  not_found_count: number
  not_found_since: Date | null
  resend_declines: number
  resend_code: string | null
  resend_since: Date | null
  invoice_open: boolean
  method_id: string
  method_provider: string
  sealed: Buffer | null
  exchanged: boolean
  is_offer: boolean
  bound: boolean
  replaced: boolean
}

function toAttempt(row: AttemptRow): Attempt {
  return {
    paymentId: row.id,
    reference: row.provider_reference,
    provider: row.provider,
    providerId: row.provider_id,
    dueAt: row.due_at,
    maybeSentBefore: row.maybe_sent_before,
    invoiceId: row.invoice_id,
    subscriptionId: row.subscription_id,
    accountId: row.account_id,
    amount: { minor: row.amount, currency: row.currency },
    description: row.description,
    sentAt: row.sent_at,
    lease: row.lease,
    awaitedUntil: row.awaited_until,
    lookupCount: row.lookup_count,
    notFoundCount: row.not_found_count,
    notFoundSince: row.not_found_since,
    resendDeclines:
      row.resend_code !== null && row.resend_since !== null
        ? { count: row.resend_declines, since: row.resend_since, code: row.resend_code }
        : null,
    invoiceOpen: row.invoice_open,
    method: {
      methodId: row.method_id,
      provider: row.method_provider,
      sealed: row.sealed,
      exchanged: row.exchanged,
      offer: row.is_offer ? { accountId: row.account_id, bound: row.bound } : null,
    },
    replaced: row.replaced,
  }
}

/** The charge of a payment method that is on its way, or has no clear answer yet. */
export async function findOpenPayment(db: BillingDb, methodId: string): Promise<string | undefined> {
  const found = await db
    .selectFrom('billing.payment')
    .select('id')
    .where('payment_method_id', '=', methodId)
    .where(isOpenPayment())
    .executeTakeFirst()
  return found?.id
}

/** Says, before anything leaves us, that it may have. False: somebody else leased or settled it meanwhile. */
export async function markSent(db: BillingDb, { paymentId, lease }: Leased, now: Date): Promise<boolean> {
  const marked = await db
    .updateTable('billing.payment')
    .set({ sent_at: now })
    .where('id', '=', paymentId)
    .where(isOpenPayment())
    .where(isLeased(lease))
    .returning('id')
    .executeTakeFirst()
  return marked !== undefined
}

/** Whether an invoice still waits for its money. */
export async function isInvoiceOpen(db: BillingDb, invoiceId: string): Promise<boolean> {
  const found = await db
    .selectFrom('billing.invoice')
    .select('id')
    .where('id', '=', invoiceId)
    .where('status', '=', 'open')
    .executeTakeFirst()
  return found !== undefined
}

type Leased = Pick<Attempt, 'paymentId' | 'lease'>

/** Whoever resumed a payment since has another lease, and may have sent it. */
export function isLeased(lease: string): RawBuilder<boolean> {
  return sql<boolean>`sending_until = ${lease}::timestamptz`
}

/** Nothing left us: the attempt waits as if it had never been tried, unless somebody else has it. */
export async function markUnsent(
  tx: BillingTx,
  { paymentId, lease }: Leased,
  nextLookupAfterMs: number,
): Promise<void> {
  await tx
    .updateTable('billing.payment')
    .set((row) => ({
      sent_at: null,
      sending_until: null,
      next_lookup_at: realTimeIn(nextLookupAfterMs),
      unanswered: true,
      lookup_by: null,
      lookup_count: row('lookup_count', '+', 1),
    }))
    .where('id', '=', paymentId)
    .where(isOpenPayment())
    .where(isLeased(lease))
    .execute()
}

export type Waiting = {
  nextLookupAfterMs: number
  lookupBy: Date | null
  /** Nobody answered, so it is due as soon as somebody does. */
  unanswered: boolean
  none?: { count: number; since: Date }
  /** Without them, the row of equal declines is broken. */
  resendDeclines?: { count: number; since: Date; code: string }
}

/** The columns of that, which payments and refunds have alike. */
export function waitingColumns(waiting: Waiting) {
  return {
    sending_until: null,
    next_lookup_at: realTimeIn(waiting.nextLookupAfterMs),
    unanswered: waiting.unanswered,
    lookup_by: waiting.lookupBy,
    ...(waiting.none && { not_found_count: waiting.none.count, not_found_since: waiting.none.since }),
    resend_declines: waiting.resendDeclines?.count ?? 0,
    resend_code: waiting.resendDeclines?.code ?? null,
    resend_since: waiting.resendDeclines?.since ?? null,
  }
}

/** No clear answer: to be looked up again. True if this is the first we hear of the doubt. */
export async function markUnknown(tx: BillingTx, paymentId: string, waiting: Waiting): Promise<boolean> {
  const before = await tx
    .selectFrom('billing.payment')
    .select('status')
    .where('id', '=', paymentId)
    .where(isOpenPayment())
    .forUpdate()
    .executeTakeFirst()
  if (!before) return false
  await tx
    .updateTable('billing.payment')
    .set((row) => ({
      status: 'unknown',
      ...waitingColumns(waiting),
      lookup_count: row('lookup_count', '+', 1),
    }))
    .where('id', '=', paymentId)
    .execute()
  return before.status === 'sending'
}

/** Its customer is awaited: looked up now and then, and ended when their time is over. */
export async function markAwaiting(
  tx: BillingTx,
  paymentId: string,
  waiting: { providerId: string; nextLookupAfterMs: number; lookupBy: Date | null },
): Promise<void> {
  await tx
    .updateTable('billing.payment')
    .set((row) => ({
      status: 'unknown',
      provider_id: waiting.providerId,
      sending_until: null,
      next_lookup_at: realTimeIn(waiting.nextLookupAfterMs),
      unanswered: false,
      lookup_by: waiting.lookupBy,
      lookup_count: row('lookup_count', '+', 1),
      resend_declines: 0,
      resend_code: null,
      resend_since: null,
    }))
    .where('id', '=', paymentId)
    .where(isOpenPayment())
    .execute()
}

type AtProvider = { readonly paymentId: string; readonly providerId: string }

/** Records money that was taken and pays for nothing. */
export async function markUnmatched(tx: BillingTx, now: Date, taken: AtProvider): Promise<void> {
  await succeededUpdate(now, [taken], true).execute(tx)
}

/** Records money that was taken, as part of a larger statement. What is already recorded stays as it is. */
export function succeededUpdate(
  now: Date,
  taken: readonly AtProvider[],
  unmatched = false,
): RawBuilder<unknown> {
  return sql`
    update billing.payment p
    set status = 'succeeded', code = null, provider_code = null, provider_id = g.provider_id, captured = p.amount, unmatched = ${unmatched},
      settled_at = ${now}, sending_until = null, next_lookup_at = null, lookup_by = null
    from unnest(
      ${anyLength(taken.map(({ paymentId }) => paymentId))}::text[],
      ${anyLength(taken.map(({ providerId }) => providerId))}::text[]
    ) as g (id, provider_id)
    where p.id = g.id and p.status <> 'succeeded'`
}

/** `raw`: what the provider called it. */
export async function markFailed(
  tx: BillingTx,
  now: Date,
  paymentId: string,
  code: string,
  raw?: string | null,
): Promise<void> {
  await tx
    .updateTable('billing.payment')
    .set({
      status: 'failed',
      code,
      provider_code: raw == null ? null : keptCode(raw),
      settled_at: now,
      sending_until: null,
      next_lookup_at: null,
      lookup_by: null,
    })
    .where('id', '=', paymentId)
    .where(isOpenPayment())
    .execute()
}

/** Payments that do not exist have none. */
export async function findTraces(
  db: BillingDb,
  paymentIds: readonly string[],
): Promise<ReadonlyMap<string, ProviderTrace>> {
  if (paymentIds.length === 0) return new Map()
  const { rows } = await sql<ProviderTrace & { id: string }>`
    select id, provider, provider_id, provider_code from billing.payment
    where id = any (${anyLength(paymentIds)}::text[])`.execute(db)
  return new Map(rows.map(({ id, ...trace }) => [id, trace]))
}

export type PaymentState = {
  readonly paymentId: string
  readonly subscriptionId: string
  readonly methodId: string
  readonly status: PaymentStatus
  readonly code: string | null
  readonly unmatched: boolean
}
