import type pg from 'pg'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import type { BatchApp } from './app.ts'
import { deleteProgress, findProgress, type ImportProgress, moveProgress } from './import-progress-rows.ts'
import { oneBehind } from './one-behind.ts'

/** How far a file has been read. */
export type ImportPosition = { bytes: number; lines: number }

/** One record of a file: its fields, or why it has none. `raw` is the text as it stands in the file. */
export type ImportRecord = { line: number; raw: string } & (
  | { fields: Record<string, unknown>; code?: never }
  | { fields?: never; code: string }
)

export type ImportRejection = { line: number; code: string; raw: string }

/** A part of a file that fits into memory and ends between two records. */
export type ImportChunk = {
  /** Read anew each time they are asked for, so that nobody has to keep them. */
  records(): ImportRecord[]
  readonly end: ImportPosition
}

/** Where the records come from. */
export type ImportSource = {
  /** Stands for the file's content, so that an import can go on where it stopped; null if it cannot be read twice. */
  readonly identity: string | null
  /** What stands behind a position. */
  read(from: ImportPosition): AsyncIterable<ImportChunk>
}

/** Where rejected records go. It can be cut back to an earlier length, so that going on repeats none of them. */
export type RejectionSink = {
  /** Cuts back to a length that was told before. */
  open(length: number): Promise<void>
  /** Adds rejections and says how long it is now. */
  write(rejections: readonly ImportRejection[]): Promise<number>
}

export type ImportCounts = { inserted: number; updated: number; unchanged: number; rejected: number }
export type ImportState = ImportPosition & ImportCounts

/** What an area's noun does with records: read them while the part before is stored, then store them. */
export type ImportTarget<Part> = {
  /** What is imported into what; an import of the same file into something else starts anew. */
  readonly name: string
  /** In pieces, because the rows of the part before go out meanwhile. */
  prepare(chunk: ImportChunk, now: Date): Promise<{ part: Part; rejections: ImportRejection[] }>
  store(
    client: pg.PoolClient,
    part: Part,
    now: Date,
  ): Promise<{ inserted: number; updated: number; unchanged: number; rejections: ImportRejection[] }>
}

/**
 * Imports a file part by part. The rows of a part and the record of how far the file is read are one transaction:
 * killed at any moment, the import goes on behind the last part stored. A file that is done is forgotten; importing it
 * again finds everything unchanged.
 */
export async function importRecords<Part>(
  app: BatchApp,
  target: ImportTarget<Part>,
  source: ImportSource,
  rejects: RejectionSink,
  onProgress: (state: ImportState) => void = () => {},
): Promise<ImportState & { resumedAt: number }> {
  const id = source.identity === null ? null : `${target.name} ${source.identity}`
  let state = (id === null ? undefined : await findProgress(app.db, id)) ?? fresh
  const resumedAt = state.lines
  await rejects.open(state.rejectsBytes)
  onProgress(state)

  // The next part is read and prepared while the database is busy with the one before.
  const storing = oneBehind<void>()
  try {
    for await (const chunk of source.read(state)) {
      const now = app.clock()
      const prepared = await target.prepare(chunk, now)
      const store = async (client: pg.PoolClient) => {
        const stored = await target.store(client, prepared.part, now)
        const rejections = [...prepared.rejections, ...stored.rejections].sort((a, b) => a.line - b.line)
        const next = {
          ...chunk.end,
          inserted: state.inserted + stored.inserted,
          updated: state.updated + stored.updated,
          unchanged: state.unchanged + stored.unchanged,
          rejected: state.rejected + rejections.length,
          rejectsBytes: await rejects.write(rejections),
        }
        if (id !== null && !(await moveProgress(client, id, state, next, now))) throw new ImportTaken()
        return next
      }
      await storing.begin(async () => {
        state = await inTransaction(app.pool, store)
        onProgress(state)
      })
    }
  } catch (error) {
    // What comes before a line that cannot be read is stored all the same, so that a mended file goes on there.
    await storing.ended().catch(() => {})
    throw error
  }
  await storing.ended()
  if (id !== null) await deleteProgress(app.db, id)
  return { ...state, resumedAt }
}

const fresh: ImportProgress = {
  bytes: 0,
  lines: 0,
  inserted: 0,
  updated: 0,
  unchanged: 0,
  rejected: 0,
  rejectsBytes: 0,
}

/** Another process imports the same file into the same place. */
class ImportTaken extends Error {
  override readonly name = 'ImportTaken'

  constructor() {
    super('Another process is importing this file.')
  }
}

async function inTransaction<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    client.release()
    return result
  } catch (error) {
    // The connection may be the trouble, or hold a half-done transaction: it goes.
    client.release(true)
    throw error
  }
}

/**
 * Checks records against the form that HTTP asks for, and says what is wrong with one. Files may write numbers as text,
 * for CSV knows nothing else; they become numbers in place. The code names the field, because all an operator has is
 * the line.
 */
export function openFormCheck(
  form: TSchema,
  numbers: readonly string[],
): (record: ImportRecord) => string | undefined {
  const check = Compile(form)
  return (record) => {
    if (record.code !== undefined) return record.code
    const { fields } = record
    for (const name of numbers) {
      const text = fields[name]
      if (typeof text === 'string' && /^-?\d{1,15}(?:\.\d{1,9})?$/.test(text)) fields[name] = Number(text)
    }
    if (check.Check(fields)) return undefined
    const [error] = check.Errors(fields)
    return codeOf(error?.keyword, error?.instancePath ?? '', error?.params as Record<string, unknown>)
  }
}

function codeOf(keyword: string | undefined, pointer: string, params: Record<string, unknown>): string {
  if (keyword === 'required') return `${String((params['requiredProperties'] as string[])[0])}_missing`
  const field = pointer.split('/')[1]
  return field === undefined || keyword === 'additionalProperties' || keyword === 'boolean'
    ? 'unknown_field'
    : `${field}_wrong_form`
}
