import { sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'
import { isInDoubt } from '../payments/payment-rows.ts'
import type { DunningStep } from './dunning.ts'

/** Sets what dunning does next about an invoice, and remembers the first failure. */
export async function scheduleDunning(
  tx: BillingTx,
  invoiceId: string,
  firstFailedAt: Date,
  step: DunningStep,
): Promise<void> {
  await tx
    .updateTable('billing.invoice')
    .set({ first_failed_at: firstFailedAt, dunning: step.how, due_at: step.at })
    .where('id', '=', invoiceId)
    .where('status', '=', 'open')
    .execute()
}

/** A try that waits for its customer counts as a failure: dunning counts its days from it. What was given up stays so. */
export async function noteFirstFailure(tx: BillingTx, invoiceId: string, at: Date): Promise<void> {
  await tx
    .updateTable('billing.invoice')
    .set({ first_failed_at: at, dunning: sql`coalesce(dunning, 'retry')` })
    .where('id', '=', invoiceId)
    .where('status', '=', 'open')
    .execute()
}

/** What else is owed was given up with the old payment method; the new one has not been tried. */
export async function reviveRetries(tx: BillingTx, subscriptionId: string, now: Date): Promise<void> {
  await tx
    .updateTable('billing.invoice')
    .set({ dunning: 'retry', due_at: now })
    .where('subscription_id', '=', subscriptionId)
    .where('status', '=', 'open')
    .where('due_at', 'is not', null)
    .execute()
}

/** Nobody who has canceled is dunned. */
export async function stopDunning(tx: BillingTx, subscriptionId: string): Promise<void> {
  await tx
    .updateTable('billing.invoice')
    .set({ due_at: null })
    .where('subscription_id', '=', subscriptionId)
    .where('due_at', 'is not', null)
    .execute()
}

/** The oldest invoice of a subscription that could not be collected so far. */
export async function findOldestFailed(
  tx: BillingTx,
  subscriptionId: string,
): Promise<{ invoiceId: string; inDoubt: boolean } | undefined> {
  const row = await tx
    .selectFrom('billing.invoice as i')
    .select(['i.id', isInDoubt('i.id').as('in_doubt')])
    .where('i.subscription_id', '=', subscriptionId)
    .where('i.status', '=', 'open')
    .where('i.first_failed_at', 'is not', null)
    .orderBy('i.id')
    .limit(1)
    .executeTakeFirst()
  return row && { invoiceId: row.id, inDoubt: row.in_doubt }
}

/** Whether dunning gives an invoice of this subscription up by now. */
export async function isGivenUp(tx: BillingTx, subscriptionId: string, now: Date): Promise<boolean> {
  const found = await tx
    .selectFrom('billing.invoice')
    .select('id')
    .where('subscription_id', '=', subscriptionId)
    .where('dunning', '=', 'give_up')
    .where('due_at', '<=', now)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

/** What dunning will do about a subscription's invoices, soonest first. */
export async function listDunning(
  db: BillingDb,
  subscriptionId: string,
  limit: number,
): Promise<DunningStep[]> {
  const rows = await db
    .selectFrom('billing.invoice')
    .select(['due_at', 'dunning'])
    .where('subscription_id', '=', subscriptionId)
    .where('due_at', 'is not', null)
    .orderBy('due_at')
    .limit(limit)
    .execute()
  return rows.map(({ due_at, dunning }) => ({ how: dunning!, at: due_at! }))
}
