import { sql } from 'kysely'
import type pg from 'pg'
import { shareStatements } from '../../platform/database/share-statements.ts'
import type { BillingDb } from '../app.ts'
import { realTimeIn } from '../payments/payment-rows.ts'
import type { WebhookClaim, WebhookStatus } from './webhook.ts'

/** An authentic event on its way into the inbox. */
export type NewWebhook = {
  readonly provider: string
  readonly eventId: string
  readonly bodyHash: Buffer
  readonly sealed: Buffer
  readonly type: string
  readonly claim: WebhookClaim | null
  /** Our payment, if it speaks of one. */
  readonly reference: string | null
  /** The same by the provider's own id, where the event names nothing of ours. */
  readonly providerPayment?: string | null
  readonly receivedAt: Date
}

export type Inbox = {
  /** Stores an event durably. False: an event of that id is there already. */
  add(webhook: NewWebhook): Promise<boolean>
}

const mostTogether = 100

export function openInbox(pool: pg.Pool): Inbox {
  return {
    add: shareStatements({ together: mostTogether, atOnce: 1 }, async (webhooks) => {
      const stored = await insertWebhooks(pool, webhooks)
      // Of two copies in one statement the first is the one that was stored.
      return webhooks.map((webhook) => stored.delete(nameOf(webhook)))
    }),
  }
}

/** Our own answer to a charge mostly comes first, and then there is nothing to look up. */
const patienceSeconds = 1

async function insertWebhooks(pool: pg.Pool, webhooks: readonly NewWebhook[]): Promise<Set<string>> {
  const of = <T>(pick: (webhook: NewWebhook) => T) => webhooks.map(pick)
  const { rows } = await pool.query<{ provider: string; event_id: string }>({
    name: 'billing-store-webhooks',
    text: `insert into billing.webhook
             (provider, event_id, body_hash, sealed, type, claim, reference, provider_payment, status, received_at, next_lookup_at)
           select provider, event_id, body_hash, sealed, type, claim, reference, provider_payment,
             case when claim is null or coalesce(reference, provider_payment) is null then 'ignored' else 'waiting' end, received_at,
             clock_timestamp() + make_interval(secs => ${patienceSeconds})
           from unnest($1::text[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
             $8::text[], $9::text[]) as w (event_id, body_hash, sealed, type, claim, reference, received_at, provider, provider_payment)
           on conflict (provider, event_id) do nothing
           returning provider, event_id`,
    values: [
      of(({ eventId }) => eventId),
      of(({ bodyHash }) => bodyHash),
      of(({ sealed }) => sealed),
      of(({ type }) => type),
      of(({ claim }) => claim),
      of(({ reference }) => reference),
      of(({ receivedAt }) => receivedAt),
      of(({ provider }) => provider),
      of(({ providerPayment }) => providerPayment ?? null),
    ],
  })
  return new Set(rows.map(({ provider, event_id: eventId }) => nameOf({ provider, eventId })))
}

/** An event's id is its provider's own. */
function nameOf({ provider, eventId }: { provider: string; eventId: string }): string {
  return `${provider} ${eventId}`
}

/**
 * Queues a look at a payment that an unsigned message names, by our reference or the provider's id. There is one row per payment,
 * so that no number of messages fills the table; a payment that is not ours leaves no trace. While it is looked at for an
 * earlier message, the look may have come too soon for this one: it counts as never taken, so that `endWebhooks` leaves it.
 */
export async function insertHint(
  db: BillingDb,
  hint: { provider: string; names: readonly string[]; type: string; bodyHash: Buffer; now: Date },
): Promise<void> {
  await sql`
    insert into billing.webhook as w
      (provider, event_id, body_hash, type, claim, reference, status, received_at, next_lookup_at)
    select p.provider, 'hint:' || p.id, ${hint.bodyHash}, ${hint.type}, 'changed', p.provider_reference, 'waiting',
      ${hint.now}, clock_timestamp()
    from billing.payment p
    where p.provider = ${hint.provider}
      and (p.provider_reference = any (${[...hint.names]}) or p.provider_id = any (${[...hint.names]}))
    limit 1
    on conflict (provider, event_id) do update
      set status = 'waiting', tries = 0, last_error = null, settled_at = null,
        received_at = excluded.received_at,
        next_lookup_at = case when w.status = 'waiting' then w.next_lookup_at else excluded.next_lookup_at end
      where w.status <> 'waiting' or w.tries > 0`.execute(db)
}

