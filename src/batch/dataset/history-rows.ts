import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { BatchDb, BatchTx } from '../app.ts'
import {
  type Calendar,
  calendarFrom,
  calendarOf,
  type History,
  monthOrdinal,
  type SeriesName,
} from './history.ts'
import { joinRanks, type Ranks, unpack } from './packed-ranks.ts'
import { declareHistory, fetchSeries, type SeriesRow, type Wanted } from './series-rows.ts'

export type StoredHistory = {
  history: History
  series: SeriesName[]
  /** Stands for everything that was read: the same rows give the same hash. */
  sha256: string
  /** The same of the ranks and of the volumes alone, to tell which of them changed. */
  parts: { ranksSha256: string; volumesSha256: string }
}

const seriesPerFetch = 1_000

/**
 * Reads all usable ranks up to a day, or those of a sample of the keywords, and the monthly volumes known by then, as of one
 * moment. Somebody who asks for one workspace gets all of its keywords beside those of the sample.
 */
export async function readHistory(
  db: BatchDb,
  {
    until,
    keywordsKept = 1,
    workspace,
  }: { until?: string | undefined; keywordsKept?: number; workspace?: string } = {},
): Promise<StoredHistory> {
  const wanted: Wanted = {
    until,
    keywordsKept,
    of: keywordsKept === 1 ? 'all' : workspace === undefined ? 'sample' : { workspace },
  }
  return asOfOneMoment(db, wanted, async (tx) => {
    const ranks = await readRanks(tx, wanted)
    const lastDay = calendarOf(ranks.history)?.days.at(-1)
    const volumes = await readVolumes(
      tx,
      ranks.keys,
      lastDay === undefined ? undefined : monthOrdinal(lastDay),
    )
    const parts = { ranksSha256: ranks.sha256, volumesSha256: volumes.sha256 }
    const sha256 = createHash('sha256').update(parts.ranksSha256).update(parts.volumesSha256).digest('hex')
    return { history: { ...ranks.history, ...volumes.found }, series: ranks.series, sha256, parts }
  })
}

/** A history that is read part by part, for whoever does not need all of it at once. */
export type HistoryInParts = {
  /** Undefined of an empty history. */
  calendar: Calendar | undefined
  /** Goes through all parts, in the order of workspace, keyword, engine, device and location. */
  each(act: (part: HistoryPart) => Promise<void>): Promise<void>
  /** The same without volumes, which takes less reading. */
  eachWithoutVolumes(act: (part: HistoryPart) => Promise<void>): Promise<void>
}

/** Some thousand series, all of each keyword, which those in the sample are known of. Sites are numbered across parts; keywords are not. */
export type HistoryPart = { history: History; series: (SeriesName & { isRegistered: boolean })[] }

const seriesPerPart = 4_000

/** Lets somebody go through the whole history in parts, as often as they like, all as of one moment. */
export async function withHistoryInParts<T>(
  db: BatchDb,
  act: (history: HistoryInParts) => Promise<T>,
  { keywordsKept = 1, size = seriesPerPart }: { keywordsKept?: number; size?: number } = {},
): Promise<T> {
  const wanted: Wanted = { keywordsKept, of: 'all' }
  return asOfOneMoment(db, wanted, async (tx) => {
    const calendar = await readCalendar(tx)
    const lastDay = calendar?.days.at(-1)
    const month = lastDay === undefined ? undefined : monthOrdinal(lastDay)
    const walk = async (each: (part: HistoryPart) => Promise<void>, beforeMonth: number | undefined) => {
      const parts = readParts(tx, size, beforeMonth)
      for (let reading = parts.next(); ; ) {
        const { value: part, done } = await reading
        if (done) return
        // The next one is read while this one is worked on.
        reading = parts.next()
        reading.catch(() => {})
        await each(part)
      }
    }
    await declareHistory(tx, wanted, 'scroll')
    const done = await act({
      calendar,
      each: (each) => walk(each, month),
      eachWithoutVolumes: (each) => walk(each, undefined),
    })
    await sql`close history`.execute(tx)
    return done
  })
}

async function* readParts(
  tx: BatchTx,
  size: number,
  beforeMonth: number | undefined,
): AsyncGenerator<HistoryPart, undefined> {
  await sql`move absolute 0 from history`.execute(tx)
  const sites = openIndex()
  let held: SeriesRow[] = []
  let fetched: SeriesRow[]
  do {
    fetched = await fetchSeries(tx, size)
    held.push(...fetched)
    const rows = held.slice(0, fetched.length < size ? held.length : lastKeywordIn(held))
    held = held.slice(rows.length)
    if (rows.length === 0) continue
    const keywords = openIndex()
    const ranks = historyOf(rows, sites, keywords)
    const volumes = await readVolumes(tx, keywords.names, beforeMonth)
    yield { history: { ...ranks, ...volumes.found }, series: rows.map(seriesOf) }
  } while (fetched.length === size)
}

/** Where the last keyword begins, of which more series may follow. */
function lastKeywordIn(rows: readonly SeriesRow[]): number {
  const last = rows.at(-1)!
  const isLast = (row: SeriesRow) =>
    row.keyword_id === last.keyword_id && row.workspace_id === last.workspace_id
  return rows.findIndex(isLast)
}

function asOfOneMoment<T>(db: BatchDb, wanted: Wanted, act: (tx: BatchTx) => Promise<T>): Promise<T> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (tx) => {
      await sql`set local statement_timeout = 0`.execute(tx)
      // Whoever works on a part may have to wait minutes for a core, and the server must not take that for a dead client.
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx)
      await sql`set local work_mem = '64MB'`.execute(tx)
      // Where all of it is read, walking an index row by row would be the long way round.
      if (wanted.of === 'all') await sql`set local enable_indexscan = off`.execute(tx)
      return act(tx)
    })
}

