import { addDays, type Day } from '../../platform/time.ts'
import type { BatchDb } from '../app.ts'
import { send } from '../statement.ts'
import { monthsTouchedBy } from '../volumes/monthly-volume.ts'
import type { ArchivedVolume } from './volume-archive.ts'

/**
 * Stores observations of an archive, in the order in which it holds them, and marks the months that those which changed
 * something touch. What is stored of a day that was dropped was told after that, so it stays; elsewhere the later
 * correction does. A month that was worked out before its observations were dropped is not marked again.
 */
export async function mergeArchivedVolumes(
  db: BatchDb,
  volumes: readonly ArchivedVolume[],
  keptFrom: Day | null,
): Promise<{ inserted: number; updated: number }> {
  const touched = volumes.flatMap(({ kind, day }, at) =>
    monthsTouchedBy({ kind, day: addDays('1970-01-01', day) }).map((month) => ({ at, month })),
  )
  const [merged] = await send<{ inserted: number; updated: number }>(db, {
    name: 'merge-archived-volumes',
    text: `with given as materialized (
       select g.key, g.source, date '1970-01-01' + g.days as day, g.kind, g.volume, g.volume_max, g.pc, g.mobile, g.revision, g.n
       from unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                   $9::int[])
         with ordinality as g (key, source, days, kind, volume, volume_max, pc, mobile, revision, n)
     ),
     -- Looked up before anything is written, for on several machines a later part of a statement sees what an earlier wrote.
     present as materialized (
       select g.n from given g
       join batch.volume_observation o on o.key = g.key and o.source = g.source and o.day = g.day and o.kind = g.kind
     ),
     touched as materialized (
       select at + 1 as n, month from unnest($10::int[], $11::date[]) as t (at, month)
     ),
     worked_out as materialized (
       select v.key, v.source, v.month from given g
       join touched using (n)
       join batch.monthly_volume v on v.key = g.key and v.source = g.source and v.month = touched.month
       where v.month < $12::date
     ),
     merged as (
       insert into batch.volume_observation as o (key, source, day, kind, volume, volume_max, pc, mobile, revision)
       select key, source, day, kind, volume, volume_max, pc, mobile, revision from given order by n
       on conflict (key, source, day, kind) do update
         set volume = excluded.volume, volume_max = excluded.volume_max, pc = excluded.pc, mobile = excluded.mobile,
             revision = excluded.revision
         where excluded.revision > o.revision and excluded.day >= $12::date
       returning key, source, day, kind
     ),
     marked as (
       insert into batch.dirty_month (key, source, month)
       select distinct key, source, touched.month
       from merged
       join given using (key, source, day, kind)
       join touched on touched.n = given.n
       where not exists (
         select from worked_out w where (w.key, w.source, w.month) = (given.key, given.source, touched.month))
       order by key, source, touched.month
       on conflict (key, source, month) do update set mark = excluded.mark
     ),
     updated as (
       select count(*)::int as n from merged join given using (key, source, day, kind) join present using (n)
     )
     select (select count(*) from merged)::int - updated.n as inserted, updated.n as updated from updated`,
    values: [
      ...columns.map((name) => volumes.map((volume) => volume[name])),
      touched.map(({ at }) => at),
      touched.map(({ month }) => `${month}-01`),
      keptFrom ?? '-infinity',
    ],
  })
  return merged!
}

const columns = [
  'key',
  'source',
  'day',
  'kind',
  'volume',
  'volume_max',
  'pc',
  'mobile',
  'revision',
] as const satisfies readonly (keyof ArchivedVolume)[]
