import { sql } from 'kysely'
import type pg from 'pg'
import type { Day } from '../../platform/time.ts'
import type { BatchDb } from '../app.ts'

/** How far a keyword's place moved since it was last seen to. */
export type Movement = {
  readonly keywordId: bigint
  readonly keyword: string
  readonly engine: string
  readonly device: string
  readonly location: string
  /** Null: not among the results, as deep as they were read. */
  readonly from: number | null
  readonly to: number | null
  readonly change: 'rose' | 'fell' | 'entered' | 'left'
  /** Days since the check it is compared with. */
  readonly days: number
}

export type MovementPlace = { keywordId: string; engine: string; device: string; location: string }

const farthestBackDays = 31

/** The series that count: named, or, where they are many, those of which no larger share was broken. */
export type Sound = { readonly series: readonly Series[] } | { readonly mostBroken: number }

/**
 * What moved on a day in these series, compared with the last good check before. Failed checks tell nothing, and a place
 * below what the other check read is not compared. It reads as many keywords as the page needs, in their order: planned
 * with its values, hence on the pool, for `db` prepares it, and not knowing the limit the planner would sort the whole day.
 */
export async function listMovements(
  pool: pg.Pool,
  workspaceId: string,
  day: Day,
  sound: Sound,
  { after, limit }: { after: MovementPlace | undefined; limit: number },
): Promise<Movement[]> {
  const isSound =
    'series' in sound
      ? `exists (select from unnest($9::text[], $10::text[], $11::text[]) as s (engine, device, location)
                    where s.engine = r.engine and s.device = r.device and s.location = r.location)`
      : `(r.engine, r.device, r.location) in (
          select engine, device, location from batch.rank where workspace_id = $1 and day = $2
          group by engine, device, location having ${broken} <= $9::float8 * count(*))`
  const { rows } = await pool.query<Movement>({
    text: `
      select r.keyword_id as "keywordId", k.display as keyword, r.engine, r.device, r.location,
             p.position as "from", r.position as "to", ($2::date - p.day)::int as days,
             case when p.position is null then 'entered' when r.position is null then 'left'
                  when r.position < p.position then 'rose' else 'fell' end as change
      from batch.rank r
      join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id and k.removed_at is null
      cross join lateral (
        select b.day, b.position, b.searched_depth from batch.rank b
        where b.workspace_id = r.workspace_id and b.keyword_id = r.keyword_id and b.engine = r.engine
          and b.device = r.device and b.location = r.location and b.status <> 'failed'
          and b.day < $2 and b.day >= $2::date - $3::int
        order by b.day desc
        limit 1
      ) p
      where r.workspace_id = $1 and r.day = $2 and r.status <> 'failed'
        and r.position is distinct from p.position
        and coalesce(r.position, 0) <= p.searched_depth and coalesce(p.position, 0) <= r.searched_depth
        and (r.keyword_id, r.engine, r.device, r.location) > ($4, $5, $6, $7)
        and ${isSound}
      order by r.keyword_id, r.engine, r.device, r.location
      limit $8`,
    values: [
      workspaceId,
      day,
      farthestBackDays,
      after?.keywordId ?? '0',
      after?.engine ?? '',
      after?.device ?? '',
      after?.location ?? '',
      limit,
      ...('series' in sound
        ? [
            sound.series.map(({ engine }) => engine),
            sound.series.map(({ device }) => device),
            sound.series.map(({ location }) => location),
          ]
        : [sound.mostBroken]),
    ],
  })
  return rows
}

/** Where something went wrong, and not only nobody searched. */
const broken = `count(*) filter (where status = 'failed' and reason is distinct from 'not_shown')`

type Series = { readonly engine: string; readonly device: string; readonly location: string }

/** How many of a series' keywords stood how high on a day. */
export type RankShares = Series & {
  /** With a good check. */
  readonly keywords: number
  readonly failed: number
  /** Of the failed ones, those where something went wrong, and not only nobody searched. */
  readonly broken: number
  readonly top3: number
  readonly top10: number
  readonly top100: number
}

/** Counts a workspace's day but for keywords that were removed, by series, and tells of the first: as dear as the day is large. */
export async function countShares(
  db: BatchDb,
  workspaceId: string,
  day: Day,
  limit: number,
): Promise<RankShares[]> {
  const { rows } = await sql<RankShares>`
      select engine, device, location, count(*) filter (where status <> 'failed')::int as keywords,
             count(*) filter (where status = 'failed')::int as failed,
             ${sql.raw(broken)}::int as broken,
             count(*) filter (where position <= 3)::int as top3, count(*) filter (where position <= 10)::int as top10,
             count(*) filter (where position <= 100)::int as top100
      from batch.rank r
      join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id and k.removed_at is null
      where r.workspace_id = ${workspaceId} and r.day = ${day}
      group by engine, device, location order by engine, device, location limit ${limit}`.execute(db)
  return rows
}
