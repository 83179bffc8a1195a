import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BatchTx } from '../app.ts'
import { withKeywords } from '../keywords/keyword-rows.ts'
import { mostTries, type Tracker } from './tracker.ts'

/** What a tracker asks for every keyword, whatever the day. */
type Question = Pick<Tracker, 'site' | 'match' | 'engine' | 'device' | 'location' | 'language' | 'depth'>

/** A check in somebody's hands, with all that is needed to make it. */
export type ClaimedCheck = Question & {
  readonly workspaceId: string
  readonly trackerId: string
  readonly day: Day
  readonly keywordId: bigint
  readonly keyword: string
  readonly tries: number
  readonly dueAt: Date
  readonly reserved: number
  readonly spentOn: Day
}

export type DueTracker = Question &
  Pick<ClaimedCheck, 'workspaceId' | 'trackerId'> &
  Pick<Tracker, 'budgetPerDay'>

const trackersPerFetch = 1_000

/**
 * Trackers of a source that have checks due, those that wait longest first, some at a time: to be read once in a transaction,
 * as far as somebody likes. What is left of a tracker that has another source by now is not asked here: its settings are
 * not this one's.
 */
export async function* readDueTrackers(
  tx: BatchTx,
  source: string,
  now: Date,
): AsyncGenerator<DueTracker[], void> {
  await sql`
    declare due_trackers no scroll cursor for
    select t.workspace_id as "workspaceId", t.id as "trackerId", t.site, t.match, t.engine, t.device, t.location,
           t.language, t.depth, t.budget_per_day as "budgetPerDay"
    from (
      select workspace_id, tracker_id, min(due_at) as since from batch.rank_check
      where source = ${source} and status = 'due' and due_at <= ${now} and closes_at > ${now} and tries < ${mostTries}
      group by workspace_id, tracker_id
    ) c
    join batch.tracker t on t.workspace_id = c.workspace_id and t.id = c.tracker_id and t.source = ${source}
    order by c.since, t.workspace_id, t.id`.execute(tx)
  for (;;) {
    const { rows } = await sql<DueTracker>`fetch ${sql.lit(trackersPerFetch)} from due_trackers`.execute(tx)
    if (rows.length > 0) yield rows
    if (rows.length < trackersPerFetch) return
  }
}

type Claim = {
  readonly source: string
  readonly by: string
  readonly now: Date
  readonly spentOn: Day
  readonly callsEach: number
  readonly most: number
}

/**
 * Takes due checks of a tracker and sets aside what they may cost. Those whose keyword was removed since they were planned are
 * dropped, for what they find would have no place to go, and others are taken instead.
 */
export async function claimChecks(tx: BatchTx, tracker: DueTracker, claim: Claim): Promise<ClaimedCheck[]> {
  const claimed: ClaimedCheck[] = []
  for (;;) {
    const taken = await takeChecks(tx, tracker, { ...claim, most: claim.most - claimed.length })
    const removed = taken.filter(({ isRegistered }) => !isRegistered)
    claimed.push(...taken.filter(({ isRegistered }) => isRegistered))
    if (removed.length === 0) return claimed
    await dropChecks(tx, tracker, removed)
  }
}

/**
 * Rows are found again by where they lie: joined by their key they were looked for all over the table, once for each,
 * whenever its statistics were older than the day's plan.
 */
async function takeChecks(tx: BatchTx, { budgetPerDay: _, ...tracker }: DueTracker, claim: Claim) {
  const { rows } = await sql<Pick<ClaimedCheck, 'day' | 'keywordId' | 'tries' | 'dueAt'>>`
    update batch.rank_check
    set status = 'asked', tries = tries + 1, asked_by = ${claim.by}, reserved = ${claim.callsEach},
        spent_on = ${claim.spentOn}
    where ctid = any (array(
      select ctid from batch.rank_check
      where workspace_id = ${tracker.workspaceId} and tracker_id = ${tracker.trackerId} and source = ${claim.source}
        and status = 'due' and due_at <= ${claim.now} and closes_at > ${claim.now} and tries < ${mostTries}
      order by due_at, keyword_id
      limit ${claim.most}
      for update))
    returning day, keyword_id as "keywordId", tries, due_at as "dueAt"`.execute(tx)
  const { callsEach: reserved, spentOn } = claim
  return withKeywords(
    tx,
    rows.map((row) => ({ ...tracker, ...row, reserved, spentOn })),
  )
}

/** Takes checks of a tracker out of the plan. */
async function dropChecks(
  tx: BatchTx,
  { workspaceId, trackerId }: DueTracker,
  dropped: readonly Pick<ClaimedCheck, 'day' | 'keywordId'>[],
): Promise<void> {
  const days = dropped.map(({ day }) => day)
  const keywordIds = dropped.map(({ keywordId }) => String(keywordId))
  await sql`
    delete from batch.rank_check
    where workspace_id = ${workspaceId} and tracker_id = ${trackerId}
      and (day, keyword_id) in (select * from unnest(${days}::date[], ${keywordIds}::bigint[]))`.execute(tx)
}

/**
 * Says why the checks of a source that are due do not go out, all of them or those of some trackers, so that it is known when
 * their day ends.
 */
export async function noteWhyWaiting(
  tx: BatchTx,
  where: { source: string; trackers?: readonly DueTracker[] },
  reason: string,
  now: Date,
): Promise<void> {
  const { source, trackers } = where
  const ofThese = trackers
    ? sql`and (workspace_id, tracker_id) in (
        select * from unnest(${trackers.map(({ workspaceId }) => workspaceId)}::text[],
                             ${trackers.map(({ trackerId }) => trackerId)}::text[]))`
    : sql``
  await sql`
    update batch.rank_check set reason = ${reason}
    where source = ${source} and status = 'due' and due_at <= ${now} and closes_at > ${now}
      and reason is distinct from ${reason} ${ofThese}`.execute(tx)
}
