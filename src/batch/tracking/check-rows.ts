import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BatchDb, BatchTx } from '../app.ts'
import { withKeywords } from '../keywords/keyword-rows.ts'
import type { ClaimedCheck } from './claim-rows.ts'
import { withFirstOfEachSource } from './source-rows.ts'
import { type CheckPlan, mostTries, type Tracker } from './tracker.ts'
import { installationScope } from './tracker-rows.ts'

/**
 * Brings checks that are due to the source that their tracker names now, as new ones: those of one tracker when it is
 * replaced, and of all when a run begins, because what was under way meanwhile comes back where it was asked, with a reason.
 */
export async function moveToNewSource(tx: BatchTx, tracker?: Tracker): Promise<void> {
  const which = tracker
    ? sql`t.workspace_id = ${tracker.workspaceId} and t.id = ${tracker.id}`
    : sql`(c.by_hand or c.reason is not null)`
  await sql`
    update batch.rank_check c set source = t.source, tries = 0, reason = null
    from batch.tracker t
    where c.status = 'due' and t.workspace_id = c.workspace_id and t.id = c.tracker_id and t.source <> c.source
      and ${which}`.execute(tx)
}

/** The checks of a replaced tracker that nobody has begun, and that it no longer asks for. */
export async function dropUntouchedChecks(tx: BatchTx, tracker: Tracker): Promise<void> {
  const keys = tracker.keywords?.map(({ key }) => key) ?? null
  await sql`
    delete from batch.rank_check c
    where c.workspace_id = ${tracker.workspaceId} and c.tracker_id = ${tracker.id} and c.status = 'due' and c.tries = 0
      -- Not correlated: checks stay on the coordinator where keywords are spread over machines.
      and c.keyword_id not in (
        select k.id from batch.keyword k
        where k.workspace_id = ${tracker.workspaceId} and k.removed_at is null
          and (${keys}::text[] is null or k.key = any (${keys}::text[])))`.execute(tx)
}

/**
 * Plans a day: every keyword gets its slot by a hash of its own, the same every day, so that checks spread over the
 * window and come a day apart. What is left of a window that has begun takes all. One that was made by hand before stands,
 * unless it has failed: then the day is not over for it.
 */
export async function insertPlan(tx: BatchTx, tracker: Tracker, plan: CheckPlan, now: Date): Promise<number> {
  const from = now <= plan.opensAt ? plan.opensAt : now < plan.lastSlotAt ? now : plan.lastSlotAt
  const keys = tracker.keywords?.map(({ key }) => key) ?? null
  const { rows } = await sql<{ count: number }>`
    with planned as (
      insert into batch.rank_check as c (workspace_id, tracker_id, day, keyword_id, source, due_at, closes_at)
      select ${tracker.workspaceId}, ${tracker.id}, ${plan.day}, k.id, ${tracker.source},
             ${from}::timestamptz + (${plan.lastSlotAt}::timestamptz - ${from}::timestamptz)
               * (('x' || substr(md5(${tracker.id} || ':' || k.id), 1, 7))::bit(28)::int / 268435456.0),
             ${plan.closesAt}
      from batch.keyword k
      where k.workspace_id = ${tracker.workspaceId} and k.removed_at is null
        and (${keys}::text[] is null or k.key = any (${keys}::text[]))
      on conflict (workspace_id, tracker_id, day, keyword_id) do update
        set status = 'due', tries = 0, due_at = excluded.due_at, closes_at = excluded.closes_at, by_hand = false,
            source = excluded.source, reason = null
        where c.by_hand and c.status = 'failed' and excluded.closes_at > ${now}
      returning 1
    )
    select count(*)::int as count from planned`.execute(tx)
  return rows[0]!.count
}

/** How many of these keywords somebody is asking for just now, on a day of a tracker. */
export async function countUnderWay(
  db: BatchDb,
  tracker: Tracker,
  day: Day,
  keywordIds: readonly bigint[],
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from batch.rank_check
    where workspace_id = ${tracker.workspaceId} and tracker_id = ${tracker.id} and day = ${day}
      and keyword_id = any (${keywordIds.map(String)}::bigint[]) and status in ('asked', 'ordered')`.execute(
    db,
  )
  return rows[0]!.count
}

/** Plans checks of some keywords for right now, also of those that were checked today. Not of one that is under way. */
export async function insertChecksByHand(
  tx: BatchTx,
  tracker: Tracker,
  plan: Pick<CheckPlan, 'day' | 'closesAt'>,
  keywordIds: readonly bigint[],
  now: Date,
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    with planned as (
      insert into batch.rank_check as c
        (workspace_id, tracker_id, day, keyword_id, source, due_at, closes_at, by_hand)
      select ${tracker.workspaceId}, ${tracker.id}, ${plan.day}, id, ${tracker.source}, ${now}, ${plan.closesAt}, true
      from unnest(${keywordIds.map(String)}::bigint[]) as id
      on conflict (workspace_id, tracker_id, day, keyword_id) do update
        set status = 'due', tries = 0, due_at = excluded.due_at, closes_at = excluded.closes_at, by_hand = true,
            source = excluded.source, reason = null
        where c.status not in ('asked', 'ordered')
      returning 1
    )
    select count(*)::int as count from planned`.execute(tx)
  return rows[0]!.count
}

