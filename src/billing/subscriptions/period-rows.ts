import { type RawBuilder, sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import { newId } from '../../platform/id.ts'
import type { BillingTx } from '../app.ts'
import { latelyIssuedFrom } from '../invoices/invoice-rows.ts'
import { type Attempt, type MethodInUse, openedAttempt } from '../payments/payment.ts'
import { realTimeIn, sendingLeaseMs } from '../payments/payment-rows.ts'
import type { Seller } from '../seller.ts'
import type { DuePeriod } from './catch-up.ts'
import type { Subscription } from './subscription.ts'

export type Opening = {
  readonly subscription: Subscription
  readonly due: DuePeriod
  readonly method: MethodInUse
}

/**
 * Opens periods: for each its row, its numbered invoice and, unless it is held, the attempt that will collect it. The
 * unique (subscription, k) is what lets a period be charged once. What else is to be written goes along in the same
 * statement. Returns the attempts, leased to the caller.
 */
export async function openPeriods(
  tx: BillingTx,
  now: Date,
  openings: readonly Opening[],
  terms: { readonly providerTimeoutMs: number; readonly seller: Seller },
  alongside: readonly RawBuilder<unknown>[],
): Promise<Attempt[]> {
  const rows = openings.map(({ subscription, due, method }) => ({
    subscription,
    due,
    method,
    invoiceId: newId('inv_', now),
    paymentId: due.held ? null : newId('pay_', now),
  }))
  const leaseMs = sendingLeaseMs(terms)
  const of = (pick: (row: (typeof rows)[number]) => unknown) => anyLength(rows.map(pick))
  const beside = alongside.map((one, at) => sql`${sql.ref(`beside_${at}`)} as (${one}),`)
  const opened = await sql<{
    id: string
    reference: string
    lease: string
    lookup_first_before: Date | null
  }>`
    with ${sql.join(beside, sql``)} given as (
      select * from unnest(
        ${of((row) => row.subscription.subscriptionId)}::text[],
        ${of((row) => row.subscription.accountId)}::text[],
        ${of((row) => row.due.k)}::int[],
        ${of((row) => row.due.period.start)}::timestamptz[],
        ${of((row) => row.due.period.end)}::timestamptz[],
        ${of((row) => row.subscription.description)}::text[],
        ${of((row) => row.subscription.price.minor)}::bigint[],
        ${of((row) => row.subscription.price.currency)}::text[],
        ${of((row) => row.method.methodId)}::text[],
        ${of((row) => row.method.provider)}::text[],
        ${of((row) => row.invoiceId)}::text[],
        ${of((row) => row.paymentId)}::text[]
      ) as g (subscription_id, account_id, k, start_at, end_at, description, amount, currency, method_id, provider,
        invoice_id, payment_id)
    ),
    -- The account's row lock hands out its invoice numbers one after another.
    counted as (
      update billing.account a set invoice_count = a.invoice_count + wanted.n
      from (select account_id, count(*)::int as n from given group by account_id) wanted
      where a.id = wanted.account_id
      returning a.id, a.invoice_count - wanted.n as used
    ),
    invoiced as (
      insert into billing.invoice (id, account_id, subscription_id, number, description, amount_due, currency,
        period_start, period_end, issued_at, issued_late, seller, status, hold, attempt_count)
      select g.invoice_id, g.account_id, g.subscription_id,
        c.used + row_number() over (partition by g.account_id order by g.k),
        g.description, g.amount, g.currency, g.start_at, g.end_at, g.start_at,
        g.start_at < ${latelyIssuedFrom(now)},
        ${JSON.stringify(terms.seller)}::jsonb, 'open',
        case when g.payment_id is null then 'missed' end, case when g.payment_id is null then 0 else 1 end
      from given g join counted c on c.id = g.account_id
    ),
    opened as (
      insert into billing.period (subscription_id, k, start_at, end_at, invoice_id)
      select subscription_id, k, start_at, end_at, invoice_id from given
    )
    insert into billing.payment (id, provider_reference, invoice_id, attempt, subscription_id, account_id,
      payment_method_id, provider, amount, currency, status, created_at, sent_at, sending_until, next_lookup_at)
    select payment_id, billing.charge_reference(subscription_id, k, 1), invoice_id, 1, subscription_id, account_id,
      method_id, provider, amount, currency, 'sending', ${now}, ${now}, ${realTimeIn(leaseMs)}, ${realTimeIn(leaseMs)}
    from given where payment_id is not null
    returning id, provider_reference as reference, sending_until::text as lease,
      (select lookup_first_before from billing.installation) as lookup_first_before`.execute(tx)

  const written = new Map(opened.rows.map((row) => [row.id, row]))
  return rows.flatMap(({ subscription, due, method, invoiceId, paymentId }) => {
    if (paymentId === null) return []
    const { reference, lease, lookup_first_before: forgottenUntil } = written.get(paymentId)!
    const attempt = {
      paymentId,
      reference,
      invoiceId,
      subscriptionId: subscription.subscriptionId,
      accountId: subscription.accountId,
      amount: subscription.price,
      description: subscription.description,
      dueAt: due.period.start,
      maybeSentBefore: due.period.start <= (forgottenUntil ?? new Date(0)),
      lease,
      method,
    }
    return [openedAttempt(attempt, now)]
  })
}
