import { createHash, type Hash } from 'node:crypto'
import { sql } from 'kysely'
import type { BatchDb, BatchTx } from '../app.ts'
import { type History, monthOf, type SeriesName, spanOf } from './history.ts'

export type StoredHistory = {
  history: History
  series: SeriesName[]
  /** Stands for everything that was read: the same rows give the same hash. */
  sha256: string
}

const seriesPerFetch = 1_000
const bytesPerRank = 10

/**
 * Reads all usable ranks and the monthly volumes known by their last day, as of one moment. PostgreSQL packs each
 * series into one value, so that a million rows do not become a million objects, and leaves the days to be put in
 * order here: it would sort all rows by six columns, we sort some hundred numbers that mostly stand right already.
 */
export async function readHistory(db: BatchDb, until?: string): Promise<StoredHistory> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (tx) => {
      await sql`set local statement_timeout = 0`.execute(tx)
      await sql`set local work_mem = '64MB'`.execute(tx)
      // All of it is read, so walking an index row by row would be the long way round.
      await sql`set local enable_indexscan = off`.execute(tx)
      const hash = createHash('sha256')
      const ranks = await readRanks(tx, until, hash)
      const span = spanOf(ranks.history)
      const volumes = await readVolumes(tx, ranks.keys, span && monthOf(span.lastDay), hash)
      return { history: { ...ranks.history, ...volumes }, series: ranks.series, sha256: hash.digest('hex') }
    })
}

type SeriesRow = {
  workspace_id: string
  keyword_id: bigint
  key: string
  engine: string
  device: string
  location: string
  packed: Buffer
}

async function readRanks(tx: BatchTx, until: string | undefined, hash: Hash) {
  // Each rank is ten bytes: day, place (negative: not found) and the first bytes of the page's hash.
  await sql`
    declare history no scroll cursor for
    select s.*, k.key
    from (
      select workspace_id, keyword_id, engine, device, location,
             string_agg(
               int4send(day - date '1970-01-01')
                 || int2send(coalesce(position, -least(searched_depth + 1, 32767))::int2)
                 || case when url is null then '\\x00000000' else substring(decode(md5(url), 'hex') for 4) end,
               ''::bytea) as packed
      from batch.rank
      where status <> 'failed' and day <= ${until ?? 'infinity'}::date
      group by workspace_id, keyword_id, engine, device, location
    ) s
    join batch.keyword k on k.workspace_id = s.workspace_id and k.id = s.keyword_id
    order by s.workspace_id, s.keyword_id, s.engine, s.device, s.location`.execute(tx)

  const series: SeriesName[] = []
  const packed: Buffer[] = []
  const sites = openIndex()
  const keywords = openIndex()
  const siteOf: number[] = []
  const keywordOf: number[] = []
  for (;;) {
    const { rows } = await sql<SeriesRow>`fetch ${sql.raw(String(seriesPerFetch))} from history`.execute(tx)
    for (const row of rows) {
      const { workspace_id: workspaceId, keyword_id: keywordId, key, engine, device, location } = row
      series.push({ workspaceId, keywordId, engine, device, location })
      siteOf.push(sites.of(workspaceId))
      keywordOf.push(keywords.of(key))
      const sorted = sortDays(row.packed)
      packed.push(sorted)
      hash.update(JSON.stringify([workspaceId, key, engine, device, location, sorted.length])).update(sorted)
    }
    if (rows.length < seriesPerFetch) break
  }
  await sql`close history`.execute(tx)
  const history = {
    ...unpack(packed),
    sites: Int32Array.from(siteOf),
    keywords: Int32Array.from(keywordOf),
    volumeStarts: new Int32Array(keywords.names.length + 1),
    volumeMonths: new Int32Array(),
    volumes: new Float64Array(),
  }
  return { history, series, keys: keywords.names }
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

function unpack(packed: readonly Buffer[]): Pick<History, 'starts' | 'days' | 'places' | 'urls'> {
  const starts = new Int32Array(packed.length + 1)
  packed.forEach((bytes, at) => {
    starts[at + 1] = starts[at]! + bytes.length / bytesPerRank
  })
  const rows = starts[packed.length]!
  const [days, places, urls] = [new Int32Array(rows), new Int16Array(rows), new Int32Array(rows)]
  let row = 0
  for (const bytes of packed) {
    for (let at = 0; at < bytes.length; at += bytesPerRank, row++) {
      days[row] = bytes.readInt32BE(at)
      places[row] = bytes.readInt16BE(at + 4)
      urls[row] = bytes.readInt32BE(at + 6)
    }
  }
  return { starts, days, places, urls }
}

const keysPerQuery = 5_000

/**
 * Volumes of the months before the given one. Where sources differ, the first by name speaks: which source is
 * best overall is known only afterwards.
 */
async function readVolumes(
  tx: BatchTx,
  keys: readonly string[],
  beforeMonth: number | undefined,
  hash: Hash,
) {
  type Row = { at: number; months: number[]; volumes: number[] }
  const starts = new Int32Array(keys.length + 1)
  const months: number[] = []
  const volumes: number[] = []
  for (let from = 0; beforeMonth !== undefined && from < keys.length; from += keysPerQuery) {
    const { rows } = await sql<Row>`
      select at, array_agg(month order by month) as months, array_agg(volume order by month) as volumes
      from (
        select distinct on (k.at, v.month) k.at::int as at,
               (extract(year from v.month) * 12 + extract(month from v.month) - 1)::int as month,
               coalesce(v.volume, (v.volume_min + v.volume_max) / 2.0)::float8 as volume
        from unnest(${keys.slice(from, from + keysPerQuery)}::text[]) with ordinality as k (key, at)
        join batch.monthly_volume v on v.key = k.key
          and v.month < make_date(${Math.floor(beforeMonth / 12)}::int, ${(beforeMonth % 12) + 1}::int, 1)
        order by k.at, v.month, v.source
      ) m
      group by at
      order by at`.execute(tx)
    for (const row of rows) {
      starts[from + row.at] = row.months.length
      months.push(...row.months)
      volumes.push(...row.volumes)
    }
  }
  for (let at = 1; at < starts.length; at++) starts[at]! += starts[at - 1]!
  const found = {
    volumeStarts: starts,
    volumeMonths: Int32Array.from(months),
    volumes: Float64Array.from(volumes),
  }
  hash.update(JSON.stringify([Array.from(starts), months, volumes]))
  return found
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
