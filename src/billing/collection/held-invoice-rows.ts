import type { BillingDb, BillingTx } from '../app.ts'
import { type Invoice, renderNumber } from '../invoices/invoice.ts'
import { isInDoubt } from '../payments/payment-rows.ts'
import { lockSubscription } from '../subscriptions/subscription-rows.ts'

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
