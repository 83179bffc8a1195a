import { sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import type { BillingTx } from '../app.ts'
import type { DunningStep } from '../invoices/dunning.ts'
import type { InvoiceStatus } from '../invoices/invoice.ts'
import type { Currency } from '../money.ts'
import type { PaymentStatus } from '../payments/payment.ts'
import type { SubscriptionStatus } from '../subscriptions/subscription.ts'

/** Everything an outcome depends on, read under the lock of its subscription. */
export type LockedPayment = {
  readonly paymentId: string
  readonly paymentStatus: PaymentStatus
  readonly provider: string
  /** Until when its customer may confirm it. */
  readonly awaitedUntil: Date | null
  readonly methodId: string
  readonly methodPending: boolean
  /** Which card it is can already be shown. */
  readonly methodDescribed: boolean
  readonly amount: bigint
  readonly currency: Currency
  readonly invoiceId: string
  readonly invoiceStatus: InvoiceStatus
  /** Held invoices are an operator's business: their failures start no dunning. */
  readonly held: boolean
  readonly firstFailedAt: Date | null
  readonly dunning: DunningStep['how'] | null
  /** When dunning was to go on before this attempt. */
  readonly dueBefore: Date | null
  readonly subscriptionId: string
  readonly accountId: string
  readonly status: SubscriptionStatus
  readonly begins: boolean
  readonly ownMethodId: string | null
  readonly timeZone: string
  readonly owesMore: boolean
}

/** Only after `lockSubscriptionsOf`: what is read without that lock may be settled by somebody else meanwhile. */
export async function readLockedPayments(
  tx: BillingTx,
  paymentIds: readonly string[],
): Promise<LockedPayment[]> {
  const found = await sql<LockedPayment>`
    select p.id as "paymentId", p.status as "paymentStatus", p.provider, p.payment_method_id as "methodId",
      a.expires_at as "awaitedUntil",
      m.state = 'pending' as "methodPending", m.last4 is not null as "methodDescribed", p.amount, p.currency,
      i.id as "invoiceId", i.status as "invoiceStatus", i.hold is not null as held, i.first_failed_at as "firstFailedAt", i.dunning,
      s.id as "subscriptionId", s.account_id as "accountId", s.status, s.payment_method_id as "ownMethodId",
      s.last_k = 0 and s.trial_ends_at is null as begins,
      s.time_zone as "timeZone",
      p.due_before as "dueBefore",
      s.status = 'past_due' and exists (
        select from billing.invoice o
        where o.subscription_id = s.id and o.id <> i.id and o.status = 'open' and o.first_failed_at is not null
      ) as "owesMore"
    from billing.payment p
    join billing.invoice i on i.id = p.invoice_id
    join billing.subscription s on s.id = p.subscription_id
    join billing.payment_method m on m.id = p.payment_method_id
    left join billing.next_action a on a.payment_id = p.id
    where p.id = any (${anyLength(paymentIds)}::text[])`.execute(tx)
  return found.rows
}

/** Nobody has settled it yet. Asked under the lock, this is what lets an outcome be recorded once. */
export function isOpen({ paymentStatus }: LockedPayment): boolean {
  return paymentStatus === 'sending' || paymentStatus === 'unknown'
}
