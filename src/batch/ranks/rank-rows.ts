import { sql } from 'kysely'
import type pg from 'pg'
import { isDuplicate } from '../../platform/database/database-errors.ts'
import type { Day } from '../../platform/time.ts'
import type { BatchDb } from '../app.ts'
import { send } from '../statement.ts'
import type { Rank, RankStatus } from './rank.ts'

export type MergedRanks = {
  inserted: number
  updated: number
  /** Where in the list the keyword was not registered. */
  unknown: number[]
}

/** Whether the given rank takes the place of the stored one; `now` stands for a check without a time of its own. */
export const supersedes = (now: string) => `case
  when (r.status = 'failed') <> (excluded.status = 'failed') then r.status = 'failed'
  when excluded.checked_at < r.checked_at then false
  when excluded.checked_at = r.checked_at or excluded.checked_at = ${now} then
    (r.status, r.position, r.mean_position, r.searched_depth, r.url, r.reason) is distinct from
      (excluded.status, excluded.position, excluded.mean_position, excluded.searched_depth, excluded.url, excluded.reason)
  else true
end`

// Ranks as they were given, in the given order, which all writers share, each with the keyword it is of.
const given = `
  given as materialized (
    select g.key, g.day, g.engine, g.device, g.location, g.status, g.position, g.searched_depth, g.url, g.checked_at,
           g.reason, g.mean_position, g.n, k.id as keyword_id
    from unnest($2::text[], $3::date[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[],
                $9::smallint[], $10::text[], $11::timestamptz[], $13::text[], $14::real[])
      with ordinality
      as g (key, day, engine, device, location, status, position, searched_depth, url, checked_at, reason,
            mean_position, n)
    left join batch.keyword k on k.workspace_id = $1 and k.key = g.key and k.removed_at is null
  )`

const insert = (which: string) => `
  insert into batch.rank as r (workspace_id, keyword_id, day, engine, device, location, status, position,
                               searched_depth, url, checked_at, reason, mean_position)
  select $1, keyword_id, day, engine, device, location, status, position, searched_depth, url, checked_at, reason,
         mean_position
  from given
  where keyword_id is not null ${which}
  order by n`

const merge = `
  on conflict (workspace_id, keyword_id, day, engine, device, location) do update
    set status = excluded.status, position = excluded.position, searched_depth = excluded.searched_depth,
        url = excluded.url, checked_at = excluded.checked_at, reason = excluded.reason,
        mean_position = excluded.mean_position,
        revision = least(r.revision, 32766) + 1
    where ${supersedes('$12')}
  returning revision`

const unknown = 'array(select n::int - 1 from given where keyword_id is null order by n) as unknown'

const mergeText = `
  with ${given},
  merged as (${insert('')} ${merge})
  select (select count(*) filter (where revision = 1) from merged)::int as inserted,
         (select count(*) filter (where revision > 1) from merged)::int as updated,
         ${unknown}`

const addText = `
  with ${given},
  stored as materialized (
    select 1 as found
    from batch.keyword k join batch.rank r on r.workspace_id = k.workspace_id and r.keyword_id = k.id
    where k.workspace_id = $1 and r.workspace_id = $1 and k.key = any ($2::text[]) and r.day = any ($3::date[])
      and r.engine = any ($4::text[]) and r.device = any ($5::text[]) and r.location = any ($6::text[])
    limit 1
  ),
  added as (${insert('and not exists (select 1 from stored)')} returning 1),
  merged as (${insert('and exists (select 1 from stored)')} ${merge})
  select (select count(*) from added)::int
           + (select count(*) filter (where revision = 1) from merged)::int as inserted,
         (select count(*) filter (where revision > 1) from merged)::int as updated,
         ${unknown}`

/**
 * Stores ranks in one statement, each against what is stored already, by the same rule as `supersedes`. They come
 * sorted and without repeats. A rank reported again without a time of its own (it then carries `now`) and with nothing
 * new in it is left alone, so that a repeated request changes nothing.
 */
export async function mergeRanks(
  db: BatchDb | pg.PoolClient,
  workspaceId: string,
  ranks: readonly Rank[],
  now: Date,
): Promise<MergedRanks> {
  const [merged] = await send<MergedRanks>(db, {
    name: 'merge-ranks',
    text: mergeText,
    values: valuesOf(workspaceId, ranks, now),
  })
  return merged!
}

/**
 * The same for ranks that are probably all new, as nearly all are; not for inside a transaction. An insert that stands back
 * at a conflict takes each row in twice, as a claim and as a row. So this one does not, where nothing is stored yet of
 * these keywords on these days in these series. If somebody else is quicker with one, all are merged.
 */
export async function addRanks(
  db: BatchDb,
  workspaceId: string,
  ranks: readonly Rank[],
  now: Date,
): Promise<MergedRanks> {
  try {
    const [added] = await send<MergedRanks>(db, {
      name: 'add-ranks',
      text: addText,
      values: valuesOf(workspaceId, ranks, now),
    })
    return added!
  } catch (error) {
    if (!isDuplicate(error)) throw error
    return mergeRanks(db, workspaceId, ranks, now)
  }
}

function valuesOf(workspaceId: string, ranks: readonly Rank[], now: Date): unknown[] {
  const instantOf = instantTexts()
  return [
    workspaceId,
    ranks.map(({ key }) => key),
    ranks.map(({ day }) => day),
    ranks.map(({ engine }) => engine),
    ranks.map(({ device }) => device),
    ranks.map(({ location }) => location),
    ranks.map(({ status }) => status),
    ranks.map(({ position }) => position),
    ranks.map(({ searchedDepth }) => searchedDepth),
    ranks.map(({ url }) => url),
    ranks.map(({ checkedAt }) => instantOf(checkedAt)),
    now,
    ranks.map(({ reason }) => reason),
    ranks.map(({ meanPosition }) => meanPosition),
  ]
}

/** Instants as text. Many ranks share one, and each is written once. */
export function instantTexts(): (at: Date) => string {
  const written = new Map<Date, string>()
  return (at) => {
    const text = written.get(at) ?? at.toISOString()
    written.set(at, text)
    return text
  }
}

export type StoredRank = {
  day: Day
  engine: string
  device: string
  location: string
  status: RankStatus
  position: number | null
  meanPosition: number | null
  searchedDepth: number
  url: string | null
  reason: string | null
  checkedAt: Date
}

/** Where in a keyword's history a page goes on: behind this day and series. */
export type RankPlace = { day: Day; engine: string; device: string; location: string }

/** A keyword's ranks of all engines, devices and locations between two days, oldest first. */
export async function listRanks(
  db: BatchDb,
  workspaceId: string,
  keywordId: bigint,
  range: { from: Day; to: Day; after: RankPlace | undefined; limit: number },
): Promise<StoredRank[]> {
  const { from, to, after, limit } = range
  const start = after ?? { day: from, engine: '', device: '', location: '' }
  const { rows } = await sql<StoredRank>`
    select day, engine, device, location, status, position, mean_position as "meanPosition",
      searched_depth as "searchedDepth", url, reason, checked_at as "checkedAt"
    from batch.rank
    where workspace_id = ${workspaceId} and keyword_id = ${keywordId} and day between ${start.day} and ${to}
      and (day, engine, device, location) > (${start.day}, ${start.engine}, ${start.device}, ${start.location})
    order by day, engine, device, location
    limit ${limit}`.execute(db)
  return rows
}
