import { sql } from 'kysely'
import type pg from 'pg'
import { isDuplicate } from '../../platform/database/database-errors.ts'
import type { BatchDb, BatchTx } from '../app.ts'
import { send } from '../statement.ts'
import type { Keyword } from './keyword.ts'

/**
 * Adds keywords that are new to the workspace and revives removed ones; gives back the keys of those. Not for inside a
 * transaction: an insert that came second to somebody else's fails, and a transaction would fail with it.
 */
export async function insertKeywords(
  db: BatchDb,
  workspaceId: string,
  keywords: readonly Keyword[],
  now: Date,
): Promise<string[]> {
  // Two overlapping batches queue up instead of waiting for each other in a ring.
  const sorted = [...keywords].sort((a, b) => (a.key < b.key ? -1 : 1))
  const keys = sorted.map(({ key }) => key)
  // Most keywords look like their keys, and a list of them is not sent twice.
  const displays = sorted.some(({ display, key }) => display !== key)
    ? sorted.map(({ display }) => display)
    : []
  const values = [workspaceId, keys, displays, now]
  return (await addKeywords(db, keys, values)) ?? reviveKeywords(db, keys, values)
}

/**
 * Adds those that have no row yet, and gives back their keys. Undefined, and nothing is written, if one is to be revived or
 * somebody else was quicker with one. An insert that stands back at a conflict takes each row in twice, as a claim and
 * as a row, so this one, which nearly every request ends with, does not.
 */
async function addKeywords(
  db: BatchDb,
  keys: string[],
  values: readonly unknown[],
): Promise<string[] | undefined> {
  try {
    const [added] = await send<{ count: number; revives: boolean; known: string[] | null }>(db, {
      name: 'add-keywords',
      text: `
        with present as materialized (
          select k.key, k.removed_at is not null as is_removed from batch.keyword k
          where k.workspace_id = $1 and k.key = any ($2::text[])
        ),
        added as (
          insert into batch.keyword (workspace_id, key, display, created_at)
          select $1, key, coalesce(display, key), $4::timestamptz
          from unnest($2::text[], $3::text[]) with ordinality as given (key, display, n)
          where key not in (select key from present) and not exists (select 1 from present where is_removed)
          order by n
          returning 1
        )
        -- A list that went out does not come back if all of it is new, or none.
        select count, exists (select 1 from present where is_removed) as revives,
          case when count between 1 and cardinality($2::text[]) - 1 then (select json_agg(key) from present) end as known
        from (select count(*)::int as count from added) as counted`,
      values,
    })
    const { count, revives, known } = added!
    if (revives) return undefined
    if (known === null) return count === 0 ? [] : keys
    const skipped = new Set(known)
    return keys.filter((key) => !skipped.has(key))
  } catch (error) {
    if (!isDuplicate(error)) throw error
    return undefined
  }
}

/**
 * Adds and revives, whoever else is at it.
 *
 * One insert does both, and nothing is locked before it: Citus cannot carry a locking select from one part of a statement
 * to the next, and then reads what it wrote itself as broken text (22021).
 */
async function reviveKeywords(db: BatchDb, keys: string[], values: readonly unknown[]): Promise<string[]> {
  const [registered] = await send<{ count: number; keys: string[] | null }>(db, {
    name: 'revive-keywords',
    text: `
      -- Most of what is sent is known already and takes no further part.
      with known as materialized (
        select k.key from batch.keyword k
        where k.workspace_id = $1 and k.key = any ($2::text[]) and k.removed_at is null
      ),
      -- One that was registered or revived meanwhile no longer matches, and is not counted twice.
      registered as (
        insert into batch.keyword as k (workspace_id, key, display, created_at)
        select $1, key, coalesce(display, key), $4::timestamptz
        from unnest($2::text[], $3::text[]) with ordinality as given (key, display, n)
        where key not in (select key from known)
        order by n
        on conflict (workspace_id, key) do update
          set removed_at = null, created_at = excluded.created_at, display = excluded.display
          where k.removed_at is not null
        returning k.key
      )
      select count, case when count < cardinality($2::text[]) then (select json_agg(key) from registered) end as keys
      from (select count(*)::int as count from registered) as counted`,
    values,
  })
  return registered!.count === keys.length ? keys : (registered!.keys ?? [])
}

/** Takes keywords out of the workspace; says how many were in it. Their rows stay, for their history hangs on them. */
export async function markRemoved(
  db: BatchDb,
  workspaceId: string,
  keys: readonly string[],
  now: Date,
): Promise<number> {
  const [counted] = await send<{ removed: number }>(db, {
    name: 'remove-keywords',
    text: `
      with present as materialized (
        select k.key from batch.keyword k
        where k.workspace_id = $1 and k.removed_at is null and k.key = any ($2)
        order by k.key
        for update
      ),
      removed as (
        update batch.keyword k set removed_at = $3
        from present
        where k.workspace_id = $1 and k.key = present.key and k.removed_at is null
        returning 1
      )
      select count(*)::int as removed from removed`,
    values: [workspaceId, keys, now],
  })
  return counted!.removed
}

export type RegisteredKeyword = { id: bigint; display: string; createdAt: Date }

