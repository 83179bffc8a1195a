import { sql } from 'kysely'
import type { BillingDb } from '../app.ts'

/** A fact that a restored database would forget and that matters. Ids, codes and instants; never a person. */
export type HistoryLine = {
  readonly kind:
    | 'subscription.created'
    | 'subscription.canceling'
    | 'subscription.resumed'
    | 'subscription.canceled'
    | 'payment_method.changed'
    | 'account.erased'
    | 'trial.granted'
    | 'token.revoked'
  /** Names the line: told again, it is the same. */
  readonly key: string
  readonly at: string
  readonly account?: string
  readonly subscription?: string
  readonly plan?: string
  /** When a cancellation takes effect, or took. */
  readonly ends_at?: string
  readonly reason?: string
  /** Those that a trial's first card came with, where its plan was replaced. */
  readonly terms?: HistoryTerms
  readonly token?: string
}

export type HistoryTerms = {
  readonly plan_id: string
  readonly description: string
  readonly amount: number
  readonly currency: string
  readonly interval: string
  readonly interval_count: number
}

const kinds = [
  'subscription.created',
  'subscription.canceling',
  'subscription.resumed',
  'subscription.canceled',
  'payment_method.changed',
  'account.erased',
]

const page = 2_000

/** All that is to be remembered elsewhere, oldest first, but for what is known there already. */
export async function* listHistory(
  db: BillingDb,
  isKnown: (key: string) => boolean,
): AsyncGenerator<HistoryLine> {
  for await (const line of listFacts(db)) if (!isKnown(line.key)) yield line
}

async function* listFacts(db: BillingDb): AsyncGenerator<HistoryLine> {
  for (let after = ''; ; ) {
    const { rows } = await sql<EventRow>`
      select e.id, e.type, e.account_id, e.subscription_id, e.occurred_at, e.data ->> 'cancel_at' as cancel_at,
        e.data ->> 'reason' as reason, s.canceled_at,
        case when e.type = 'payment_method.changed' and e.data ? 'plan_id' then e.data end as terms
      from billing.event e left join billing.subscription s on s.id = e.subscription_id
      where e.type = any (${kinds}) and e.id > ${after}
      order by e.id limit ${page}`.execute(db)
    for (const row of rows) yield lineOf(row)
    if (rows.length < page) break
    after = rows.at(-1)!.id
  }
  for (let after = ''; ; ) {
    const { rows } = await sql<{
      account_id: string
      subscription_id: string
      plan_id: string
      granted_at: Date
    }>`
      select account_id, subscription_id, plan_id, granted_at from billing.trial_grant
      where account_id > ${after} order by account_id limit ${page}`.execute(db)
    for (const row of rows) {
      yield {
        kind: 'trial.granted',
        key: `trial:${row.account_id}`,
        at: row.granted_at.toISOString(),
        account: row.account_id,
        subscription: row.subscription_id,
        plan: row.plan_id,
      }
    }
    if (rows.length < page) break
    after = rows.at(-1)!.account_id
  }
  const tokens = await sql<{ id: string; revoked_at: Date }>`
    select id, revoked_at from platform.token where revoked_at is not null order by revoked_at, id`.execute(
    db,
  )
  for (const { id, revoked_at } of tokens.rows)
    yield { kind: 'token.revoked', key: `token:${id}`, at: revoked_at.toISOString(), token: id }
}

type EventRow = {
  id: string
  type: HistoryLine['kind']
  account_id: string
  subscription_id: string | null
  occurred_at: Date
  cancel_at: string | null
  reason: string | null
  canceled_at: Date | null
  terms: HistoryTerms | null
}

function lineOf(row: EventRow): HistoryLine {
  const endsAt = row.type === 'subscription.canceled' ? row.canceled_at?.toISOString() : row.cancel_at
  return {
    kind: row.type,
    key: `event:${row.id}`,
    at: row.occurred_at.toISOString(),
    account: row.account_id,
    ...(row.subscription_id !== null && { subscription: row.subscription_id }),
    ...(endsAt != null && { ends_at: endsAt }),
    ...(row.reason !== null && { reason: row.reason }),
    ...(row.terms !== null && { terms: row.terms }),
  }
}

/** Which installation a file of history belongs to: its references mean nothing elsewhere. */
export async function installationId(db: BillingDb): Promise<string> {
  const { id } = await db.selectFrom('billing.installation').select('id').executeTakeFirstOrThrow()
  return id
}
