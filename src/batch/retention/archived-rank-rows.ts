import type { BatchDb } from '../app.ts'
import { type MergedRanks, supersedes } from '../ranks/rank-rows.ts'
import { send } from '../statement.ts'
import type { ArchivedRank } from './rank-archive.ts'

/** Stores ranks of an archive by the same rule, also those of keywords that were removed since. */
export async function mergeArchivedRanks(db: BatchDb, ranks: readonly ArchivedRank[]): Promise<MergedRanks> {
  const [merged] = await send<MergedRanks>(db, {
    name: 'merge-archived-ranks',
    text: `with given as materialized (
       select g.*, k.id as keyword_id
       from unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[],
                   $9::smallint[], $10::text[], $11::bigint[], $12::smallint[], $13::text[], $14::real[])
         with ordinality
         as g (workspace_id, key, day, engine, device, location, status, position, searched_depth, url, micros, revision, reason,
               mean_position, n)
       left join batch.keyword k on k.workspace_id = g.workspace_id and k.key = g.key
     ),
     -- Looked up before anything is written, for on several machines a later part of a statement sees what an earlier wrote.
     present as materialized (
       select g.n from given g
       join batch.rank r on r.workspace_id = g.workspace_id and r.keyword_id = g.keyword_id
         and r.day = date '1970-01-01' + g.day and r.engine = g.engine and r.device = g.device and r.location = g.location
     ),
     merged as (
       insert into batch.rank as r (workspace_id, keyword_id, day, engine, device, location, status, position,
                                    searched_depth, url, checked_at, revision, reason, mean_position)
       select workspace_id, keyword_id, date '1970-01-01' + day, engine, device, location, status, position, searched_depth,
              url, timestamptz 'epoch' + micros * interval '1 microsecond', revision, reason, mean_position
       from given
       where keyword_id is not null
       order by n
       on conflict (workspace_id, keyword_id, day, engine, device, location) do update
         set status = excluded.status, position = excluded.position, searched_depth = excluded.searched_depth,
             url = excluded.url, checked_at = excluded.checked_at, reason = excluded.reason,
             mean_position = excluded.mean_position,
             revision = least(r.revision, 32766) + 1
         where ${supersedes('null')}
       returning workspace_id, keyword_id, day, engine, device, location
     ),
     updated as (
       select count(*)::int as n from merged m
       join given g on g.workspace_id = m.workspace_id and g.keyword_id = m.keyword_id and date '1970-01-01' + g.day = m.day
         and g.engine = m.engine and g.device = m.device and g.location = m.location
       join present using (n)
     )
     select (select count(*) from merged)::int - updated.n as inserted, updated.n as updated,
            array(select n::int - 1 from given where keyword_id is null order by n) as unknown
     from updated`,
    values: archivedColumns.map((name) => ranks.map((rank) => rank[name])),
  })
  return merged!
}

const archivedColumns = [
  'workspace_id',
  'key',
  'day',
  'engine',
  'device',
  'location',
  'status',
  'position',
  'searched_depth',
  'url',
  'checked_at',
  'revision',
  'reason',
  'mean_position',
] as const satisfies readonly (keyof ArchivedRank)[]
