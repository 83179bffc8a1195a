import { sql } from 'kysely'
import type pg from 'pg'
import { shareStatements } from '../../platform/database/share-statements.ts'
import type { BatchDb, BatchTx } from '../app.ts'
import type { Month } from '../month.ts'
import { send } from '../statement.ts'
import { type MonthlyVolume, monthsTouchedBy, type VolumeObservation } from './monthly-volume.ts'
import type { KeptVolume } from './volume-observation.ts'

/** Stores observations, sorted and without repeats, and marks the months that those which changed something touch. */
export async function mergeVolumes(
  db: BatchDb | pg.PoolClient,
  volumes: readonly KeptVolume[],
): Promise<{ inserted: number; updated: number }> {
  const touched = volumes.flatMap((volume, at) => monthsTouchedBy(volume).map((month) => ({ at, month })))
  const [merged] = await send<{ inserted: number; updated: number }>(db, {
    name: 'merge-volumes',
    text: `
      with given as materialized (
        select * from unnest($1::text[], $2::text[], $3::date[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[],
                             $8::bigint[])
          with ordinality as g (key, source, day, kind, volume, volume_max, pc, mobile, n)
      ),
      merged as (
        insert into batch.volume_observation as o (key, source, day, kind, volume, volume_max, pc, mobile)
        select key, source, day, kind, volume, volume_max, pc, mobile from given order by n
        on conflict (key, source, day, kind) do update
          set volume = excluded.volume, volume_max = excluded.volume_max, pc = excluded.pc, mobile = excluded.mobile,
              revision = o.revision + 1
          where (o.volume, o.volume_max, o.pc, o.mobile)
            is distinct from (excluded.volume, excluded.volume_max, excluded.pc, excluded.mobile)
        returning key, source, day, kind, revision
      ),
      -- An observation that is not new leaves its months as they are.
      marked as (
        insert into batch.dirty_month (key, source, month)
        select distinct key, source, touched.month
        from merged
        join given using (key, source, day, kind)
        join unnest($9::int[], $10::date[]) as touched (at, month) on touched.at = given.n - 1
        order by key, source, touched.month
        on conflict (key, source, month) do update set mark = excluded.mark
      )
      select count(*) filter (where revision = 1)::int as inserted, count(*) filter (where revision > 1)::int as updated
      from merged`,
    values: [
      volumes.map(({ key }) => key),
      volumes.map(({ source }) => source),
      volumes.map(({ day }) => day),
      volumes.map(({ kind }) => kind),
      volumes.map(({ volume }) => volume),
      volumes.map(({ volumeMax }) => volumeMax),
      volumes.map(({ pc }) => pc),
      volumes.map(({ mobile }) => mobile),
      touched.map(({ at }) => at),
      touched.map(({ month }) => `${month}-01`),
    ],
  })
  return merged!
}

/** A month that observations have changed, and the mark of the last change known. */
export type DirtyMonth = { key: string; source: string; month: Month; mark: bigint }

