import { type RawBuilder, sql } from 'kysely'
import type { BatchTx } from '../app.ts'
import { sortDays } from './packed-ranks.ts'

/** Which series are read. */
export type Wanted = {
  /** Up to this day. */
  until?: string | undefined
  /** The share of the keywords in the sample; 1: every keyword is. */
  keywordsKept: number
  /** All keywords, or those of the sample and, besides, those of this workspace. */
  of: 'all' | 'sample' | { workspace: string }
}

/** A series whose ranks are packed into one value. */
export type SeriesRow = {
  workspace_id: string
  keyword_id: bigint
  key: string
  engine: string
  device: string
  location: string
  is_registered: boolean
  is_in_sample: boolean
  packed: Buffer
}

/** Each rank is twelve bytes: day, place (negative: not found), depth and the first bytes of the page's hash. */
const packed = sql`
  string_agg(
    int4send(day - date '1970-01-01')
      || int2send(coalesce(position, -least(searched_depth + 1, 32767))::int2) || int2send(searched_depth)
      || case when url is null then '\\x00000000' else substring(decode(md5(url), 'hex') for 4) end,
    ''::bytea) as packed`

/**
 * Opens the cursor `history` over series, in the order of workspace, keyword, engine, device and location. PostgreSQL packs
 * each into one value, so that a million rows do not become a million objects, and leaves the days to be put in order here:
 * it would sort all rows by six columns, we sort some hundred numbers that mostly stand right already. With `scroll` it keeps
 * the packed series, so that whoever goes through them again does not wait for them again.
 */
export async function declareHistory(
  tx: BatchTx,
  wanted: Wanted,
  scroll: 'scroll' | 'no scroll',
): Promise<void> {
  const inSample = isInSample(wanted.keywordsKept)
  const usable = sql`status <> 'failed' and day <= ${wanted.until ?? 'infinity'}::date`
  const series =
    wanted.of === 'all'
      ? sql`
        (select workspace_id, keyword_id, engine, device, location, ${packed}
         from batch.rank where ${usable} group by workspace_id, keyword_id, engine, device, location) s
        join batch.keyword k on k.workspace_id = s.workspace_id and k.id = s.keyword_id`
      : // Keyword by keyword through the key of their ranks: what is not in the sample is not read, however much it is.
        sql`
        batch.keyword k cross join lateral
        (select engine, device, location, ${packed}
         from batch.rank where workspace_id = k.workspace_id and keyword_id = k.id and ${usable}
         group by engine, device, location) s
        where ${inSample} ${wanted.of === 'sample' ? sql`` : sql`or k.workspace_id = ${wanted.of.workspace}`}`
  await sql`
    declare history ${sql.raw(scroll)} cursor for
    select k.workspace_id, k.id as keyword_id, s.engine, s.device, s.location, s.packed,
           k.key, k.removed_at is null as is_registered, ${inSample} as is_in_sample
    from ${series}
    order by k.workspace_id, k.id, s.engine, s.device, s.location`.execute(tx)
}

/**
 * Whether a keyword is in the sample of such a share. Its id alone decides, with all of its series, so every process, every
 * node and every later look finds the same keywords, and a smaller sample is a part of each larger one.
 */
function isInSample(share: number): RawBuilder<boolean> {
  return sql`hashint8(k.id) < ${Math.floor(share * 2 ** 32) - 2 ** 31}::bigint`
}

/** The next series, each in day order; an empty list at the end. */
export async function fetchSeries(tx: BatchTx, count: number): Promise<SeriesRow[]> {
  const { rows } = await sql<SeriesRow>`fetch ${sql.raw(String(count))} from history`.execute(tx)
  for (const row of rows) row.packed = sortDays(row.packed)
  return rows
}
