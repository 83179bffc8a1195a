import { sql } from 'kysely'
import type { BillingDb } from '../app.ts'
import type { Difference } from './compare.ts'
import type { Reconciliation } from './reconcile-payments.ts'

export type ReconciliationRun = {
  readonly id: bigint
  readonly from: Date
  readonly to: Date
  readonly status: 'running' | 'done' | 'failed'
  readonly compared: number
  readonly repaired: number
  readonly differences: number
  readonly examples: readonly Record<string, unknown>[]
  readonly startedAt: Date
  readonly finishedAt: Date | null
  /** Why it failed, in words for an operator. */
  readonly reason: string | null
}

const leaseSeconds = 120
const mostExamples = 100

/** Begins a run unless one is under way; then undefined. One whose process died is given up first. */
export async function beginReconciliation(
  db: BillingDb,
  { from, to, actor, now }: { from: Date; to: Date; actor: string; now: Date },
): Promise<bigint | undefined> {
  const made = await sql<{ id: bigint }>`
    with given_up as (
      update billing.reconciliation set status = 'failed', finished_at = ${now},
        reason = 'Its process ended, or could not reach the database, before it was through. Compare again.'
      where status = 'running' and leased_until < clock_timestamp()
      returning id)
    insert into billing.reconciliation (from_at, to_at, status, actor, started_at, leased_until)
    select ${from}::timestamptz, ${to}::timestamptz, 'running', ${actor}, ${now}::timestamptz,
      clock_timestamp() + make_interval(secs => ${leaseSeconds})
    -- Counting them has the one before end first: two at once are a conflict.
    from (select count(*) from given_up) ended
    on conflict do nothing returning id`.execute(db)
  return made.rows[0]?.id
}

export async function noteCompared(db: BillingDb, id: bigint, compared: number): Promise<void> {
  await sql`
    update billing.reconciliation
    set compared = ${compared}, leased_until = clock_timestamp() + make_interval(secs => ${leaseSeconds})
    where id = ${id} and status = 'running'`.execute(db)
}

/** With what was found, or why nothing could be. */
export async function endReconciliation(
  db: BillingDb,
  id: bigint,
  now: Date,
  outcome: Reconciliation | { readonly reason: string },
): Promise<void> {
  const found = 'reason' in outcome ? undefined : outcome
  const examples = found?.differences.slice(0, mostExamples).map(exampleOf) ?? []
  await sql`
    update billing.reconciliation
    set status = ${found ? 'done' : 'failed'}, compared = ${found?.compared ?? sql`compared`},
      repaired = ${found?.repaired.length ?? 0}, differences = ${found?.differences.length ?? 0},
      examples = ${JSON.stringify(examples)}::jsonb, finished_at = ${now},
      reason = ${'reason' in outcome ? outcome.reason : null}
    where id = ${id} and status = 'running'`.execute(db)
}

function exampleOf(difference: Difference): Record<string, unknown> {
  return JSON.parse(
    JSON.stringify(difference, (_name, value) => (typeof value === 'bigint' ? Number(value) : value)),
  )
}

export async function listReconciliations(db: BillingDb, limit: number): Promise<ReconciliationRun[]> {
  const found = await sql<ReconciliationRun>`
    select id, from_at as "from", to_at as "to", status, compared, repaired, differences, examples,
      started_at as "startedAt", finished_at as "finishedAt", reason
    from billing.reconciliation order by id desc limit ${limit}`.execute(db)
  return found.rows
}
