import type pg from 'pg'
import type { Day } from '../../platform/time.ts'

/** A table of batch that holds the ranks of one month, or of one year where little is stored. */
export type RankMonth = {
  readonly table: string
  readonly from: Day
  /** The first day that is no longer in it. */
  readonly to: Day
  /** What the planner believes; null where it never counted. */
  readonly rows: number | null
  readonly bytes: number
}

/** The months that end at or before a day, oldest first. */
export async function listMonthsBefore(pool: pg.Pool, day: Day): Promise<RankMonth[]> {
  const { rows } = await pool.query<RankMonth>(
    `select * from (
       select c.relname as "table", b.bounds[1]::date::text as "from", b.bounds[2]::date::text as "to",
              nullif(c.reltuples, -1)::float8 as rows,
              greatest(pg_total_relation_size(c.oid), batch.heap_bytes(c.oid))::float8 as bytes
       from pg_inherits i
       join pg_class c on c.oid = i.inhrelid
       cross join lateral (
         select regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \\('([^']+)'\\) TO \\('([^']+)'\\)$re$) as bounds) b
       where i.inhparent = 'batch.rank'::regclass) m
     where m."to" <= $1
     order by m."from"`,
    [day],
  )
  return rows
}

// A detached month carries another name at once, so that its own is free should somebody store ranks of then again.
const leavingSuffix = '_leaving'

/** Takes a month out of the history. From then on nobody reads it or writes to it. */
export async function detachMonth(pool: pg.Pool, table: string, lockTimeoutMs: number): Promise<string> {
  const leaving = `${table}${leavingSuffix}`
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(`set local lock_timeout = ${Math.trunc(lockTimeoutMs)}`)
    await client.query(`alter table batch.rank detach partition batch.${quoted(table)}`)
    await client.query(`alter table batch.${quoted(table)} rename to ${quoted(leaving)}`)
    await client.query('commit')
    return leaving
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

/** Months that an earlier run took out and did not bring to an end. */
export async function listLeaving(pool: pg.Pool): Promise<{ table: string; bytes: number }[]> {
  const { rows } = await pool.query<{ table: string; bytes: number }>(
    `select relname as "table", greatest(pg_total_relation_size(oid), batch.heap_bytes(oid))::float8 as bytes from pg_class
     where relnamespace = 'batch'::regnamespace and relkind = 'r' and relname like 'rank\\_%\\_leaving'
     order by relname`,
  )
  return rows
}

export async function dropLeaving(pool: pg.Pool, table: string): Promise<void> {
  await pool.query(`drop table batch.${quoted(table)}`)
}

/** `rank_2024_03_leaving` → `2024-03`. */
export function periodOf(table: string): string {
  return table
    .replace(/^rank_/, '')
    .replace(leavingSuffix, '')
    .replace('_', '-')
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Whether a lock was not to be had in time. */
export function isLocked(error: unknown): boolean {
  return (error as { code?: string }).code === '55P03'
}
