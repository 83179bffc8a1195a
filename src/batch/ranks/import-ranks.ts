import type pg from 'pg'
import { isDuplicate } from '../../platform/database/database-errors.ts'
import { pieces } from '../../platform/pieces.ts'
import type { BatchApp, BatchDb } from '../app.ts'
import { copyIn, copyText } from '../copy-in.ts'
import {
  type ImportRecord,
  type ImportRejection,
  type ImportSource,
  type ImportState,
  type ImportTarget,
  importRecords,
  openFormCheck,
  type RejectionSink,
} from '../import.ts'
import { findKeywordIds } from '../keywords/keyword-rows.ts'
import { monthsOf } from '../month.ts'
import { ensureMonths, withMonthsInside } from '../month-rows.ts'
import { dedupeRanks, openRankReader, type Rank, type RankObservation } from './rank.ts'
import { RankForm } from './rank-form.ts'
import { instantTexts, mergeRanks } from './rank-rows.ts'

/** Imports a file of observations into the rank history of a workspace. */
export async function importRanks(
  app: BatchApp,
  workspaceId: string,
  source: ImportSource,
  rejects: RejectionSink,
  onProgress?: (state: ImportState) => void,
): Promise<ImportState & { resumedAt: number }> {
  return importRecords(app, rankTarget(app, workspaceId), source, rejects, onProgress)
}

type Part = {
  /** The ranks in the form that COPY takes, where all their keywords are known already. */
  readonly copy: { rows: Buffer; ranks: number; reported: number; months: ReadonlySet<string> } | undefined
  read(): Promise<ReadRanks>
}

type ReadRanks = {
  ranks: readonly Rank[]
  /** The record that each of the ranks was read from. */
  records: readonly ImportRecord[]
  /** The ranks, sorted and without repeats. */
  settled: readonly Rank[]
  rejections: ImportRejection[]
}

function rankTarget(app: BatchApp, workspaceId: string): ImportTarget<Part> {
  const ids = openIdCache(workspaceId)
  // COPY is the fastest way in, but it stops at the first row that is there already. Most files bring new days only.
  let isNews = true

  return {
    name: `ranks ${workspaceId}`,

    // Of a part that is ready for COPY only the bytes are kept: objects by the thousand that outlive their making
    // cost more memory than all else. The few parts that need the ranks themselves read them again.
    async prepare(chunk, now) {
      const read = await readRanks(chunk.records(), now)
      const { ranks, settled, rejections } = read
      if (!isNews || !ids.knowAll(settled))
        return { part: { copy: undefined, read: async () => read }, rejections }
      const rows = copyRows(workspaceId, settled, ids.known)
      const copy = { rows, ranks: settled.length, reported: ranks.length, months: monthsOf(settled) }
      return { part: { copy, read: () => readRanks(chunk.records(), now) }, rejections }
    },

    async store(client, { copy, read }, now) {
      if (isNews && copy) {
        isNews = await tryCopyRanks(app.db, client, copy.months, copy.rows)
        if (isNews) {
          return { inserted: copy.ranks, updated: 0, unchanged: copy.reported - copy.ranks, rejections: [] }
        }
      }
      const { ranks, records, settled } = await read()
      await ids.learn(client, settled)
      const known = settled.filter(({ key }) => ids.known.has(key))
      const months = monthsOf(known)
      const { inserted, updated, unknown } =
        isNews && (await tryCopyRanks(app.db, client, months, copyRows(workspaceId, known, ids.known)))
          ? { inserted: known.length, updated: 0, unknown: [] }
          : await inMonths(app.db, client, months, () => mergeRanks(client, workspaceId, known, now))
      isNews = inserted === known.length

      // A keyword may be removed after it was looked up.
      const goneKeys = new Set(unknown.map((at) => known[at]!.key))
      const rejections = records
        .filter((_, at) => !ids.known.has(ranks[at]!.key) || goneKeys.has(ranks[at]!.key))
        .map(({ line, raw }) => ({ line, raw, code: 'keyword_not_found' }))
      return {
        inserted,
        updated,
        unchanged: ranks.length - rejections.length - inserted - updated,
        rejections,
      }
    },
  }
}

const checkForm = openFormCheck(RankForm, ['position', 'searched_depth', 'mean_position'])

async function readRanks(given: readonly ImportRecord[], now: Date): Promise<ReadRanks> {
  const read = openRankReader(now)
  const ranks: Rank[] = []
  const records: ImportRecord[] = []
  const rejections: ImportRejection[] = []
  for await (const piece of pieces(given)) {
    for (const record of piece) {
      const code = checkForm(record)
      const verdict = code === undefined ? read(record.fields as RankObservation) : { refusal: code }
      if (verdict.refusal === undefined) {
        ranks.push(verdict)
        records.push(record)
      } else rejections.push({ line: record.line, raw: record.raw, code: verdict.refusal })
    }
  }
  return { ranks, records, settled: dedupeRanks(ranks), rejections }
}

/** Copies ranks in, unless one of them is there already: then nothing is written and the answer is false. */
async function tryCopyRanks(
  db: BatchDb,
  client: pg.PoolClient,
  months: ReadonlySet<string>,
  rows: Buffer,
): Promise<boolean> {
  const copy = () =>
    copyIn(
      client,
      `copy batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, url,
                        reason, mean_position, checked_at)
       from stdin`,
      rows,
    )
  try {
    await inMonths(db, client, months, copy)
    return true
  } catch (error) {
    if (!isDuplicate(error)) throw error
    return false
  }
}

function inMonths<T>(
  db: BatchDb,
  client: pg.PoolClient,
  months: ReadonlySet<string>,
  work: () => Promise<T>,
): Promise<T> {
  return withMonthsInside(db, client, () => ensureMonths(db, 'rank', months), work)
}

function copyRows(workspaceId: string, ranks: readonly Rank[], ids: ReadonlyMap<string, bigint>): Buffer {
  const instantOf = instantTexts()
  let rows = ''
  for (const rank of ranks) {
    const {
      key,
      day,
      engine,
      device,
      location,
      status,
      position,
      searchedDepth,
      url,
      reason,
      checkedAt,
      meanPosition,
    } = rank
    const series = `${workspaceId}\t${ids.get(key)}\t${day}\t${engine}\t${device}\t${location}`
    const place = `${status}\t${position ?? '\\N'}\t${searchedDepth}\t${url === null ? '\\N' : copyText(url)}\t${reason ?? '\\N'}\t${meanPosition ?? '\\N'}`
    rows += `${series}\t${place}\t${instantOf(checkedAt)}\n`
  }
  return Buffer.from(rows)
}

const mostRemembered = 200_000

/** Remembers ids of keywords, because a file names the same ones day after day. */
function openIdCache(workspaceId: string) {
  const known = new Map<string, bigint>()
  return {
    known: known as ReadonlyMap<string, bigint>,
    knowAll: (ranks: readonly Rank[]) => ranks.every(({ key }) => known.has(key)),
    async learn(client: pg.PoolClient, ranks: readonly Rank[]): Promise<void> {
      const missing = [...new Set(ranks.map(({ key }) => key))].filter((key) => !known.has(key))
      if (missing.length === 0) return
      if (known.size > mostRemembered) {
        known.clear()
        return this.learn(client, ranks)
      }
      for (const [key, id] of await findKeywordIds(client, workspaceId, missing)) known.set(key, id)
    },
  }
}
