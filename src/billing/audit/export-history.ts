import type { BillingDb } from '../app.ts'
import type { PlanTerms } from '../tables.ts'
import {
  type ForgettableEvent,
  listForgettableEvents,
  listGrantedTrials,
  listReplacedTokens,
  listRevokedTokens,
} from './history-rows.ts'

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
    | 'token.replaced'
  /** Names the line: told again, it is the same. */
  readonly key: string
  /** Of a replaced token, when it ends; that may be still to come. */
  readonly at: string
  readonly account?: string
  readonly subscription?: string
  readonly plan?: string
  /** When a cancellation takes effect, or took. */
  readonly ends_at?: string
  readonly reason?: string
  /** Our id of the payment method that took the place of another; files of earlier releases lack it. */
  readonly method?: string
  /** Those that a trial's first payment method came with, where its plan was replaced. */
  readonly terms?: PlanTerms
  readonly token?: string
  /** The token that took its place. */
  readonly replaced_by?: string
}

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
    const rows = await listForgettableEvents(db, after, page)
    for (const row of rows) yield lineOf(row)
    if (rows.length < page) break
    after = rows.at(-1)!.id
  }
  for (let after = ''; ; ) {
    const rows = await listGrantedTrials(db, after, page)
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
  for (const { id, revoked_at } of await listRevokedTokens(db))
    yield { kind: 'token.revoked', key: `token:${id}`, at: revoked_at.toISOString(), token: id }
  for (const { id, ends_at, replaced_by } of await listReplacedTokens(db)) {
    const at = ends_at.toISOString()
    // Rotated once more it ends earlier, which is another line.
    yield { kind: 'token.replaced', key: `token:${id}:replaced:${at}`, at, token: id, replaced_by }
  }
}

function lineOf(row: ForgettableEvent): HistoryLine {
  const endsAt = row.type === 'subscription.canceled' ? row.canceled_at?.toISOString() : row.cancel_at
  return {
    kind: row.type,
    key: `event:${row.id}`,
    at: row.occurred_at.toISOString(),
    account: row.account_id,
    ...(row.subscription_id !== null && { subscription: row.subscription_id }),
    ...(endsAt != null && { ends_at: endsAt }),
    ...(row.reason !== null && { reason: row.reason }),
    ...(row.method !== null && { method: row.method }),
    ...(row.terms !== null && { terms: row.terms }),
  }
}
