import type { Foundation } from '../foundation.ts'
import { type Actor, type AuditTables, insertAudit } from '../platform/access/audit-rows.ts'
import { openDb } from '../platform/database/db.ts'
import { discardDeadJob, reviveDeadJob } from '../platform/queue/queue-schema.ts'

const decisions = { retry: reviveDeadJob, discard: discardDeadJob }

/** Gives a dead job its attempts back, or takes it out for good, and notes who said so. False: no dead job has this id. */
export async function decideJob(
  { pool, clock }: Pick<Foundation, 'pool' | 'clock'>,
  id: string,
  verb: keyof typeof decisions,
  actor: Actor,
): Promise<boolean> {
  return openDb<AuditTables>(pool)
    .transaction()
    .execute(async (tx) => {
      if (!(await decisions[verb]<AuditTables>(tx, id))) return false
      const entry = { at: clock(), actor, accountId: null }
      await insertAudit(tx, { ...entry, action: `job.${verb}`, target: `job:${id}` })
      return true
    })
}