export type KeywordSearch = {
  /** Id of the keyword after which to go on. */
  after: string | null
  /** Part of the key, folded as keys are. */
  part: string | null
  /** At most this many keywords come back. */
  limit: number
  /** At most this many keywords are looked at for the part. */
  reach: number
}

/** Registered keywords in the order of their keys. */
export async function listKeywords(
  db: BatchDb,
  workspaceId: string,
  { after, part, limit, reach }: KeywordSearch,
): Promise<RegisteredKeyword[]> {
  const { rows } = await sql<{ id: bigint; display: string; created_at: Date }>`
      select id, display, created_at
      from (
        select key, id, display, created_at from batch.keyword
        where workspace_id = ${workspaceId} and removed_at is null
          and key > coalesce((select key from batch.keyword where workspace_id = ${workspaceId} and id = ${after}), '')
        order by key
        limit ${reach}
      ) k
      where ${part}::text is null or position(${part} in key) > 0
      order by key
      limit ${limit}`.execute(db)
  return rows.map((row) => ({ id: row.id, display: row.display, createdAt: row.created_at }))
}

/** The last keyword that a search of this reach looks at; undefined if the list ends before. */
export async function findEndOfReach(
  db: BatchDb,
  workspaceId: string,
  after: string | null,
  reach: number,
): Promise<bigint | undefined> {
  const { rows } = await sql<{ id: bigint }>`
    select id from batch.keyword
    where workspace_id = ${workspaceId} and removed_at is null
      and key > coalesce((select key from batch.keyword where workspace_id = ${workspaceId} and id = ${after}), '')
    order by key
    limit 1 offset ${reach - 1}`.execute(db)
  return rows[0]?.id
}

/** The ids of those keys that are registered; an import asks on its own connection. */
export async function findKeywordIds(
  db: BatchDb | pg.PoolClient,
  workspaceId: string,
  keys: readonly string[],
): Promise<Map<string, bigint>> {
  const rows = await send<{ key: string; id: bigint }>(db, {
    name: 'find-keyword-ids',
    text: 'select key, id from batch.keyword where workspace_id = $1 and removed_at is null and key = any ($2)',
    values: [workspaceId, keys],
  })
  return new Map(rows.map(({ key, id }) => [key, id]))
}

/**
 * Adds to each what its keyword looks like, and whether it is registered still. A statement of its own: what is changed on the
 * coordinator of a cluster cannot be joined with keywords, which are spread over machines, in the same one.
 */
export async function withKeywords<Row extends { workspaceId: string; keywordId: bigint }>(
  db: BatchDb | BatchTx,
  rows: readonly Row[],
): Promise<(Row & { keyword: string; isRegistered: boolean })[]> {
  if (rows.length === 0) return []
  const workspaces = [...new Set(rows.map(({ workspaceId }) => workspaceId))]
  const ids = rows.map(({ keywordId }) => String(keywordId))
  const found = await sql<{ id: bigint; keyword: string; isRegistered: boolean }>`
    select id, display as keyword, removed_at is null as "isRegistered" from batch.keyword
    where workspace_id = any (${workspaces}::text[]) and id = any (${ids}::bigint[])`.execute(db)
  const keywords = new Map(
    found.rows.map(({ id, keyword, isRegistered }) => [id, { keyword, isRegistered }] as const),
  )
  return rows.flatMap((row) => {
    const keyword = keywords.get(row.keywordId)
    return keyword === undefined ? [] : [{ ...row, ...keyword }]
  })
}

export type RecentRank = {
  day: string
  engine: string
  device: string
  location: string
  status: string
  position: number | null
}

export type RecentRanks = {
  ranksOf: Map<bigint, RecentRank[]>
  /** The first keyword that is not among them, because its ranks would have been too many; undefined: all are. */
  endsBefore: bigint | undefined
}

/**
 * What was found for these keywords since a day, of every series, oldest first: of as many keywords, in their order, as have
 * no more than `most` ranks together, and of the first one at least, of which the newest `most` are told.
 *
 * A keyword has as many series as somebody cares to name, so no more is read than is told: the list stands sorted and the
 * join keeps its order, in which the limit ends it.
 */
export async function listRecentRanks(
  db: BatchDb,
  workspaceId: string,
  ids: readonly bigint[],
  since: string,
  most: number,
): Promise<RecentRanks> {
  const { rows } = await sql<RecentRank & { keyword_id: bigint }>`
      select k.id as keyword_id, r.day::text, r.engine, r.device, r.location, r.status, r.position
      from (
        select id, n from unnest(${[...ids]}::bigint[]) with ordinality as given (id, n) order by n
      ) k
      cross join lateral (
        select day, engine, device, location, status, position from batch.rank
        where workspace_id = ${workspaceId} and keyword_id = k.id and day >= ${since}
        order by day desc, engine desc, device desc, location desc
        limit ${sql.lit(most)}
      ) r
      order by k.n, r.day, r.engine, r.device, r.location
      limit ${sql.lit(most + 1)}`.execute(db)
  const ranksOf = new Map<bigint, RecentRank[]>()
  for (const { keyword_id, ...rank } of rows) {
    const ranks = ranksOf.get(keyword_id)
    if (ranks) ranks.push(rank)
    else ranksOf.set(keyword_id, [rank])
  }
  return { ranksOf, endsBefore: rows.length > most ? rows.at(-1)!.keyword_id : undefined }
}
