import type pg from 'pg'
import type { BatchDb } from './app.ts'

/** How far an import has come: in its file, in what became of its lines, and in the file of those it refused. */
export type ImportProgress = {
  readonly bytes: number
  readonly lines: number
  readonly inserted: number
  readonly updated: number
  readonly unchanged: number
  readonly rejected: number
  readonly rejectsBytes: number
}

export async function findProgress(db: BatchDb, id: string): Promise<ImportProgress | undefined> {
  const row = await db
    .selectFrom('batch.import_progress')
    .select(['bytes', 'lines', 'inserted', 'updated', 'unchanged', 'rejected', 'rejects_bytes'])
    .where('id', '=', id)
    .executeTakeFirst()
  return (
    row && {
      bytes: Number(row.bytes),
      lines: Number(row.lines),
      inserted: Number(row.inserted),
      updated: Number(row.updated),
      unchanged: Number(row.unchanged),
      rejected: Number(row.rejected),
      rejectsBytes: Number(row.rejects_bytes),
    }
  )
}

/** Moves on from where this import last was, on the connection of its COPY. False: the row stands elsewhere. */
export async function moveProgress(
  client: pg.PoolClient,
  id: string,
  from: ImportProgress,
  to: ImportProgress,
  now: Date,
): Promise<boolean> {
  const { rows } = await client.query(
    `insert into batch.import_progress as p
       (id, bytes, lines, inserted, updated, unchanged, rejected, rejects_bytes, updated_at)
     select $1, $3, $4, $5, $6, $7, $8, $9, $10
     on conflict (id) do update
       set bytes = excluded.bytes, lines = excluded.lines, inserted = excluded.inserted, updated = excluded.updated,
           unchanged = excluded.unchanged, rejected = excluded.rejected, rejects_bytes = excluded.rejects_bytes,
           updated_at = excluded.updated_at
       where p.bytes = $2
     returning bytes`,
    [
      id,
      from.bytes,
      to.bytes,
      to.lines,
      to.inserted,
      to.updated,
      to.unchanged,
      to.rejected,
      to.rejectsBytes,
      now,
    ],
  )
  return rows.length > 0
}

export async function deleteProgress(db: BatchDb, id: string): Promise<void> {
  await db.deleteFrom('batch.import_progress').where('id', '=', id).execute()
}
