import { sql } from 'kysely'
import type { VolumeObservation } from '../volumes/monthly-volume.ts'
import { type ArchiveForm, type ColumnKind, day, text } from './archive.ts'

/** An observation of a keyword's volume as it stands in an archive. */
export type ArchivedVolume = {
  key: string
  source: string
  /** Days since 1970. */
  day: number
  kind: VolumeObservation['kind']
  volume: bigint | null
  volume_max: bigint | null
  pc: bigint | null
  mobile: bigint | null
  revision: number
}

const large: ColumnKind = { type: 'INT64', converted_type: 'INT_64', repetition_type: 'OPTIONAL' }

export const volumeArchive: ArchiveForm<ArchivedVolume> = {
  name: 'volumes',
  columns: {
    key: text,
    source: text,
    day,
    kind: text,
    volume: large,
    volume_max: large,
    pc: large,
    mobile: large,
    revision: { type: 'INT32', converted_type: 'INT_32', repetition_type: 'REQUIRED' },
  },
  select: (table) => sql<ArchivedVolume>`
    select key, source, day - date '1970-01-01' as day, kind, volume, volume_max, pc, mobile, revision
    from batch.${sql.id(table)}
    order by key, source, day, kind`,
}
