import { type RawBuilder, sql } from 'kysely'
import { anyLength } from '../../platform/database/any-length.ts'
import { newId } from '../../platform/id.ts'
import { limitOf, type Page, type PageRequest, pageOf, readCursor } from '../../platform/page.ts'
import type { BillingDb, BillingTx } from '../app.ts'

/** A fact that others may act on. Its data holds ids, codes and amounts, never a person. */
export type EventType =
  | 'subscription.created'
  | 'subscription.trial_started'
  | 'subscription.activated'
  | 'subscription.past_due'
  | 'subscription.recovered'
  | 'subscription.canceling'
  | 'subscription.resumed'
  | 'subscription.canceled'
  | 'payment_method.changed'
  | 'payment_method.dropped'
  | 'invoice.held'
  | 'invoice.paid'
  | 'invoice.voided'
  | 'invoice.uncollectible'
  | 'payment.failed'
  | 'payment.unknown'
  | 'payment.action_required'
  | 'payment.found_later'
  | 'payment.disputed'
  | 'payment.dispute_won'
  | 'payment.dispute_lost'
  | 'payment.settled_by_hand'
  | 'refund.requested'
  | 'refund.succeeded'
  | 'refund.failed'
  | 'refund.reversed'
  | 'account.erased'

export type NewEvent = {
  readonly type: EventType
  readonly accountId: string
  readonly subscriptionId: string | null
  readonly data?: Readonly<Record<string, string | number | null>>
}

export type BillingEvent = {
  readonly id: string
  readonly type: string
  readonly accountId: string
  readonly subscriptionId: string | null
  readonly occurredAt: Date
  readonly data: Readonly<Record<string, unknown>>
  readonly timeZone: string
}

/** Writes events in the transaction in which they happen: they exist exactly if the change does. */
export async function insertEvents(tx: BillingTx, now: Date, events: readonly NewEvent[]): Promise<void> {
  if (events.length > 0) await eventStatement(now, events).execute(tx)
}

/** The same as part of a larger statement. */
export function eventStatement(now: Date, events: readonly NewEvent[]): RawBuilder<unknown> {
  return sql`
    insert into billing.event (id, type, account_id, subscription_id, occurred_at, data)
    select id, type, account_id, subscription_id, ${now}, data
    from unnest(
      ${anyLength(events.map(() => newId('evt_', now)))}::text[],
      ${anyLength(events.map(({ type }) => type))}::text[],
      ${anyLength(events.map(({ accountId }) => accountId))}::text[],
      ${anyLength(events.map(({ subscriptionId }) => subscriptionId))}::text[],
      ${anyLength(events.map(({ data }) => JSON.stringify(data ?? {})))}::jsonb[]
    ) as e (id, type, account_id, subscription_id, data)`
}

export type EventFilter = { accountId?: string; subscriptionId?: string; type?: string }

/** Newest first. */
export async function listEvents(
  db: BillingDb,
  filter: EventFilter,
  page: PageRequest,
): Promise<Page<BillingEvent>> {
  const limit = limitOf(page)
  const after = readCursor(page, 1)
  let query = selectEvents(db)
    .orderBy('e.id', 'desc')
    .limit(limit + 1)
  if (filter.accountId !== undefined) query = query.where('e.account_id', '=', filter.accountId)
  if (filter.subscriptionId !== undefined)
    query = query.where('e.subscription_id', '=', filter.subscriptionId)
  if (filter.type !== undefined) query = query.where('e.type', '=', filter.type)
  if (after) query = query.where('e.id', '<', after[0]!)
  return pageOf((await query.execute()).map(toEvent), limit, (event) => [event.id])
}

/** What happened to a subscription: the newest so many, oldest first. */
export async function listEventsOf(
  db: BillingDb,
  subscriptionId: string,
  limit: number,
): Promise<BillingEvent[]> {
  const rows = await selectEvents(db)
    .where('e.subscription_id', '=', subscriptionId)
    .orderBy('e.id', 'desc')
    .limit(limit)
    .execute()
  return rows.map(toEvent).reverse()
}

function selectEvents(db: BillingDb) {
  return db
    .selectFrom('billing.event as e')
    .innerJoin('billing.account as a', 'a.id', 'e.account_id')
    .select(['e.id', 'e.type', 'e.account_id', 'e.subscription_id', 'e.occurred_at', 'e.data', 'a.time_zone'])
}

function toEvent(row: {
  id: string
  type: string
  account_id: string
  subscription_id: string | null
  occurred_at: Date
  data: unknown
  time_zone: string
}): BillingEvent {
  return {
    id: row.id,
    type: row.type,
    accountId: row.account_id,
    subscriptionId: row.subscription_id,
    occurredAt: row.occurred_at,
    data: row.data as Record<string, unknown>,
    timeZone: row.time_zone,
  }
}
