import { sql } from 'kysely'
import type { BatchTx } from '../../app.ts'
import { withKeywords } from '../../keywords/keyword-rows.ts'
import type { ClaimedCheck } from '../claim-rows.ts'
import { installationScope } from '../tracker-rows.ts'

/** A check whose search is about to be ordered. */
export type NewOrder = ClaimedCheck & { readonly tag: string }

type Place = Pick<ClaimedCheck, 'workspaceId' | 'trackerId' | 'day' | 'keywordId'>

// The source says five minutes, and promises 45.
const usualMinutes = 6
const promisedMinutes = 45
const lostMinutes = 50
// What is late by hours is not looked for every five minutes.
const lateMinutes = 120
const minutesWhenLate = 30
const keptDays = 4

/**
 * Writes down what will be ordered. The tag is a hash of the order's place and of what it asks, so that nobody takes the
 * answer to another question for this one's.
 */
export async function insertOrders(
  tx: BatchTx,
  source: string,
  checks: readonly ClaimedCheck[],
  now: Date,
): Promise<NewOrder[]> {
  if (checks.length === 0) return []
  const questions = checks.map(({ keyword, engine, device, location, language, depth }) =>
    JSON.stringify([keyword, engine, device, location, language, depth]),
  )
  const { rows } = await sql<{ at: number; tag: string }>`
    with asked as (
      select g.*, 1 + coalesce((
        select max(o.number) from batch.rank_order o
        where o.workspace_id = g.workspace_id and o.tracker_id = g.tracker_id and o.day = g.day
          and o.keyword_id = g.keyword_id), 0) as number
      from unnest(
        ${placesOf(checks)}, ${checks.map(({ engine }) => engine)}::text[], ${checks.map(({ device }) => device)}::text[],
        ${checks.map(({ location }) => location)}::text[], ${checks.map(({ depth }) => depth)}::smallint[],
        ${checks.map(({ spentOn }) => spentOn)}::date[], ${questions}::text[]
      ) with ordinality
        as g (workspace_id, tracker_id, day, keyword_id, engine, device, location, depth, spent_on, question, at)
    ),
    tagged as (
      select *, 'rl-' || left(encode(sha256(convert_to(
        concat_ws(E'\n', workspace_id, tracker_id, day, keyword_id, number, question), 'UTF8')), 'hex'), 48) as tag
      from asked
    ),
    written as (
      insert into batch.rank_order (workspace_id, tracker_id, day, keyword_id, number, source, tag, engine, device,
        location, depth, spent_on, ordered_at, lookup_by)
      select workspace_id, tracker_id, day, keyword_id, number, ${source}, tag, engine, device, location, depth, spent_on,
             ${now}::timestamptz, ${now}::timestamptz + make_interval(mins => ${usualMinutes})
      from tagged
    )
    select at::int, tag from tagged order by at`.execute(tx)
  return rows.map(({ at, tag }) => ({ ...checks[at - 1]!, tag }))
}

/** Takes back orders that were surely not taken. */
export async function deleteOrders(tx: BatchTx, source: string, orders: readonly NewOrder[]): Promise<void> {
  if (orders.length === 0) return
  await sql`
    delete from batch.rank_order
    where source = ${source} and tag = any (${orders.map(({ tag }) => tag)}::text[]) and state = 'waiting'`.execute(
    tx,
  )
}

/** Writes down how the source calls what it took. */
export async function nameOrders(
  tx: BatchTx,
  source: string,
  named: readonly { readonly tag: string; readonly id: string }[],
): Promise<void> {
  if (named.length === 0) return
  await sql`
    update batch.rank_order o set order_id = g.id
    from unnest(${named.map(({ tag }) => tag)}::text[], ${named.map(({ id }) => id)}::text[]) as g (tag, id)
    where o.source = ${source} and o.tag = g.tag and o.state = 'waiting'`.execute(tx)
}

/** The engines whose list of ready orders is to be read: they have orders of a source that are not known to be ready. */
export async function listEnginesDue(tx: BatchTx, source: string, now: Date): Promise<string[]> {
  const { rows } = await sql<{ engine: string }>`
    select distinct engine from batch.rank_order
    where source = ${source} and state = 'waiting' and not is_ready and lookup_by <= ${now}
    order by engine`.execute(tx)
  return rows.map(({ engine }) => engine)
}