const mostAtOnce = 5_000

/**
 * Marks what has nothing to teach: the payment already stands as the event says, or is none of ours. One statement for
 * all of them, which is what keeps up with a wave of renewals.
 */
export async function settleKnown(db: BillingDb, now: Date): Promise<number> {
  const settled = await sql`
    with known as (
      select w.provider, w.event_id, p.id is not null as ours
      from billing.webhook w
      left join billing.payment p on p.provider_reference = w.reference and p.provider = w.provider
      where w.status = 'waiting' and w.reference is not null
        and (p.id is null
          or w.claim = 'paid' and p.status = 'succeeded'
          or w.claim = 'declined' and p.status = 'failed')
      limit ${mostAtOnce}
      for update of w skip locked
    )
    update billing.webhook w
    set status = case when known.ours then 'done' else 'ignored' end, settled_at = ${now}, last_error = null
    from known
    where w.provider = known.provider and w.event_id = known.event_id and w.status = 'waiting'
    returning 1`.execute(db)
  return settled.rows.length
}

export type WaitingWebhook = {
  readonly provider: string
  readonly eventId: string
  /** Null: nothing of ours is known under what it names, so far. */
  readonly reference: string | null
  readonly tries: number
}

/**
 * Takes events that need a look, oldest first, and leases them to the caller: after a crash they are leased again. One that names the provider's own id finds
 * its payment here, as soon as we have learned that id ourselves.
 */
export async function takeWaiting(db: BillingDb, limit: number, leaseMs: number): Promise<WaitingWebhook[]> {
  const taken = await sql<{ provider: string; event_id: string; reference: string | null; tries: number }>`
    update billing.webhook w
    set tries = tries + 1, next_lookup_at = ${realTimeIn(leaseMs)},
      reference = coalesce(w.reference, (
        select p.provider_reference from billing.payment p
        where p.provider = w.provider and p.provider_id = w.provider_payment limit 1))
    where (provider, event_id) in (
      select provider, event_id from billing.webhook
      where status = 'waiting' and next_lookup_at <= clock_timestamp()
      order by next_lookup_at limit ${limit} for update skip locked)
    returning provider, event_id, reference, tries`.execute(db)
  return taken.rows.map(({ event_id: eventId, ...row }) => ({ ...row, eventId }))
}

export type WebhookEnd = {
  readonly provider: string
  readonly eventId: string
  /** As it was taken. */
  readonly tries: number
  readonly status: WebhookStatus
  readonly error: string | null
  /** When one that waits on is looked at again. */
  readonly lookAfterSeconds: number
}

/** Writes down what became of events, and of those that wait on, why. Those that came or were taken anew meanwhile wait on. */
export async function endWebhooks(db: BillingDb, now: Date, ends: readonly WebhookEnd[]): Promise<void> {
  if (ends.length === 0) return
  await sql`
    update billing.webhook w
    set status = e.status, last_error = e.error,
      settled_at = case when e.status <> 'waiting' then ${now}::timestamptz end,
      next_lookup_at = clock_timestamp() + make_interval(secs => e.look_after)
    from unnest(
      ${ends.map(({ provider }) => provider)}::text[],
      ${ends.map(({ eventId }) => eventId)}::text[],
      ${ends.map(({ tries }) => tries)}::int[],
      ${ends.map(({ status }) => status)}::text[],
      ${ends.map(({ error }) => error)}::text[],
      ${ends.map(({ lookAfterSeconds }) => lookAfterSeconds)}::float8[]
    ) as e (provider, event_id, tries, status, error, look_after)
    where w.provider = e.provider and w.event_id = e.event_id and w.status = 'waiting' and w.tries = e.tries`.execute(
    db,
  )
}