/** What became of a check. */
export type CheckEnd = Pick<ClaimedCheck, 'workspaceId' | 'trackerId' | 'day' | 'keywordId'> & {
  readonly status: 'done' | 'failed' | 'due' | 'ordered'
  readonly tries: number
  readonly dueAt: Date
  readonly reason: string | null
}

/** Writes what became of checks that this one has in hand. Those that were taken away stay as they are. */
export async function endChecks(
  tx: BatchTx,
  by: string,
  ends: readonly CheckEnd[],
  now: Date,
): Promise<void> {
  if (ends.length === 0) return
  await sql`
    update batch.tracker t set last_check_at = ${now}
    from (select distinct * from unnest(${ends.map((end) => end.workspaceId)}::text[],
                                        ${ends.map((end) => end.trackerId)}::text[]) as g (workspace_id, id)) g
    where t.workspace_id = g.workspace_id and t.id = g.id`.execute(tx)
  await sql`
    update batch.rank_check c
    set status = g.status, tries = g.tries, due_at = g.due_at, reason = g.reason, asked_by = null, reserved = 0,
        spent_on = null
    from unnest(
      ${ends.map((end) => end.workspaceId)}::text[], ${ends.map((end) => end.trackerId)}::text[],
      ${ends.map((end) => end.day)}::date[], ${ends.map((end) => String(end.keywordId))}::bigint[],
      ${ends.map((end) => end.status)}::text[], ${ends.map((end) => end.tries)}::smallint[],
      ${ends.map((end) => end.dueAt.toISOString())}::timestamptz[], ${ends.map((end) => end.reason)}::text[]
    ) as g (workspace_id, tracker_id, day, keyword_id, status, tries, due_at, reason)
    where c.workspace_id = g.workspace_id and c.tracker_id = g.tracker_id and c.day = g.day
      and c.keyword_id = g.keyword_id and c.status = 'asked' and c.asked_by = ${by}`.execute(tx)
}

/**
 * Frees the checks that somebody asked for who is gone. Whether their answers were paid for nobody can tell: they count
 * as spent, and as lost. What was ordered is spent as well, and is waited for: its tag may still turn up.
 */
