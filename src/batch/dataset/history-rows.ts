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

export type StoredHistory = {
  history: History
  series: SeriesName[]
  /** Stands for everything that was read: the same rows give the same hash. */
  sha256: string
  /** The same of the ranks and of the volumes alone, to tell which of them changed. */
  parts: { ranksSha256: string; volumesSha256: string }
}

const seriesPerFetch = 1_000
const bytesPerRank = 12

/**
 * Reads all usable ranks up to a day and the monthly volumes known by then, as of one moment. PostgreSQL packs each
 * series into one value, so that a million rows do not become a million objects, and leaves the days to be put in
 * order here: it would sort all rows by six columns, we sort some hundred numbers that mostly stand right already.
 */
export async function readHistory(db: BatchDb, until?: string): Promise<StoredHistory> {
  return asOfOneMoment(db, async (tx) => {
    const ranks = await readRanks(tx, until)
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

/** Some thousand series, all of each keyword. Sites are numbered across parts; keywords are not. */
export type HistoryPart = { history: History; series: (SeriesName & { isRegistered: boolean })[] }

const seriesPerPart = 4_000

/** Lets somebody go through the history in parts, as often as they like, all as of one moment. */
export async function withHistoryInParts<T>(
  db: BatchDb,
  act: (history: HistoryInParts) => Promise<T>,
  size = seriesPerPart,
): Promise<T> {
  return asOfOneMoment(db, async (tx) => {
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
    await declareHistory(tx, undefined, 'scroll')
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

function asOfOneMoment<T>(db: BatchDb, act: (tx: BatchTx) => Promise<T>): Promise<T> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (tx) => {
      await sql`set local statement_timeout = 0`.execute(tx)
      // Whoever works on a part may have to wait minutes for a core, and the server must not take that for a dead client.
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(tx)
      await sql`set local work_mem = '64MB'`.execute(tx)
      // All of it is read, so walking an index row by row would be the long way round.
      await sql`set local enable_indexscan = off`.execute(tx)
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

type SeriesRow = {
  workspace_id: string
  keyword_id: bigint
  key: string
  engine: string
  device: string
  location: string
  is_registered: boolean
  packed: Buffer
}

/** With `scroll` PostgreSQL keeps the packed series, so that whoever goes through them again does not wait for them again. */
async function declareHistory(
  tx: BatchTx,
  until: string | undefined,
  scroll: 'scroll' | 'no scroll',
): Promise<void> {
  // Each rank is twelve bytes: day, place (negative: not found), depth and the first bytes of the page's hash.
  await sql`
    declare history ${sql.raw(scroll)} cursor for
    select s.*, k.key, k.removed_at is null as is_registered
    from (
      select workspace_id, keyword_id, engine, device, location,
             string_agg(
               int4send(day - date '1970-01-01')
                 || int2send(coalesce(position, -least(searched_depth + 1, 32767))::int2) || int2send(searched_depth)
                 || case when url is null then '\\x00000000' else substring(decode(md5(url), 'hex') for 4) end,
               ''::bytea) as packed
      from batch.rank
      where status <> 'failed' and day <= ${until ?? 'infinity'}::date
      group by workspace_id, keyword_id, engine, device, location
    ) s
    join batch.keyword k on k.workspace_id = s.workspace_id and k.id = s.keyword_id
    order by s.workspace_id, s.keyword_id, s.engine, s.device, s.location`.execute(tx)
}

/** The next series, each in day order; an empty list at the end. */
async function fetchSeries(tx: BatchTx, count: number): Promise<SeriesRow[]> {
  const { rows } = await sql<SeriesRow>`fetch ${sql.raw(String(count))} from history`.execute(tx)
  for (const row of rows) row.packed = sortDays(row.packed)
  return rows
}

type Index = ReturnType<typeof openIndex>

function historyOf(rows: readonly SeriesRow[], sites: Index, keywords: Index) {
  return {
    ...unpack(rows.map((row) => row.packed)),
    sites: Int32Array.from(rows, (row) => sites.of(row.workspace_id)),
    keywords: Int32Array.from(rows, (row) => keywords.of(row.key)),
  }
}

function seriesOf(row: SeriesRow): SeriesName & { isRegistered: boolean } {
  const { workspace_id: workspaceId, keyword_id: keywordId, engine, device, location } = row
  return { workspaceId, keywordId, engine, device, location, isRegistered: row.is_registered }
}

async function readRanks(tx: BatchTx, until: string | undefined) {
  const hash = createHash('sha256')
  await declareHistory(tx, until, 'no scroll')
  const all: SeriesRow[] = []
  for (let rows = await fetchSeries(tx, seriesPerFetch); rows.length > 0; ) {
    for (const row of rows) {
      const { workspace_id, key, engine, device, location, packed } = row
      hash.update(JSON.stringify([workspace_id, key, engine, device, location, packed.length])).update(packed)
      all.push(row)
    }
    rows = await fetchSeries(tx, seriesPerFetch)
  }
  await sql`close history`.execute(tx)
  const keywords = openIndex()
  const history = {
    ...historyOf(all, openIndex(), keywords),
    sourceStarts: new Int32Array(keywords.names.length + 1),
    volumeStarts: new Int32Array(1),
    volumeMonths: new Int32Array(),
    volumes: new Float64Array(),
  }
  const series = all.map(({ workspace_id, keyword_id, engine, device, location }) => ({
    workspaceId: workspace_id,
    keywordId: keyword_id,
    engine,
    device,
    location,
  }))
  return { history, series, keys: keywords.names, sha256: hash.digest('hex') }
}

/** A series in day order. Days are unique in it, so there is one such order. */
function sortDays(packed: Buffer): Buffer {
  const order = new Int32Array(packed.length / bytesPerRank)
  let isSorted = true
  for (let row = 0; row < order.length; row++) {
    order[row] = row
    isSorted &&= row === 0 || dayAt(packed, row) > dayAt(packed, row - 1)
  }
  if (isSorted) return packed
  order.sort((a, b) => dayAt(packed, a) - dayAt(packed, b))
  return Buffer.concat(
    Array.from(order, (row) => packed.subarray(row * bytesPerRank, (row + 1) * bytesPerRank)),
  )
}

function dayAt(packed: Buffer, row: number): number {
  return packed.readInt32BE(row * bytesPerRank)
}

function unpack(packed: readonly Buffer[]): Pick<History, 'starts' | 'days' | 'places' | 'depths' | 'urls'> {
  const starts = new Int32Array(packed.length + 1)
  packed.forEach((bytes, at) => {
    starts[at + 1] = starts[at]! + bytes.length / bytesPerRank
  })
  const rows = starts[packed.length]!
  const [days, places] = [new Int32Array(rows), new Int16Array(rows)]
  const [depths, urls] = [new Int16Array(rows), new Int32Array(rows)]
  let row = 0
  for (const bytes of packed) {
    for (let at = 0; at < bytes.length; at += bytesPerRank, row++) {
      days[row] = bytes.readInt32BE(at)
      places[row] = bytes.readInt16BE(at + 4)
      depths[row] = bytes.readInt16BE(at + 6)
      urls[row] = bytes.readInt32BE(at + 8)
    }
  }
  return { starts, days, places, depths, urls }
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