/**
 * Notes which of our orders are ready, before they are collected: the list forgets them then. One whose id never reached
 * us has it now.
 */
export async function markReady(
  tx: BatchTx,
  source: string,
  listed: readonly { readonly id: string; readonly tag: string }[],
  now: Date,
): Promise<number> {
  if (listed.length === 0) return 0
  const { rows } = await sql<{ count: number }>`
    with marked as (
      update batch.rank_order o
      set order_id = coalesce(o.order_id, g.id), is_ready = true, lookup_by = least(o.lookup_by, ${now})
      from (select distinct on (tag) tag, id
            from unnest(${listed.map(({ tag }) => tag)}::text[], ${listed.map(({ id }) => id)}::text[]) as l (tag, id)
            order by tag, id) g
      where o.source = ${source} and o.tag = g.tag and o.state = 'waiting' and not o.is_ready
      returning 1
    )
    select count(*)::int as count from marked`.execute(tx)
  return rows[0]!.count
}

/**
 * What becomes of the orders that a list did not name. Those that should be there by now are asked for by their ids; those
 * without one are lost once a whole list did not name them, and their checks are due again. The others are looked for later.
 */
export async function putOffLookups(
  tx: BatchTx,
  where: { source: string; engine: string; now: Date; isWhole: boolean },
): Promise<number> {
  const { source, engine, now, isWhole } = where
  await sql`
    update batch.rank_order
    set is_ready = order_id is not null and ordered_at <= ${now}::timestamptz - make_interval(mins => ${promisedMinutes}),
        lookup_by = case
          when order_id is not null and ordered_at <= ${now}::timestamptz - make_interval(mins => ${promisedMinutes})
          then lookup_by else ${laterLookup(now)} end
    where source = ${source} and engine = ${engine} and state = 'waiting' and not is_ready and lookup_by <= ${now}
      and (order_id is not null or not ${isWhole}
        or ordered_at > ${now}::timestamptz - make_interval(mins => ${lostMinutes}))`.execute(tx)
  if (!isWhole) return 0
  const { rows } = await sql<{ count: number }>`
    with lost as (
      update batch.rank_order set state = 'lost'
      where source = ${source} and engine = ${engine} and state = 'waiting' and order_id is null and not is_ready
        and lookup_by <= ${now}
      returning workspace_id, tracker_id, day, keyword_id, source, spent_on
    ),
    freed as (
      update batch.rank_check c set status = 'due', due_at = ${now}, reason = 'order_lost'
      from lost l
      where c.workspace_id = l.workspace_id and c.tracker_id = l.tracker_id and c.day = l.day
        and c.keyword_id = l.keyword_id and c.status = 'ordered'
    ),
    ${countLost()}
    select count(*)::int as count from lost`.execute(tx)
  return rows[0]!.count
}

/** An order that can be collected, with its check. */
export type ReadyOrder = ClaimedCheck & {
  readonly orderId: string
  readonly number: number
  readonly orderedAt: Date
  readonly closesAt: Date
}

/** Takes orders that are ready, with what was asked then and the site that is looked for now. */
export async function claimReady(
  tx: BatchTx,
  claim: { source: string; by: string; now: Date; most: number },
): Promise<ReadyOrder[]> {
  const { rows } = await sql<Omit<ReadyOrder, 'keyword'>>`
    with ready as (
      select o.*, c.ctid as place from batch.rank_order o
      join batch.rank_check c on c.workspace_id = o.workspace_id and c.tracker_id = o.tracker_id and c.day = o.day
        and c.keyword_id = o.keyword_id and c.status = 'ordered'
      where o.source = ${claim.source} and o.state = 'waiting' and o.is_ready and o.order_id is not null
        and o.lookup_by <= ${claim.now}
      order by o.lookup_by, o.tag
      limit ${claim.most}
      for update
    )
    update batch.rank_check c set status = 'asked', asked_by = ${claim.by}, reserved = 0, spent_on = o.spent_on
    from ready o, batch.tracker t
    where c.ctid = o.place and t.workspace_id = c.workspace_id and t.id = c.tracker_id
    returning c.workspace_id as "workspaceId", c.tracker_id as "trackerId", c.day, c.keyword_id as "keywordId",
      c.tries, c.due_at as "dueAt", c.reserved, c.spent_on as "spentOn", c.closes_at as "closesAt",
      o.order_id as "orderId", o.number, o.ordered_at as "orderedAt",
      t.site, t.match, t.language, o.engine, o.device, o.location, o.depth`.execute(tx)
  return withKeywords(tx, rows)
}

