import { sql } from 'kysely'
import { type ArchiveForm, type ColumnKind, day, orNull, text } from './archive.ts'

/** A rank as it stands in an archive. It names its keyword, because ids differ from one database to the next. */
export type ArchivedRank = {
  workspace_id: string
  /** The folded form, by which the keyword is found again. */
  key: string
  /** As people write it. */
  keyword: string
  /** Days since 1970. */
  day: number
  engine: string
  device: string
  location: string
  status: string
  position: number | null
  searched_depth: number
  url: string | null
  reason: string | null
  mean_position: number | null
  /** Microseconds since 1970. */
  checked_at: bigint
  revision: number
}

const small: ColumnKind = { type: 'INT32', converted_type: 'INT_16', repetition_type: 'REQUIRED' }

export const rankArchive: ArchiveForm<ArchivedRank> = {
  name: 'ranks',
  columns: {
    workspace_id: text,
    key: text,
    keyword: text,
    day,
    engine: text,
    device: text,
    location: text,
    status: text,
    position: orNull(small),
    searched_depth: small,
    url: orNull(text),
    reason: orNull(text),
    mean_position: { type: 'FLOAT', repetition_type: 'OPTIONAL' },
    checked_at: { type: 'INT64', converted_type: 'TIMESTAMP_MICROS', repetition_type: 'REQUIRED' },
    revision: small,
  },
  select: (table) => sql<ArchivedRank>`
    select r.workspace_id, k.key, k.display as keyword, r.day - date '1970-01-01' as day, r.engine, r.device, r.location,
           r.status, r.position, r.searched_depth, r.url, r.reason, r.mean_position,
           (extract(epoch from r.checked_at) * 1000000)::bigint as checked_at, r.revision
    from batch.${sql.id(table)} r
    join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id
    order by r.workspace_id, r.keyword_id, r.day, r.engine, r.device, r.location`,
}
