import type { BillingDb } from '../app.ts'

export {
  type Actor,
  auditStatement,
  insertAudit,
  type NewAudit,
  noteRead,
} from '../../platform/access/audit-rows.ts'

export type AuditedAction = { readonly at: Date; readonly actor: string; readonly action: string }

/** What was asked about one thing, oldest first. */
export async function listAuditOf(db: BillingDb, target: string, limit: number): Promise<AuditedAction[]> {
  const newest = await db
    .selectFrom('platform.audit')
    .select(['at', 'actor', 'action'])
    .where('target', '=', target)
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
  return newest.reverse()
}
