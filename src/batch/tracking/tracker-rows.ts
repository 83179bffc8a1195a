import { type Selectable, sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BatchDb, BatchTx } from '../app.ts'
import type { SourceSettings } from '../sources/port.ts'
import type { BatchTables } from '../tables.ts'
import type { Tracker } from './tracker.ts'

/** Stores a tracker under its id. False: another one writes the same series. */
export async function upsertTracker(tx: BatchTx, tracker: Tracker, now: Date): Promise<boolean> {
  const settings = {
    site: tracker.site,
    match: tracker.match,
    engine: tracker.engine,
    device: tracker.device,
    location: tracker.location,
    language: tracker.language,
    depth: tracker.depth,
    source: tracker.source,
    every: tracker.every,
    window_from: tracker.window.from,
    window_to: tracker.window.to,
    zone: tracker.window.zone,
    keyword_keys: tracker.keywords?.map(({ key }) => key) ?? null,
    keyword_texts: tracker.keywords?.map(({ display }) => display) ?? null,
    budget_per_day: tracker.budgetPerDay,
    anchor_day: tracker.anchorDay,
    next_day: tracker.nextDay,
    next_plan_at: tracker.nextPlanAt,
  }
  const taken = await tx
    .selectFrom('batch.tracker')
    .select('id')
    .where('workspace_id', '=', tracker.workspaceId)
    .where('engine', '=', tracker.engine)
    .where('device', '=', tracker.device)
    .where('location', '=', tracker.location)
    .where('id', '<>', tracker.id)
    .executeTakeFirst()
  if (taken) return false
  await tx
    .insertInto('batch.tracker')
    .values({ workspace_id: tracker.workspaceId, id: tracker.id, created_at: now, ...settings })
    .onConflict((conflict) => conflict.columns(['workspace_id', 'id']).doUpdateSet(settings))
    .execute()
  return true
}

/** Whether anything is tracked at all. */
export async function anyTracker(db: BatchDb | BatchTx): Promise<boolean> {
  const first = db.selectFrom('batch.tracker').select('id').orderBy('workspace_id').orderBy('id').limit(1)
  return (await first.executeTakeFirst()) !== undefined
}

/** Puts those who write trackers of a workspace one behind the other. */
export async function lockTrackers(tx: BatchTx, workspaceId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtext(${`batch.tracker ${workspaceId}`}))`.execute(tx)
}

export async function findTracker(
  db: BatchDb | BatchTx,
  workspaceId: string,
  id: string,
): Promise<Tracker | undefined> {
  const row = await db
    .selectFrom('batch.tracker')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row && toTracker(row)
}

export async function listTrackers(
  db: BatchDb,
  workspaceId: string,
  { after, limit }: { after: string | undefined; limit: number },
): Promise<Tracker[]> {
  const rows = await db
    .selectFrom('batch.tracker')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .where('id', '>', after ?? '')
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(toTracker)
}

/** Its checks go with it; what they found stays. False: there is none. */
export async function deleteTracker(db: BatchDb, workspaceId: string, id: string): Promise<boolean> {
  const row = await db
    .deleteFrom('batch.tracker')
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Takes a tracker whose next window has opened; others take the others. */
export async function lockDueTracker(tx: BatchTx, now: Date): Promise<Tracker | undefined> {
  const row = await tx
    .selectFrom('batch.tracker')
    .selectAll()
    .where('next_plan_at', '<=', now)
    .orderBy('next_plan_at')
    .limit(1)
    .forUpdate()
    .skipLocked()
    .executeTakeFirst()
  return row && toTracker(row)
}

export async function moveTracker(
  tx: BatchTx,
  { workspaceId, id }: Tracker,
  nextDay: Day,
  nextPlanAt: Date,
): Promise<void> {
  await tx
    .updateTable('batch.tracker')
    .set({ next_day: nextDay, next_plan_at: nextPlanAt })
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .execute()
}

/** Forgets a tracker's checks of long ago that have ended, with their orders. What they found is in the rank history. */
export async function forgetChecks(tx: BatchTx, { workspaceId, id }: Tracker, before: Day): Promise<void> {
  await sql`
    delete from batch.rank_check
    where workspace_id = ${workspaceId} and tracker_id = ${id} and day < ${before}
      and status in ('done', 'failed')`.execute(tx)
}

export type TrackerFigures = {
  nextDueAt: Date | null
  lastCheckAt: Date | null
  checkedToday: number
  failedToday: number
  spentToday: number
}

/** How a tracker fares: its own day by its zone, what it spent by the service's. */
export async function readFigures(
  db: BatchDb | BatchTx,
  { workspaceId, id, source }: Tracker,
  today: Day,
  spendingDay: Day,
): Promise<TrackerFigures> {
  const { rows } = await sql<TrackerFigures>`
    select least(
             (select min(due_at) from batch.rank_check
              where workspace_id = t.workspace_id and tracker_id = t.id and status = 'due'),
             (select min(due_at) from batch.rank_check
              where workspace_id = t.workspace_id and tracker_id = t.id and status = 'asked')) as "nextDueAt",
           t.last_check_at as "lastCheckAt",
           c.done as "checkedToday", c.failed as "failedToday",
           coalesce((select spent from batch.source_spending
                     where source = ${source} and day = ${spendingDay} and scope = ${trackerScope(workspaceId, id)}), 0)
             as "spentToday"
    from batch.tracker t,
      lateral (
        select count(*) filter (where status in ('done', 'failed'))::int as done,
               count(*) filter (where status = 'failed')::int as failed
        from batch.rank_check c
        where c.workspace_id = t.workspace_id and c.tracker_id = t.id and c.day = ${today}
      ) c
    where t.workspace_id = ${workspaceId} and t.id = ${id}`.execute(db)
  return rows[0] ?? { nextDueAt: null, lastCheckAt: null, checkedToday: 0, failedToday: 0, spentToday: 0 }
}

export const installationScope = ''
export const workspaceScope = (workspaceId: string) => `workspace ${workspaceId}`
export const trackerScope = (workspaceId: string, id: string) => `tracker ${workspaceId} ${id}`

function toTracker(row: Selectable<BatchTables['batch.tracker']>): Tracker {
  return {
    workspaceId: row.workspace_id,
    id: row.id,
    site: row.site,
    match: row.match,
    engine: row.engine,
    device: row.device,
    location: row.location,
    language: row.language,
    depth: row.depth,
    source: row.source,
    every: row.every,
    window: { from: row.window_from, to: row.window_to, zone: row.zone },
    keywords: row.keyword_keys?.map((key, at) => ({ key, display: row.keyword_texts![at]! })) ?? null,
    budgetPerDay: row.budget_per_day,
    anchorDay: row.anchor_day,
    nextDay: row.next_day,
    nextPlanAt: row.next_plan_at,
  }
}

/** How many calls of a source a tracker may still cause: as many as every budget that it counts for leaves. */
export function callsLeft(
  { budgetPerDay, workspaceBudgetPerDay }: SourceSettings,
  tracker: {
    readonly workspaceId: string
    readonly trackerId: string
    readonly budgetPerDay: number | null
  },
  usedOf: (scope: string) => number,
): number {
  const { workspaceId, trackerId } = tracker
  return Math.min(
    budgetPerDay - usedOf(installationScope),
    workspaceBudgetPerDay > 0
      ? workspaceBudgetPerDay - usedOf(workspaceScope(workspaceId))
      : Number.MAX_SAFE_INTEGER,
    tracker.budgetPerDay === null
      ? Number.MAX_SAFE_INTEGER
      : tracker.budgetPerDay - usedOf(trackerScope(workspaceId, trackerId)),
  )
}