/** Puts events back into the line: one by its id, or all that failed. Their payment is looked up whatever they say. */
export async function requeueWebhooks(
  db: BillingDb,
  which: { eventId: string } | 'failed',
): Promise<{ eventId: string; queued: boolean }[]> {
  const wanted = which === 'failed' ? sql`status = 'failed'` : sql`event_id = ${which.eventId}`
  const found = await sql<{ event_id: string; queued: boolean }>`
    update billing.webhook
    set status = case when coalesce(reference, provider_payment) is null then status else 'waiting' end,
      claim = case when coalesce(reference, provider_payment) is null then claim else 'changed' end,
      tries = 0, last_error = null, settled_at = null, next_lookup_at = clock_timestamp()
    where ${wanted}
    returning event_id, coalesce(reference, provider_payment) is not null as queued`.execute(db)
  return found.rows.map(({ event_id, queued }) => ({ eventId: event_id, queued }))
}

/** How many of these events still wait. */
export async function countWaiting(db: BillingDb, eventIds: readonly string[]): Promise<number> {
  const found = await sql<{ n: number }>`
    select count(*)::int as n from billing.webhook
    where event_id = any (${[...eventIds]}) and status = 'waiting'`.execute(db)
  return found.rows[0]!.n
}

const bodyDays = 90

/** Bodies that came by then are erased now. */
export function bodiesUntil(now: Date): Date {
  return new Date(now.getTime() - bodyDays * 86_400_000)
}

/** Forgets bodies that are old enough; id and hash stay, so that the event can still not happen twice. */
export async function eraseOldBodies(db: BillingDb, now: Date): Promise<number> {
  const erased = await sql`
    update billing.webhook set sealed = null
    where (provider, event_id) in (
      select provider, event_id from billing.webhook
      where sealed is not null and received_at <= ${bodiesUntil(now)}
      order by received_at limit ${mostAtOnce})
    returning 1`.execute(db)
  return erased.rows.length
}

export type StoredWebhook = {
  readonly provider: string
  readonly eventId: string
  readonly type: string
  readonly claim: string | null
  readonly reference: string | null
  readonly status: WebhookStatus
  readonly tries: number
  readonly lastError: string | null
  readonly receivedAt: Date
  readonly settledAt: Date | null
}

/** What providers told us, newest first. Of those that are done with, the ones whose bodies are kept: an index has them by time. */
export async function listWebhooks(
  db: BillingDb,
  filter: {
    status: WebhookStatus | undefined
    before: readonly [string, string, string] | undefined
    limit: number
  },
): Promise<StoredWebhook[]> {
  const isRare = filter.status === 'waiting' || filter.status === 'failed'
  const found = await sql<StoredWebhook>`
    select provider, event_id as "eventId", type, claim, reference, status, tries, last_error as "lastError",
      received_at as "receivedAt", settled_at as "settledAt"
    from billing.webhook
    where ${isRare ? sql`true` : sql`sealed is not null`}
      and ${filter.status === undefined ? sql`true` : sql`status = ${sql.lit(filter.status)}`}
      and (${filter.before === undefined}
        or (received_at, provider, event_id) < (${filter.before?.[0] ?? null}::timestamptz, ${filter.before?.[1] ?? null}, ${filter.before?.[2] ?? null}))
    order by received_at desc, provider desc, event_id desc limit ${filter.limit}`.execute(db)
  return found.rows
}

export type InboxCounts = { readonly waiting: number; readonly failed: number }

export async function countInbox(db: BillingDb): Promise<InboxCounts> {
  const found = await sql<InboxCounts>`
    select (select count(*) from billing.webhook where status = 'waiting')::int as waiting,
           (select count(*) from billing.webhook where status = 'failed')::int as failed`.execute(db)
  return found.rows[0]!
}