export async function freeLostChecks(tx: BatchTx, by: string, dueAt: Date): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    with gone as materialized (
      select ctid as place, workspace_id, tracker_id, day, keyword_id, source, reserved, spent_on,
             exists (select from batch.rank_order o
                     where o.workspace_id = c.workspace_id and o.tracker_id = c.tracker_id and o.day = c.day
                       and o.keyword_id = c.keyword_id and o.state = 'waiting') as is_ordered
      from batch.rank_check c
      where status = 'asked' and asked_by <> ${by}
      order by workspace_id, tracker_id, day, keyword_id
      for update
    ),
    freed as (
      update batch.rank_check c
      set status = case when g.is_ordered then 'ordered' else 'due' end,
          due_at = case when g.is_ordered then c.due_at else ${dueAt}::timestamptz end,
          reason = case when g.is_ordered then null else 'worker_lost' end,
          asked_by = null, reserved = 0, spent_on = null
      from gone g
      where c.ctid = g.place
      returning g.is_ordered
    ),
    counted as (
      select source, spent_on as day, scope, sum(reserved)::int as calls,
             coalesce(sum(reserved) filter (where not is_ordered), 0)::int as lost
      from gone, lateral (values (${installationScope}), ('workspace ' || workspace_id),
                                 ('tracker ' || workspace_id || ' ' || tracker_id)) as s (scope)
      group by source, spent_on, scope
    ),
    booked as (
      update batch.source_spending p
      set reserved = greatest(p.reserved - c.calls, 0), spent = p.spent + c.calls, lost = p.lost + c.lost
      from counted c
      where p.source = c.source and p.day = c.day and p.scope = c.scope
    )
    select count(*)::int as count from freed where not is_ordered`.execute(tx)
  return rows[0]!.count
}

/** A check that will not be made any more. */
export type EndedCheck = {
  readonly workspaceId: string
  readonly trackerId: string
  readonly day: Day
  readonly keywordId: bigint
  readonly keyword: string
  readonly source: string
  readonly engine: string
  readonly device: string
  readonly location: string
  readonly depth: number
  readonly reason: string | null
}

/**
 * Ends checks whose day is over or that were tried often enough, and says which. Each kind is found by an index of its own;
 * then they are locked in one order, and only if they are still such.
 */
export async function closeChecks(
  tx: BatchTx,
  now: Date,
  { most, isOrderedToo }: { most: number; isOrderedToo: boolean },
): Promise<EndedCheck[]> {
  const kinds = [
    sql`status = 'due' and closes_at <= ${now}`,
    sql`status = 'due' and tries >= ${sql.lit(mostTries)}`,
    ...(isOrderedToo ? [sql`status = 'ordered' and closes_at <= ${now}`] : []),
  ]
  const found = kinds.map(
    (kind) =>
      sql`array(select ctid from batch.rank_check where ${kind} order by closes_at limit ${sql.lit(most)})`,
  )
  const { rows } = await sql<Omit<EndedCheck, 'keyword'>>`
    update batch.rank_check c set status = 'failed',
      reason = coalesce(c.reason, case c.status when 'ordered' then 'not_ready' else 'not_checked' end)
    from batch.tracker t
    where c.ctid = any (array(
        select ctid from batch.rank_check
        where ctid = any ((${sql.join(found, sql` || `)})[:${sql.lit(most)}]) and (${sql.join(kinds, sql` or `)})
        order by workspace_id, tracker_id, day, keyword_id
        for update))
      and t.workspace_id = c.workspace_id and t.id = c.tracker_id
    returning c.workspace_id as "workspaceId", c.tracker_id as "trackerId", c.day, c.keyword_id as "keywordId",
      c.source, t.engine, t.device, t.location, t.depth, c.reason`.execute(tx)
  return withKeywords(tx, rows)
}

/**
 * Notes that a run sees the checks that were asked for by hand. Whatever keeps them waiting, they start no other one: until
 * something better is known their reason is that of a check that nobody made.
 */
export async function noteSeenByRun(tx: BatchTx, now: Date): Promise<void> {
  await sql`
    update batch.rank_check set reason = 'not_checked'
    where status = 'due' and by_hand and due_at <= ${now} and reason is null`.execute(tx)
}

/** When something is next to do: a window opens, the last check of a day falls due, or a day ends. */
export async function nextCheckInstant(
  db: BatchDb,
  sources: readonly string[],
  now: Date,
  nextSpendingDay: Date,
): Promise<Date | undefined> {
  const { rows } = await sql<{ at: Date | null }>`
    select min(at) as at from (
      select min(next_plan_at) as at from batch.tracker
      union all
      -- All checks of a day are one stop: the last that falls due. Those that are due and wait for something wait for the
      -- source to be ready, for another day's budget or for the end of their own.
      select case
          when max(c.due_at) > ${now} then max(c.due_at)
          when not (c.source = any (${[...sources]}::text[])) then min(c.closes_at)
          else least(min(c.closes_at), ${nextSpendingDay}, case when min(s.until) > ${now} then min(s.until) end)
        end
      from batch.rank_check c left join batch.source s on s.name = c.source
      where c.status = 'due'
      group by c.source, c.day
      union all
      -- What was ordered is looked for, unless its source rests; and ends with its day.
      select case
          when min(o.lookup_by) > ${now} then min(o.lookup_by)
          else least(min(c.closes_at), case when min(s.until) > ${now} then min(s.until) end)
        end
      from batch.rank_order o
      join batch.rank_check c on c.workspace_id = o.workspace_id and c.tracker_id = o.tracker_id and c.day = o.day
        and c.keyword_id = o.keyword_id
      left join batch.source s on s.name = o.source
      where o.state = 'waiting'
      group by o.source
    ) d`.execute(db)
  return rows[0]?.at ?? undefined
}

const dueChecks = withFirstOfEachSource(sql`batch.rank_check`, sql`due_at`, sql`status = 'due'`)
const waitingOrders = withFirstOfEachSource(sql`batch.rank_order`, sql`lookup_by`, sql`state = 'waiting'`)

/** Whether a check is due: one that was asked for by hand and that no run has seen, or any. */
export async function anyCheckDue(
  db: BatchDb | BatchTx,
  now: Date,
  { byHand }: { byHand: boolean },
): Promise<boolean> {
  const { rows } = await sql<{ any: boolean }>`
    select exists (select from batch.rank_check
                   where status = 'due' and by_hand and due_at <= ${now} and reason is null)
        or (not ${byHand}::boolean
            and (coalesce((select min(next_plan_at) from batch.tracker) <= ${now}, false)
                 or exists (select from batch.rank_check where status = 'asked')
                 or exists (${waitingOrders} select from first where at <= ${now})
                 or exists (${dueChecks} select from first where at <= ${now}))) as any`.execute(db)
  return rows[0]!.any
}
