import type { BillingApp, BillingDb, BillingTx } from '../app.ts'
import type { NextAction } from '../providers/port.ts'

/** What a customer still has to do about a payment, as it is kept: sealed, and gone once the payment is decided. */
export type KeptAction = {
  readonly paymentId: string
  readonly invoiceId: string
  readonly sealed: Buffer
  readonly expiresAt: Date
}

/** Keeps what the customer has to do. One that is kept already stays, with the time it was given. False: it was there. */
export async function insertNextAction(
  tx: BillingTx,
  vault: BillingApp['vault'],
  about: { paymentId: string; invoiceId: string; subscriptionId: string },
  action: NextAction,
  expiresAt: Date,
): Promise<boolean> {
  const { type, clientSecret, url } = action
  const kept = await tx
    .insertInto('billing.next_action')
    .values({
      payment_id: about.paymentId,
      invoice_id: about.invoiceId,
      subscription_id: about.subscriptionId,
      sealed: vault.seal(JSON.stringify({ type, clientSecret, url }), placeOf(about.paymentId)),
      expires_at: expiresAt,
    })
    .onConflict((conflict) => conflict.column('payment_id').doNothing())
    .returning('payment_id')
    .executeTakeFirst()
  return kept !== undefined
}

/** The payments are decided, so there is nothing left to do for anybody. */
export async function deleteNextActions(tx: BillingTx, paymentIds: readonly string[]): Promise<void> {
  if (paymentIds.length === 0) return
  await tx
    .deleteFrom('billing.next_action')
    .where('payment_id', 'in', [...paymentIds])
    .execute()
}

/** Of the invoices that are still owed. */
export async function listNextActions(db: BillingDb, invoiceIds: readonly string[]): Promise<KeptAction[]> {
  const rows = await selectActions(db)
    .where('a.invoice_id', 'in', [...invoiceIds])
    .execute()
  return rows.map(toKept)
}

/** Of whatever a subscription owes; a held invoice is an operator's. */
export async function findNextAction(db: BillingDb, subscriptionId: string): Promise<KeptAction | undefined> {
  const row = await selectActions(db)
    .where('a.subscription_id', '=', subscriptionId)
    .where('i.hold', 'is', null)
    .orderBy('a.payment_id')
    .limit(1)
    .executeTakeFirst()
  return row && toKept(row)
}

function selectActions(db: BillingDb) {
  return db
    .selectFrom('billing.next_action as a')
    .innerJoin('billing.invoice as i', 'i.id', 'a.invoice_id')
    .select(['a.payment_id', 'a.invoice_id', 'a.sealed', 'a.expires_at'])
    .where('i.status', '=', 'open')
}

type ActionRow = { payment_id: string; invoice_id: string; sealed: Buffer; expires_at: Date }

function toKept(row: ActionRow): KeptAction {
  return {
    paymentId: row.payment_id,
    invoiceId: row.invoice_id,
    sealed: row.sealed,
    expiresAt: row.expires_at,
  }
}

/** Opens it for whoever may act on it. Null once its time is over, because then it is about to be ended. */
export function openNextAction(
  { vault, clock }: Pick<BillingApp, 'vault' | 'clock'>,
  action: KeptAction | undefined | null,
): NextAction | null {
  if (!action || action.expiresAt <= clock()) return null
  const opened = JSON.parse(vault.open(action.sealed, placeOf(action.paymentId)))
  return { ...(opened as Omit<NextAction, 'expiresAt'>), expiresAt: action.expiresAt }
}

function placeOf(paymentId: string): string {
  return `next_action:${paymentId}`
}