export async function countDirtyMonths(db: BatchDb): Promise<number> {
  const { count } = await db
    .selectFrom('batch.dirty_month')
    .select((e) => e.fn.countAll<bigint>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Dirty months in the order of their keys, behind the one given. */
export async function listDirtyMonths(
  db: BatchDb,
  after: DirtyMonth | undefined,
  limit: number,
): Promise<DirtyMonth[]> {
  const { rows } = await sql<DirtyMonth>`
    select key, source, to_char(month, 'YYYY-MM') as month, mark
    from batch.dirty_month
    where (key, source, month) > (${after?.key ?? ''}, ${after?.source ?? ''}, ${firstOf(after?.month ?? '0001-01')}::date)
    order by key, source, month
    limit ${limit}`.execute(db)
  return rows
}

/** The observations that bear on each of these months, in the order of the months. */
export async function listObservationsOf(
  db: BatchDb,
  months: readonly DirtyMonth[],
): Promise<VolumeObservation[][]> {
  type Row = {
    at: number
    kind: VolumeObservation['kind']
    day: string
    volume: bigint | null
    volume_max: bigint | null
    pc: bigint | null
    mobile: bigint | null
  }
  // A window that ends up to 29 days after the month still covers days of it.
  const { rows } = await sql<Row>`
    select m.at::int - 1 as at, o.kind, o.day, o.volume, o.volume_max, o.pc, o.mobile
    from unnest(${months.map(({ key }) => key)}::text[], ${months.map(({ source }) => source)}::text[],
                ${months.map(({ month }) => firstOf(month))}::date[]) with ordinality as m (key, source, month, at)
    join batch.volume_observation o on o.key = m.key and o.source = m.source
      and o.day >= m.month and o.day < (m.month + interval '1 month')::date + 29`.execute(db)
  const found: VolumeObservation[][] = months.map(() => [])
  for (const { at, kind, day, volume, volume_max, pc, mobile } of rows) {
    found[at]!.push({
      kind,
      day,
      volume: toNumber(volume),
      volumeMax: toNumber(volume_max),
      pc: toNumber(pc),
      mobile: toNumber(mobile),
    })
  }
  return found
}

/**
 * Takes the marks away that are still the ones given, and says which; the others have changed or gone since.
 *
 * Citus locks rows of several shards only by changing them, so nothing is locked before it is deleted: the mark itself
 * tells whether anything came between. The rows must go in the order of the list all the same, which is everybody's, or
 * two of us could wait for each other in a ring; only a nested loop keeps that order.
 */
export async function clearDirtyMonths(tx: BatchTx, months: readonly DirtyMonth[]): Promise<DirtyMonth[]> {
  await sql`select set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`.execute(
    tx,
  )
  const { rows } = await sql<{ at: number }>`
    delete from batch.dirty_month d
    using unnest(${months.map(({ key }) => key)}::text[], ${months.map(({ source }) => source)}::text[],
                 ${months.map(({ month }) => firstOf(month))}::date[], ${months.map(({ mark }) => mark)}::bigint[])
      with ordinality as m (key, source, month, mark, at)
    where d.key = m.key and d.source = m.source and d.month = m.month and d.mark = m.mark
    returning m.at::int - 1 as at`.execute(tx)
  return rows.sort((a, b) => a.at - b.at).map(({ at }) => months[at]!)
}

export type WorkedOutMonth = MonthlyVolume & {
  key: string
  source: string
  /** As it was known on the day the month ended. */
  atMonthEnd: number | null
}

/** Stores months as they were worked out. One that comes out as before keeps the time of its last change. */
export async function storeMonthlyVolumes(
  tx: BatchTx,
  months: readonly WorkedOutMonth[],
  now: Date,
): Promise<void> {
  if (months.length === 0) return
  await sql`
    insert into batch.monthly_volume as v
      (key, source, month, volume, volume_min, volume_max, quality, days_observed, at_month_end, updated_at)
    select key, source, month, volume, volume_min, volume_max, quality, days_observed, at_month_end, ${now}
    from unnest(
      ${months.map(({ key }) => key)}::text[], ${months.map(({ source }) => source)}::text[],
      ${months.map(({ month }) => firstOf(month))}::date[], ${months.map(({ volume }) => volume)}::bigint[],
      ${months.map(({ volumeMin }) => volumeMin)}::bigint[], ${months.map(({ volumeMax }) => volumeMax)}::bigint[],
      ${months.map(({ quality }) => quality)}::text[], ${months.map(({ daysObserved }) => daysObserved)}::int[],
      ${months.map(({ atMonthEnd }) => atMonthEnd)}::float8[]
    ) as m (key, source, month, volume, volume_min, volume_max, quality, days_observed, at_month_end)
    on conflict (key, source, month) do update
      set volume = excluded.volume, volume_min = excluded.volume_min, volume_max = excluded.volume_max,
          quality = excluded.quality, days_observed = excluded.days_observed, at_month_end = excluded.at_month_end,
          updated_at = excluded.updated_at
      where (v.volume, v.volume_min, v.volume_max, v.quality, v.days_observed, v.at_month_end) is distinct from
        (excluded.volume, excluded.volume_min, excluded.volume_max, excluded.quality, excluded.days_observed,
         excluded.at_month_end)
  `.execute(tx)
}

export type StoredMonth = MonthlyVolume & { source: string }

export type StoredMonths = { readonly months: StoredMonth[]; readonly updatedAt: Date }

// A hundred years of one source, ten of ten.
const mostMonths = 1200

/**
 * The newest months of a keyword, oldest first; undefined if there are none. They come as one value: reading a
 * dozen rows column by column was the largest part of what a lookup cost this process. Lookups of whole keywords that
 * come at once share a statement, each no older than its request.
 */
export async function findMonthlyVolumes(
  db: BatchDb,
  key: string,
  { from, to, source }: { from?: Month; to?: Month; source?: string },
): Promise<StoredMonths | undefined> {
  if (from === undefined && to === undefined && source === undefined) return lookupsOf(db)(key)
  const [row] = await send<{ months: StoredMonth[] | null; updated_at: Date }>(db, {
    name: 'find-monthly-volumes',
    text: `
      select max(updated_at) as updated_at, ${monthsAsOne} as months
      from (
        select month, volume, volume_min, volume_max, source, quality, days_observed, updated_at
        from batch.monthly_volume
        where key = $1
          and month between coalesce($2::date, '-infinity') and coalesce($3::date, 'infinity')
          and ($4::text is null or source = $4)
        order by month desc, source desc
        limit ${mostMonths}
      ) as newest`,
    values: [key, from ? firstOf(from) : null, to ? firstOf(to) : null, source ?? null],
  })
  return row?.months ? { months: row.months, updatedAt: row.updated_at } : undefined
}

const monthsAsOne = `json_agg(json_build_object(
  'month', to_char(month, 'YYYY-MM'), 'volume', volume, 'volumeMin', volume_min, 'volumeMax', volume_max,
  'source', source, 'quality', quality, 'daysObserved', days_observed) order by month, source)`

type Lookup = (key: string) => Promise<StoredMonths | undefined>
const lookups = new WeakMap<BatchDb, Lookup>()

function lookupsOf(db: BatchDb): Lookup {
  const known = lookups.get(db)
  if (known) return known
  const made = shareStatements({ together: 50, atOnce: 2 }, (keys: readonly string[]) =>
    listMonthlyVolumes(db, keys),
  )
  lookups.set(db, made)
  return made
}

async function listMonthlyVolumes(
  db: BatchDb,
  keys: readonly string[],
): Promise<(StoredMonths | undefined)[]> {
  const rows = await send<{ key: string; months: StoredMonth[]; updated_at: Date }>(db, {
    name: 'list-monthly-volumes',
    text: `
      select key, max(updated_at) as updated_at, ${monthsAsOne} as months
      from (
        select key, month, volume, volume_min, volume_max, source, quality, days_observed, updated_at,
          row_number() over (partition by key order by month desc, source desc) as place
        from batch.monthly_volume
        where key = any ($1)
      ) as newest
      where place <= ${mostMonths}
      group by key`,
    values: [[...new Set(keys)]],
  })
  const found = new Map(rows.map(({ key, months, updated_at: updatedAt }) => [key, { months, updatedAt }]))
  return keys.map((key) => found.get(key))
}

function firstOf(month: Month): string {
  return `${month}-01`
}

function toNumber(value: bigint | null): number | null {
  return value === null ? null : Number(value)
}
