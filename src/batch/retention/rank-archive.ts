import { open, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  type SchemaElement,
} from 'hyparquet'
import { fileWriter, parquetWriteRows } from 'hyparquet-writer'
import type pg from 'pg'
import { periodOf, quoted } from './month-rows.ts'

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

type Kind = Pick<SchemaElement, 'type' | 'converted_type' | 'repetition_type'>

const text: Kind = { type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' }
const small: Kind = { type: 'INT32', converted_type: 'INT_16', repetition_type: 'REQUIRED' }
const orNull = (kind: Kind): Kind => ({ ...kind, repetition_type: 'OPTIONAL' })

// Converted types only: other readers refuse what the writer makes of logical ones.
const columns: Readonly<Record<keyof ArchivedRank, Kind>> = {
  workspace_id: text,
  key: text,
  keyword: text,
  day: { type: 'INT32', converted_type: 'DATE', repetition_type: 'REQUIRED' },
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
}

const names = Object.keys(columns) as (keyof ArchivedRank)[]

const schema: SchemaElement[] = [
  { name: 'root', num_children: names.length },
  ...names.map((name) => ({ name, ...columns[name] })),
]

// Written into the file, so that a reader knows what it is before it looks at a row.
const mark = { key: 'rankledger', value: 'ranks 1' }

const rowsInGroup = 20_000
const rowsInFetch = 2_000

/**
 * Writes a month that nobody writes to any more into a file of its own, and says where it is. It appears under its name
 * only when it is whole and on the disk.
 */
export async function archiveMonth(
  pool: pg.Pool,
  table: string,
  folder: string,
  onProgress: (rows: number) => void,
): Promise<{ path: string; rows: number }> {
  const path = await freePath(folder, `ranks-${periodOf(table)}`)
  const partial = `${path}.partial`
  const client = await pool.connect()
  let written = 0
  try {
    await client.query('begin')
    await client.query(`
      declare leaving no scroll cursor for
      select r.workspace_id, k.key, k.display as keyword, r.day - date '1970-01-01' as day, r.engine, r.device, r.location,
             r.status, r.position, r.searched_depth, r.url, r.reason, r.mean_position,
             (extract(epoch from r.checked_at) * 1000000)::bigint as checked_at, r.revision
      from batch.${quoted(table)} r
      join batch.keyword k on k.workspace_id = r.workspace_id and k.id = r.keyword_id
      order by r.workspace_id, r.keyword_id, r.day, r.engine, r.device, r.location`)
    const rows = async function* () {
      for (;;) {
        const fetched = await client.query<ArchivedRank>(`fetch ${rowsInFetch} from leaving`)
        if (fetched.rows.length === 0) return
        yield* fetched.rows
        written += fetched.rows.length
        onProgress(written)
      }
    }
    await parquetWriteRows({
      writer: fileWriter(partial),
      rows: rows(),
      columns: names.map((name) => ({ name })),
      schema,
      rowGroupSize: rowsInGroup,
      kvMetadata: [mark],
    })
    await client.query('commit')
    client.release()
  } catch (error) {
    client.release(true)
    throw error
  }
  await requireWhole(pool, table, partial)
  await sync(partial)
  await rename(partial, path)
  await sync(folder)
  return { path, rows: written }
}

/** What is in the file is read back and counted against the table before anything is dropped. */
async function requireWhole(pool: pg.Pool, table: string, path: string): Promise<void> {
  const { rows } = await pool.query<{ n: number }>(`select count(*)::float8 as n from batch.${quoted(table)}`)
  const archive = await openArchive(path)
  let read = 0
  for await (const group of archive.groups()) read += group.length
  if (read !== rows[0]!.n) {
    throw new Error(
      `The archive of ${table} holds ${read} of ${rows[0]!.n} rows, so the table stays; look for ranks without a keyword.`,
    )
  }
}

async function sync(path: string): Promise<void> {
  const file = await open(path)
  await file.sync()
  await file.close()
}

/** An archive is never written over: a month may be stored, archived and stored again. */
async function freePath(folder: string, name: string): Promise<string> {
  for (let number = 1; ; number++) {
    const path = join(folder, `${name}${number === 1 ? '' : `.${number}`}.parquet`)
    const isTaken = await stat(path).then(
      () => true,
      () => false,
    )
    if (!isTaken) return path
  }
}

export type RankArchive = {
  readonly rows: number
  groups(): AsyncGenerator<ArchivedRank[]>
}

/** Opens a file that `archiveMonth` wrote. Undefined rows are never made up: another file is refused. */
export async function openArchive(path: string): Promise<RankArchive> {
  const file = await asyncBufferFromFile(path)
  let metadata: FileMetaData
  try {
    metadata = await parquetMetadataAsync(file)
  } catch {
    throw new NoArchive(path)
  }
  const isOurs = metadata.key_value_metadata?.some(
    ({ key, value }) => key === mark.key && value === mark.value,
  )
  if (!isOurs) throw new NoArchive(path)
  return {
    rows: Number(metadata.num_rows),
    async *groups() {
      let rowStart = 0
      for (const { num_rows } of metadata.row_groups) {
        const rowEnd = rowStart + Number(num_rows)
        yield (await parquetReadObjects({ file, metadata, rowStart, rowEnd, parsers })) as ArchivedRank[]
        rowStart = rowEnd
      }
    },
  }
}

// Days and instants as they stand: a Date would cut them to milliseconds.
const parsers = {
  dateFromDays: (days: number) => days,
  timestampFromMicroseconds: (micros: bigint) => micros,
} as object

export class NoArchive extends Error {
  override readonly name = 'NoArchive'

  constructor(path: string) {
    super(
      `${path} is no archive of ranks: only files that \`rankledger retention --archive\` wrote are read as Parquet.`,
    )
  }
}
