import type { BillingDb, BillingTx } from '../app.ts'

/** Who asked: a token's id, or the operator at the machine. */
export type Actor = string

export type AuditEntry = { readonly at: Date; readonly actor: Actor; readonly action: string }

/** Notes who asked for what, in the transaction that does it. */
export async function insertAudit(
  tx: BillingTx,
  entry: { at: Date; actor: Actor; action: string; accountId: string | null; target: string },
): Promise<void> {
  await tx
    .insertInto('billing.audit')
    .values({
      at: entry.at,
      actor: entry.actor,
      action: entry.action,
      account_id: entry.accountId,
      target: entry.target,
    })
    .execute()
}

/** What was asked about one thing, oldest first. */
export async function listAuditOf(db: BillingDb, target: string, limit: number): Promise<AuditEntry[]> {
  return db
    .selectFrom('billing.audit')
    .select(['at', 'actor', 'action'])
    .where('target', '=', target)
    .orderBy('id', 'asc')
    .limit(limit)
    .execute()
}
