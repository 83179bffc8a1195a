import type { BillingStore } from '../app.ts'
import { type Actor, insertAudit } from '../audit/audit-rows.ts'
import { type Plan, putPlan } from './plan-rows.ts'

/** Makes or changes what is on offer. No running subscription changes. */
export async function savePlan(app: BillingStore, plan: Plan, actor: Actor): Promise<Plan> {
  const now = app.clock()
  await app.db.transaction().execute(async (tx) => {
    await putPlan(tx, plan, now)
    await insertAudit(tx, { at: now, actor, action: 'plan.save', accountId: null, target: plan.planId })
  })
  return plan
}
