import { type RawBuilder, sql } from 'kysely'
import type { BillingDb, BillingTx } from '../app.ts'

/** Who asked: a token's id, or the operator at the machine. */
export type Actor = string

export type AuditEntry = { readonly at: Date; readonly actor: Actor; readonly action: string }

export type NewAudit = {
  readonly at: Date
  readonly actor: Actor
  readonly action: string
  readonly accountId: string | null
  readonly target: string
}

/** Notes who asked for what, in the transaction that does it. */
export async function insertAudit(tx: BillingTx, entry: NewAudit): Promise<void> {
  await auditInsert(entry).execute(tx)
}

/** The same as part of a larger statement. */
export function auditInsert({ at, actor, action, accountId, target }: NewAudit): RawBuilder<unknown> {
  return sql`
    insert into billing.audit (at, actor, action, account_id, target)
    values (${at}, ${actor}, ${action}, ${accountId}, ${target})`
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
