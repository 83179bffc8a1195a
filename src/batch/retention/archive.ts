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
import { type RawBuilder, sql } from 'kysely'
import type { BatchDb } from '../app.ts'
import { countRowsOfMonth, periodOf } from './month-rows.ts'

export type ColumnKind = Pick<SchemaElement, 'type' | 'converted_type' | 'repetition_type'>

// Converted types only: other readers refuse what the writer makes of logical ones.
export const text: ColumnKind = { type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' }
export const day: ColumnKind = { type: 'INT32', converted_type: 'DATE', repetition_type: 'REQUIRED' }
export const orNull = (kind: ColumnKind): ColumnKind => ({ ...kind, repetition_type: 'OPTIONAL' })

/** How the rows of a history stand in a file. */
export type ArchiveForm<Row> = {
  /** What the rows are. It begins the file's name and is written into it. */
  readonly name: 'ranks' | 'volumes'
  readonly columns: Readonly<Record<keyof Row & string, ColumnKind>>
  /** Selects all rows of a month's table, in an order of their own. */
  readonly select: (table: string) => RawBuilder<Row>
}

// Written into the file, so that a reader knows what it is before it looks at a row.
const markOf = ({ name }: { readonly name: string }) => ({ key: 'rankledger', value: `${name} 1` })

const rowsInGroup = 20_000
const rowsInFetch = 2_000

/**
 * Writes a month that nobody writes to any more into a file of its own, and says where it is. It appears under its name
 * only when it is whole and on the disk.
 */
export async function archiveMonth<Row extends object>(
  db: BatchDb,
  form: ArchiveForm<Row>,
  table: string,
  folder: string,
  onProgress: (rows: number) => void,
): Promise<{ path: string; rows: number }> {
  const path = await freePath(folder, `${form.name}-${periodOf(table)}`)
  const partial = `${path}.partial`
  const names = Object.keys(form.columns) as (keyof Row & string)[]
  const rows = await db
    .transaction()
    .setAccessMode('read only')
    .execute(async (tx) => {
      let written = 0
      await sql`declare leaving no scroll cursor for ${form.select(table)}`.execute(tx)
      const fetchAll = async function* () {
        for (;;) {
          const fetched = await sql<Row>`fetch ${sql.lit(rowsInFetch)} from leaving`.execute(tx)
          if (fetched.rows.length === 0) return
          yield* fetched.rows
          written += fetched.rows.length
          onProgress(written)
        }
      }
      await parquetWriteRows({
        writer: fileWriter(partial),
        rows: fetchAll() as AsyncIterable<Record<string, unknown>>,
        columns: names.map((name) => ({ name })),
        schema: [
          { name: 'root', num_children: names.length },
          ...names.map((name) => ({ name, ...form.columns[name] })),
        ],
        rowGroupSize: rowsInGroup,
        kvMetadata: [markOf(form)],
      })
      return written
    })
  await requireWhole(db, form, table, partial)
  await sync(partial)
  await rename(partial, path)
  await sync(folder)
  return { path, rows }
}

/** What is in the file is read back and counted against the table before anything is dropped. */
async function requireWhole<Row>(
  db: BatchDb,
  form: ArchiveForm<Row>,
  table: string,
  path: string,
): Promise<void> {
  const stored = await countRowsOfMonth(db, table)
  const archive = await openArchive(form, path)
  let read = 0
  for await (const group of archive.groups()) read += group.length
  if (read !== stored) {
    throw new Error(
      `The archive of ${table} holds ${read} of ${stored} rows, so the table stays; look for rows without a keyword.`,
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

export type Archive<Row> = {
  readonly rows: number
  groups(): AsyncGenerator<Row[]>
}

/** Opens a file that `archiveMonth` wrote. Undefined rows are never made up: another file is refused. */
export async function openArchive<Row>(form: ArchiveForm<Row>, path: string): Promise<Archive<Row>> {
  const file = await asyncBufferFromFile(path)
  let metadata: FileMetaData
  try {
    metadata = await parquetMetadataAsync(file)
  } catch {
    throw new NoArchive(path, form.name)
  }
  const mark = markOf(form)
  const isOurs = metadata.key_value_metadata?.some(
    ({ key, value }) => key === mark.key && value === mark.value,
  )
  if (!isOurs) throw new NoArchive(path, form.name)
  return {
    rows: Number(metadata.num_rows),
    async *groups() {
      let rowStart = 0
      for (const { num_rows } of metadata.row_groups) {
        const rowEnd = rowStart + Number(num_rows)
        yield (await parquetReadObjects({ file, metadata, rowStart, rowEnd, parsers })) as Row[]
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

  constructor(path: string, what: string) {
    super(
      `${path} is no archive of ${what}: only files that \`rankledger retention --archive\` wrote are read as Parquet.`,
    )
  }
}
