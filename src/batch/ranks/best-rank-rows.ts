import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BatchDb } from '../app.ts'

/** The best place that a series ever had, and the first day on which it stood there. */
export type BestRank = {
  readonly engine: string
  readonly device: string
  readonly location: string
  readonly position: number
  /** Where places are means over many searches: the best of them. */
  readonly meanPosition: number | null
  readonly day: Day
}

// A mean of 1.6 is better than one of 2.4, though both are rounded to 2.
const place = 'coalesce(mean_position, position)'

// The least of lists that begin with the place, then the day: years of ranks are gone through once, and not sorted.
const standing = sql.raw(
  `array[${place}, day - date '2000-01-01', position, num_nonnulls(mean_position)]::real[]`,
)

/** A keyword has as many series as somebody cares to name. */
const mostSeries = 1_000

/**
 * The best place of each of a keyword's series, in what is stored or in the months that were dropped; of very many, those of
 * the series that were ranked last.
 */
export async function listBestRanks(
  db: BatchDb,
  workspaceId: string,
  keywordId: bigint,
): Promise<BestRank[]> {
  const { rows } = await sql<BestRank>`
    select engine, device, location, best[3]::int as position,
           case when best[4] = 1 then best[1] end as "meanPosition", date '2000-01-01' + best[2]::int as day
    from (
      select engine, device, location, min(best) as best
      from (
        select engine, device, location, min(${standing}) as best, max(day) as last_day
        from batch.rank
        where workspace_id = ${workspaceId} and keyword_id = ${keywordId} and status = 'ranked'
        group by engine, device, location
        union all
        select engine, device, location, ${standing}, day
        from batch.dropped_best_rank
        where workspace_id = ${workspaceId} and keyword_id = ${keywordId}
      ) known
      group by engine, device, location
      order by max(last_day) desc, engine, device, location
      limit ${sql.lit(mostSeries)}
    ) b
    order by engine, device, location`.execute(db)
  return rows
}

/** Keeps the best places of a month that is about to go. Doing it twice changes nothing. */
export async function keepBestRanks(db: BatchDb, table: string): Promise<void> {
  await sql`
     insert into batch.dropped_best_rank as b
       (workspace_id, keyword_id, engine, device, location, position, mean_position, day)
     select distinct on (workspace_id, keyword_id, engine, device, location)
            workspace_id, keyword_id, engine, device, location, position, mean_position, day
     from batch.${sql.id(table)}
     where status = 'ranked'
     order by workspace_id, keyword_id, engine, device, location, ${sql.raw(place)}, day
     on conflict (workspace_id, keyword_id, engine, device, location) do update
       set position = excluded.position, mean_position = excluded.mean_position, day = excluded.day
       where (coalesce(excluded.mean_position, excluded.position), excluded.day)
           < (coalesce(b.mean_position, b.position), b.day)`.execute(db)
}