async function readCalendar(tx: BatchTx): Promise<Calendar | undefined> {
  const { rows } = await sql<{ day: number; ranks: number }>`
    select day - date '1970-01-01' as day, count(*)::int as ranks
    from batch.rank where status <> 'failed' group by 1 order by 1`.execute(tx)
  if (rows.length === 0) return undefined
  const firstDay = rows[0]!.day
  const counts = new Int32Array(rows.at(-1)!.day - firstDay + 1)
  for (const { day, ranks } of rows) counts[day - firstDay] = ranks
  return calendarFrom(firstDay, counts)
}

type Index = ReturnType<typeof openIndex>

function historyOf(rows: readonly SeriesRow[], sites: Index, keywords: Index) {
  return {
    ...unpack(rows.map((row) => row.packed)),
    sites: Int32Array.from(rows, (row) => sites.of(row.workspace_id)),
    keywords: Int32Array.from(rows, (row) => keywords.of(row.key)),
    ...inSampleOf(rows.map((row) => row.is_in_sample)),
  }
}

/** Nothing where all of them are. */
function inSampleOf(series: readonly boolean[]): Pick<History, 'inSample'> {
  return series.every((one) => one) ? {} : { inSample: Uint8Array.from(series, Number) }
}

function seriesOf(row: SeriesRow): SeriesName & { isRegistered: boolean } {
  return { ...nameOf(row), isRegistered: row.is_registered }
}

function nameOf({ workspace_id, keyword_id, engine, device, location }: SeriesRow): SeriesName {
  return { workspaceId: workspace_id, keywordId: keyword_id, engine, device, location }
}

async function readRanks(tx: BatchTx, wanted: Wanted) {
  const hash = createHash('sha256')
  // Whether later keywords will belong to it depends on the share, so it is part of what was read.
  if (wanted.keywordsKept < 1) hash.update(JSON.stringify({ keywords_kept: wanted.keywordsKept }))
  await declareHistory(tx, wanted, 'no scroll')
  const [sites, keywords] = [openIndex(), openIndex()]
  const ranks: Ranks[] = []
  const series: SeriesName[] = []
  const siteOf: number[] = []
  const keywordOf: number[] = []
  const inSample: boolean[] = []
  for (let rows = await fetchSeries(tx, seriesPerFetch); rows.length > 0; ) {
    // What is packed is gone with its rows, before the next are there.
    ranks.push(unpack(rows.map((row) => row.packed)))
    for (const row of rows) {
      const { workspace_id, key, engine, device, location, packed } = row
      hash.update(JSON.stringify([workspace_id, key, engine, device, location, packed.length])).update(packed)
      series.push(nameOf(row))
      siteOf.push(sites.of(workspace_id))
      keywordOf.push(keywords.of(key))
      inSample.push(row.is_in_sample)
    }
    rows = await fetchSeries(tx, seriesPerFetch)
  }
  await sql`close history`.execute(tx)
  const history: History = {
    ...joinRanks(ranks),
    sites: Int32Array.from(siteOf),
    keywords: Int32Array.from(keywordOf),
    ...inSampleOf(inSample),
    sourceStarts: new Int32Array(keywords.names.length + 1),
    volumeStarts: new Int32Array(1),
    volumeMonths: new Int32Array(),
    volumes: new Float64Array(),
  }
  return { history, series, keys: keywords.names, sha256: hash.digest('hex') }
}

const keysPerQuery = 5_000

/** Volumes of the months before the given one, as each was known when it ended, source by source. */
async function readVolumes(tx: BatchTx, keys: readonly string[], beforeMonth: number | undefined) {
  type Row = { at: number; months: number[]; volumes: number[] }
  const sourceStarts = new Int32Array(keys.length + 1)
  const volumeStarts = [0]
  const months: number[] = []
  const volumes: number[] = []
  const hash = createHash('sha256')
  for (let from = 0; beforeMonth !== undefined && from < keys.length; from += keysPerQuery) {
    const { rows } = await sql<Row>`
      select k.at::int as at, array_agg(v.volume order by v.month) as volumes,
             array_agg((extract(year from v.month) * 12 + extract(month from v.month) - 1)::int order by v.month) as months
      from unnest(${keys.slice(from, from + keysPerQuery)}::text[]) with ordinality as k (key, at)
      join (select key, source, month, at_month_end as volume from batch.monthly_volume) v on v.key = k.key
        and v.volume is not null
        and v.month < make_date(${Math.floor(beforeMonth / 12)}::int, ${(beforeMonth % 12) + 1}::int, 1)
      group by k.at, v.source
      order by k.at, v.source`.execute(tx)
    for (const row of rows) {
      hash.update(JSON.stringify([keys[from + row.at - 1], row.months, row.volumes]))
      sourceStarts[from + row.at]!++
      months.push(...row.months)
      volumes.push(...row.volumes)
      volumeStarts.push(months.length)
    }
  }
  for (let at = 1; at < sourceStarts.length; at++) sourceStarts[at]! += sourceStarts[at - 1]!
  const found = {
    sourceStarts,
    volumeStarts: Int32Array.from(volumeStarts),
    volumeMonths: Int32Array.from(months),
    volumes: Float64Array.from(volumes),
  }
  return { found, sha256: hash.digest('hex') }
}

/** Gives names dense numbers in the order of their first appearance. */
function openIndex() {
  const numbers = new Map<string, number>()
  const names: string[] = []
  return {
    names,
    of(name: string): number {
      const known = numbers.get(name)
      if (known !== undefined) return known
      numbers.set(name, names.length)
      return names.push(name) - 1
    },
  }
}