/** Ends orders whose results were judged. */
export async function endOrders(tx: BatchTx, ended: readonly ReadyOrder[]): Promise<void> {
  if (ended.length === 0) return
  await sql`
    update batch.rank_order o set state = 'done'
    from unnest(${placesOf(ended)}, ${ended.map(({ number }) => number)}::smallint[])
      as g (workspace_id, tracker_id, day, keyword_id, number)
    where o.workspace_id = g.workspace_id and o.tracker_id = g.tracker_id and o.day = g.day
      and o.keyword_id = g.keyword_id and o.number = g.number`.execute(tx)
}

/** Puts off orders that could not be collected. One that is still in the queue is looked for in the list again. */
export async function putOffOrders(
  tx: BatchTx,
  later: readonly (ReadyOrder & { readonly isQueued: boolean })[],
  now: Date,
): Promise<void> {
  if (later.length === 0) return
  await sql`
    update batch.rank_order o set is_ready = not g.is_queued, lookup_by = ${laterLookup(now)}
    from unnest(${placesOf(later)}, ${later.map(({ number }) => number)}::smallint[],
                ${later.map(({ isQueued }) => isQueued)}::boolean[])
      as g (workspace_id, tracker_id, day, keyword_id, number, is_queued)
    where o.workspace_id = g.workspace_id and o.tracker_id = g.tracker_id and o.day = g.day
      and o.keyword_id = g.keyword_id and o.number = g.number`.execute(tx)
}

/** Gives up the orders of checks that have ended, and forgets those that ended days ago. */
export async function dropOrders(tx: BatchTx, now: Date): Promise<void> {
  await sql`
    with dropped as (
      update batch.rank_order o set state = case when o.order_id is null then 'lost' else 'dropped' end
      from batch.rank_check c
      where o.state = 'waiting' and c.status in ('done', 'failed')
        and c.workspace_id = o.workspace_id and c.tracker_id = o.tracker_id and c.day = o.day
        and c.keyword_id = o.keyword_id
      returning o.workspace_id, o.tracker_id, o.source, o.spent_on, o.state
    ),
    lost as (select * from dropped where state = 'lost'),
    ${countLost()}
    delete from batch.rank_order
    where state <> 'waiting' and ordered_at < ${now}::timestamptz - make_interval(days => ${keptDays})`.execute(
    tx,
  )
}

/** Counts as lost, by whose budget they were taken from, the orders that stand in `lost`. They are spent already. */
function countLost() {
  return sql`
    counted as (
      select source, spent_on as day, scope, count(*)::int as calls
      from lost, lateral (values (${installationScope}), ('workspace ' || workspace_id),
                                 ('tracker ' || workspace_id || ' ' || tracker_id)) as s (scope)
      group by source, spent_on, scope
    ),
    booked as (
      update batch.source_spending p set lost = p.lost + c.calls from counted c
      where p.source = c.source and p.day = c.day and p.scope = c.scope
    )`
}

function laterLookup(now: Date) {
  return sql`${now}::timestamptz + make_interval(mins => case
    when ordered_at > ${now}::timestamptz - make_interval(mins => ${lateMinutes}) then ${usualMinutes}::int
    else ${minutesWhenLate}::int end)`
}

function placesOf(places: readonly Place[]) {
  return sql`${places.map(({ workspaceId }) => workspaceId)}::text[],
    ${places.map(({ trackerId }) => trackerId)}::text[], ${places.map(({ day }) => day)}::date[],
    ${places.map(({ keywordId }) => String(keywordId))}::bigint[]`
}
