import { type RawBuilder, sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import type { BillingTx } from '../app.ts'
import { eventStatement, type NewEvent } from '../events/event-rows.ts'
import { paidUpdate } from '../invoices/invoice-rows.ts'
import { postingCtes, type Transfer } from '../ledger/ledger-rows.ts'
import { chargeRefusedAlarm } from '../payments/charge-refused-alarm.ts'
import { type KeptMethod, keptUpdate } from '../payments/payment-method-rows.ts'
import { succeededUpdate } from '../payments/payment-rows.ts'
import type { Card } from '../providers/port.ts'
import type { SubscriptionStatus } from '../subscriptions/subscription.ts'
import type { LockedPayment } from './locked-payment-rows.ts'

/** A payment that pays its open invoice. */
export type Paid = { readonly locked: LockedPayment; readonly providerId: string; readonly card: Card | null }

/** All that is written when payments pay their invoices. */
export type PaidRows = {
  readonly paid: readonly Paid[]
  readonly kept: readonly KeptMethod[]
  readonly transfers: readonly Transfer[]
  readonly events: readonly NewEvent[]
  /** A renewal that is paid leaves its subscription as it is; a first, recovering or newly carded one moves. */
  readonly moved: readonly {
    readonly subscriptionId: string
    readonly status: SubscriptionStatus
    /** Null: the one it has stays. */
    readonly newMethodId: string | null
  }[]
}

/** One statement, because a wave of renewals settles thousands of these. */
export async function writePaid(
  tx: BillingTx,
  now: Date,
  { paid, kept, transfers, events, moved }: PaidRows,
): Promise<void> {
  const taken = paid.map(({ locked: { paymentId }, providerId }) => ({ paymentId, providerId }))
  const invoiceIds = paid.map(({ locked }) => locked.invoiceId)
  await sql`
    with taken as (${succeededUpdate(now, taken)}),
    invoiced as (${paidUpdate(now, invoiceIds)}),
    kept as (${keptUpdate(kept)}),
    ${postingCtes(now, transfers)},
    noted as (${eventStatement(now, events)}),
    unrefused as (${clearingChargeRefused(taken.map(({ paymentId }) => paymentId))})
    update billing.subscription s
    set status = g.status, payment_method_id = coalesce(g.method_id, s.payment_method_id)
    from unnest(
      ${anyLength(moved.map(({ subscriptionId }) => subscriptionId))}::text[],
      ${anyLength(moved.map(({ status }) => status))}::text[],
      ${anyLength(moved.map(({ newMethodId }) => newMethodId))}::text[]
    ) as g (id, status, method_id)
    where s.id = g.id`.execute(tx)
}

/** A provider that takes a charge begun after it last refused one as a request, or in its currency, has stopped refusing them. */
function clearingChargeRefused(paymentIds: readonly string[]): RawBuilder<unknown> {
  return sql`
    delete from platform.alarm a
    where a.kind = ${chargeRefusedAlarm} and exists (
      select from billing.payment p
      where p.id = any (${anyLength(paymentIds)}::text[])
        and a.subject in (p.provider, p.provider || ' ' || p.currency) and p.created_at >= a.last_at)`
}
