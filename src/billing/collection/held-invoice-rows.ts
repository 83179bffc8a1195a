import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'
import { calendarStopped } from '../charging-stop-rows.ts'
import { type Invoice, renderNumber } from '../invoices/invoice.ts'
import { isInDoubt } from '../payments/payment-rows.ts'
import { lockSubscription } from '../subscriptions/subscription-rows.ts'
import { isOpenPayment } from '../unsettled-rows.ts'

/** An invoice that nobody collects until an operator decides. */
export type HeldInvoice = Pick<
  Invoice,
  'invoiceId' | 'number' | 'accountId' | 'subscriptionId' | 'due' | 'periodStart' | 'periodEnd' | 'timeZone'
>

/** Oldest first. */
export async function listHeld(db: BillingDb, limit: number): Promise<HeldInvoice[]> {
  const rows = await db
    .selectFrom('billing.invoice as i')
    .innerJoin('billing.subscription as s', 's.id', 'i.subscription_id')
    .select([
      'i.id',
      'i.number',
      'i.account_id',
      'i.subscription_id',
      'i.amount_due',
      'i.currency',
      'i.period_start',
      'i.period_end',
      's.time_zone',
    ])
    .where('i.hold', 'is not', null)
    .where('i.status', '=', 'open')
    .orderBy('i.id')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    invoiceId: row.id,
    number: renderNumber(row.account_id, row.number),
    accountId: row.account_id,
    subscriptionId: row.subscription_id,
    due: { minor: row.amount_due, currency: row.currency },
    periodStart: row.period_start,
    periodEnd: row.period_end,
    timeZone: row.time_zone,
  }))
}

export type LockedHeld = {
  readonly accountId: string
  readonly subscriptionId: string
  readonly methodId: string | null
  /** A charge of it is on its way, or has no clear answer yet. */
  readonly inDoubt: boolean
}

/** Locks the subscription of a held invoice, and reads again that it is held. */
export async function lockHeld(tx: BillingTx, invoiceId: string): Promise<LockedHeld | undefined> {
  const found = await tx
    .selectFrom('billing.invoice')
    .select('subscription_id')
    .where('id', '=', invoiceId)
    .executeTakeFirst()
  const subscription = found && (await lockSubscription(tx, found.subscription_id))
  if (!subscription) return undefined
  const held = await tx
    .selectFrom('billing.invoice as i')
    .select(isInDoubt('i.id').as('in_doubt'))
    .where('i.id', '=', invoiceId)
    .where('i.status', '=', 'open')
    .where('i.hold', 'is not', null)
    .executeTakeFirst()
  const { accountId, subscriptionId, methodId } = subscription
  return held && { accountId, subscriptionId, methodId, inDoubt: held.in_doubt }
}

/** A renewal's attempt of which nothing has left us. */
export type UnsentRenewal = {
  readonly k: number
  /** Until then a database since lost may have sent it; null: nobody has. */
  readonly forgottenUntil: Date | null
}

/** Undefined while the calendar stands still: a restored database may not know yet who has left. */
export async function findUnsentRenewal(
  db: BillingDb,
  paymentId: string,
): Promise<UnsentRenewal | undefined> {
  const found = await sql<UnsentRenewal>`
    select d.k, case when i.issued_at <= n.lookup_first_before then n.lookup_first_before end as "forgottenUntil"
    from billing.payment p
    join billing.invoice i on i.id = p.invoice_id
    join billing.period d on d.invoice_id = i.id
    join billing.subscription s on s.id = p.subscription_id
    cross join billing.installation n
    where p.id = ${paymentId} and ${isOpenPayment('p')} and p.sent_at is null and p.attempt = 1
      and i.status = 'open' and i.hold is null and i.first_failed_at is null
      and (d.k > 0 or s.trial_ends_at is not null)
      and not ${calendarStopped}`.execute(db)
  return found.rows[0]
}

/**
 * Holds an invoice whose first attempt never left us, as if that had never been opened: the next one has its number and
 * its key. False: it may have been sent meanwhile.
 */
export async function holdUnsent(tx: BillingTx, paymentId: string): Promise<boolean> {
  const gone = await tx
    .deleteFrom('billing.payment')
    .where('id', '=', paymentId)
    .where(isOpenPayment())
    .where('sent_at', 'is', null)
    .where('attempt', '=', 1)
    .returning('invoice_id')
    .executeTakeFirst()
  if (!gone) return false
  await tx
    .updateTable('billing.invoice')
    .set({ hold: 'missed', attempt_count: 0 })
    .where('id', '=', gone.invoice_id)
    .execute()
  return true
}
