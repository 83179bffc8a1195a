import { sql } from 'kysely'
import type { Day } from '../../../platform/time.ts'
import type { BatchDb, BatchTx } from '../../app.ts'
import { mostTries } from '../tracker.ts'
import { installationScope } from '../tracker-rows.ts'

export type DueKeyword = { readonly key: string; readonly display: string }

/** Where a month's keywords are read on: behind this one, in the order of their hashes. */
export type KeywordPlace = { readonly hash: string; readonly key: string }

/**
 * Registered keywords of all workspaces that a source has not told about this month, each once. Every source and month has
 * an order of its own, drawn by a hash: where a month's budget does not reach all, no keyword is always among the last.
 */
export async function listDueKeywords(
  db: BatchDb,
  source: string,
  month: Day,
  { after, limit }: { after: KeywordPlace | undefined; limit: number },
): Promise<(DueKeyword & KeywordPlace)[]> {
  const seed = sql`hashtextextended(${`${source} ${month}`}, 0)`
  const isBehind = after
    ? sql<boolean>`(hashtextextended(key, ${seed}), key) > (${after.hash}::bigint, ${after.key})`
    : sql<boolean>`true`
  const { rows } = await sql<DueKeyword & KeywordPlace>`
    select k.key, min(k.display) as display, k.hash::text
    from (
      select key, display, hashtextextended(key, ${seed}) as hash from batch.keyword
      where removed_at is null and ${isBehind}
    ) k
    left join (
      select key from batch.volume_check
      where source = ${source} and month = ${month} and ${isBehind}
        and not (status = 'failed' and tries < ${mostTries})
    ) asked on asked.key = k.key
    where asked.key is null
    group by k.hash, k.key
    order by k.hash, k.key
    limit ${limit}`.execute(db)
  return rows
}

export type VolumeCheck = {
  readonly source: string
  readonly month: Day
  readonly keys: readonly string[]
  readonly status: 'asked' | 'done' | 'no_data' | 'failed'
  readonly reason: string | null
  readonly call: string | null
  readonly spentOn: Day
}

/** Notes what becomes of keywords; every call for one is a try. */
export async function noteVolumeChecks(tx: BatchTx, check: VolumeCheck): Promise<void> {
  const { source, month, keys, status, reason, call, spentOn } = check
  await sql`
    insert into batch.volume_check as c (source, month, key, status, reason, call, spent_on)
    select ${source}, ${month}, key, ${status}, ${reason}, ${call}, ${spentOn}
    from unnest(${[...keys].sort()}::text[]) as key
    on conflict (source, month, key) do update
      set status = excluded.status, reason = excluded.reason, call = excluded.call, spent_on = excluded.spent_on,
          tries = c.tries + (excluded.status = 'asked' and c.status = 'failed')::int`.execute(tx)
}

/** As if they had never been asked for: what is asked in this call. */
export async function forgetVolumeChecks(
  tx: BatchTx,
  source: string,
  month: Day,
  call: string,
): Promise<void> {
  await sql`
    delete from batch.volume_check
    where source = ${source} and month = ${month} and call = ${call} and status = 'asked'`.execute(tx)
}

/** Frees what was asked for by somebody who is gone; the calls count as spent and lost. */
export async function freeLostVolumes(tx: BatchTx): Promise<number> {
  const { rows } = await sql<{ calls: number }>`
    with freed as (
      update batch.volume_check set status = 'failed', reason = 'worker_lost'
      where status = 'asked'
      returning source, spent_on, call
    ),
    counted as (
      select source, spent_on as day, count(distinct call)::int as calls from freed group by source, spent_on
    ),
    booked as (
      update batch.source_spending p
      set reserved = greatest(p.reserved - c.calls, 0), spent = p.spent + c.calls, lost = p.lost + c.calls
      from counted c
      where p.source = c.source and p.day = c.day and p.scope = ${installationScope}
    )
    select coalesce(sum(calls), 0)::int as calls from counted`.execute(tx)
  return rows[0]!.calls
}

// A month's checks keep its keywords from being asked for again; the year before tells why something is missing.
const keptMonths = 13

/** Forgets some checks of months long ago, and says how many. */
export async function forgetOldVolumeChecks(tx: BatchTx, today: Day, most: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from batch.volume_check c
    using (
      select source, month, key from batch.volume_check
      where source in (select name from batch.source)
        and month < date_trunc('month', ${today}::date) - make_interval(months => ${keptMonths})
      limit ${most}
    ) old
    where c.source = old.source and c.month = old.month and c.key = old.key`.execute(tx)
  return Number(numAffectedRows)
}
