import { sql } from 'kysely'
import type { BillingDb } from '../app.ts'
import type { PlanTerms } from '../tables.ts'

const kinds = [
  'subscription.created',
  'subscription.canceling',
  'subscription.resumed',
  'subscription.canceled',
  'payment_method.changed',
  'account.erased',
] as const

/** An event that a restored database would forget. */
export type ForgettableEvent = {
  id: string
  type: (typeof kinds)[number]
  account_id: string
  subscription_id: string | null
  occurred_at: Date
  cancel_at: string | null
  reason: string | null
  canceled_at: Date | null
  method: string | null
  terms: PlanTerms | null
}

/** By id, behind one. */
export async function listForgettableEvents(
  db: BillingDb,
  after: string,
  limit: number,
): Promise<ForgettableEvent[]> {
  const { rows } = await sql<ForgettableEvent>`
    select e.id, e.type, e.account_id, e.subscription_id, e.occurred_at, e.data ->> 'cancel_at' as cancel_at,
      e.data ->> 'reason' as reason, s.canceled_at,
      e.data ->> 'payment_method_id' as method,
      case when e.type = 'payment_method.changed' and e.data ? 'plan_id'
        then e.data - 'payment_method_id' end as terms
    from billing.event e left join billing.subscription s on s.id = e.subscription_id
    where e.type = any (${[...kinds]}) and e.id > ${after}
    order by e.id limit ${limit}`.execute(db)
  return rows
}

export type GrantedTrial = { account_id: string; subscription_id: string; plan_id: string; granted_at: Date }

/** By account, behind one. */
export async function listGrantedTrials(
  db: BillingDb,
  after: string,
  limit: number,
): Promise<GrantedTrial[]> {
  const { rows } = await sql<GrantedTrial>`
    select account_id, subscription_id, plan_id, granted_at from billing.trial_grant
    where account_id > ${after} order by account_id limit ${limit}`.execute(db)
  return rows
}

export async function listRevokedTokens(db: BillingDb): Promise<{ id: string; revoked_at: Date }[]> {
  const { rows } = await sql<{ id: string; revoked_at: Date }>`
    select id, revoked_at from platform.token where revoked_at is not null
    order by revoked_at, id`.execute(db)
  return rows
}

export type ReplacedToken = { id: string; ends_at: Date; replaced_by: string }

/** Tokens in whose place another was put, as soon as it is: a copy may hold a later end, or none. */
export async function listReplacedTokens(db: BillingDb): Promise<ReplacedToken[]> {
  const { rows } = await sql<ReplacedToken>`
    select id, expires_at as ends_at, replaced_by from platform.token
    where replaced_by is not null and expires_at is not null
    order by expires_at, id`.execute(db)
  return rows
}

/** Which installation a file of history belongs to: its references mean nothing elsewhere. */
export async function installationId(db: BillingDb): Promise<string> {
  const { id } = await db.selectFrom('billing.installation').select('id').executeTakeFirstOrThrow()
  return id
}
