import type pg from 'pg'
import type { Day } from '../../platform/time.ts'
import type { MonthlyHistory } from '../month-rows.ts'
import { keepBestRanks } from '../ranks/best-rank-rows.ts'
import { hasDirtyMonthsBefore, moveKeptFrom } from '../volumes/horizon-rows.ts'

/** A table of batch that holds one month of a history, or one year where little is stored. */
export type MonthTable = {
  readonly history: MonthlyHistory
  readonly table: string
  readonly from: Day
  /** The first day that is no longer in it. */
  readonly to: Day
  /** What the planner believes; null where it never counted. */
  readonly rows: number | null
  readonly bytes: number
}

/** The months of these histories that end at or before a day, oldest first. */
export async function listMonthsBefore(
  pool: pg.Pool,
  histories: readonly MonthlyHistory[],
  day: Day,
): Promise<MonthTable[]> {
  const { rows } = await pool.query<MonthTable>(
    `select * from (
       select p.relname as history, c.relname as "table", b.bounds[1]::date::text as "from", b.bounds[2]::date::text as "to",
              nullif(c.reltuples, -1)::float8 as rows,
              greatest(pg_total_relation_size(c.oid), batch.heap_bytes(c.oid))::float8 as bytes
       from pg_inherits i
       join pg_class c on c.oid = i.inhrelid
       join pg_class p on p.oid = i.inhparent and p.relnamespace = 'batch'::regnamespace and p.relname = any($2::text[])
       cross join lateral (
         select regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \\('([^']+)'\\) TO \\('([^']+)'\\)$re$) as bounds) b) m
     where m."to" <= $1
     order by m.history, m."from"`,
    [day, histories],
  )
  return rows
}

// A detached month carries another name at once, so that its own is free should somebody store rows of then again.
const leavingSuffix = '_leaving'

/**
 * Takes a month out of its history and names the table that it leaves behind: from then on nobody reads it or writes to it.
 * Undefined: observations in it still wait for the aggregation, which could make nothing of them any more.
 */
export async function detachMonth(
  pool: pg.Pool,
  { history, table, to }: Pick<MonthTable, 'history' | 'table' | 'to'>,
  lockTimeoutMs: number,
): Promise<string | undefined> {
  const leaving = `${table}${leavingSuffix}`
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(`set local lock_timeout = ${Math.trunc(lockTimeoutMs)}`)
    if (history === 'volume_observation' && !(await closeVolumes(client, to))) {
      await client.query('rollback')
      return undefined
    }
    if (history === 'rank') await keepBest(client, table)
    await client.query(`alter table batch.${history} detach partition batch.${quoted(table)}`)
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

/**
 * Keeps writers of observations out, makes sure that what they wrote is in the monthly volumes, and moves the day from which
 * observations are kept. All on one connection per node of a cluster, for the tables' shards are altered next.
 */
async function closeVolumes(client: pg.PoolClient, to: Day): Promise<boolean> {
  await client.query(`set local citus.multi_shard_modify_mode = 'sequential'`)
  await client.query('lock table batch.volume_observation in share row exclusive mode')
  if (await hasDirtyMonthsBefore(client, to)) return false
  await moveKeptFrom(client, to)
  return true
}

/**
 * Keeps what a month of ranks tells about the best places, as it stands when the month goes: nobody corrects a rank of it
 * meanwhile, and everybody reads on. A large month takes its time, so whoever keeps us from detaching it is met before.
 */
async function keepBest(client: pg.PoolClient, table: string): Promise<void> {
  await client.query('set local statement_timeout = 0')
  await client.query(`set local citus.multi_shard_modify_mode = 'sequential'`)
  await client.query('savepoint trying')
  await client.query('lock table batch.rank in access exclusive mode')
  await client.query('rollback to savepoint trying')
  await client.query(`lock table batch.${quoted(table)} in share mode`)
  await keepBestRanks(client, quoted(table))
}

export type LeavingMonth = {
  readonly history: MonthlyHistory
  readonly table: string
  readonly bytes: number
}

/** Months of these histories that an earlier run took out and did not bring to an end. */
export async function listLeaving(
  pool: pg.Pool,
  histories: readonly MonthlyHistory[],
): Promise<LeavingMonth[]> {
  const { rows } = await pool.query<LeavingMonth>(
    `select h.history, c.relname as "table",
            greatest(pg_total_relation_size(c.oid), batch.heap_bytes(c.oid))::float8 as bytes
     from unnest($1::text[]) as h (history)
     join pg_class c on c.relname ~ ('^' || h.history || '_\\d{4}(_\\d\\d)?_leaving$')
     where c.relnamespace = 'batch'::regnamespace and c.relkind = 'r'
     order by h.history, c.relname`,
    [histories],
  )
  return rows
}

export async function dropLeaving(pool: pg.Pool, table: string): Promise<void> {
  await pool.query(`drop table batch.${quoted(table)}`)
}

/** `rank_2024_03_leaving` → `2024-03`. */
export function periodOf(table: string): string {
  return /_(\d{4}(?:_\d\d)?)(?:_leaving)?$/.exec(table)![1]!.replace('_', '-')
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Whether a lock was not to be had in time. */
export function isLocked(error: unknown): boolean {
  return (error as { code?: string }).code === '55P03'
}
