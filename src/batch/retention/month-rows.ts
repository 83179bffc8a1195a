import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BatchDb, BatchTx } from '../app.ts'
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
  db: BatchDb,
  histories: readonly MonthlyHistory[],
  day: Day,
): Promise<MonthTable[]> {
  const { rows } = await sql<MonthTable>`
     select * from (
       select p.relname as history, c.relname as "table", b.bounds[1]::date::text as "from", b.bounds[2]::date::text as "to",
              nullif(c.reltuples, -1)::float8 as rows,
              greatest(pg_total_relation_size(c.oid), batch.heap_bytes(c.oid))::float8 as bytes
       from pg_inherits i
       join pg_class c on c.oid = i.inhrelid
       join pg_class p on p.oid = i.inhparent and p.relnamespace = 'batch'::regnamespace and p.relname = any(${[...histories]}::text[])
       cross join lateral (
         select regexp_match(pg_get_expr(c.relpartbound, c.oid), $re$FROM \\('([^']+)'\\) TO \\('([^']+)'\\)$re$) as bounds) b) m
     where m."to" <= ${day}
     order by m.history, m."from"`.execute(db)
  return rows
}

// A detached month carries another name at once, so that its own is free should somebody store rows of then again.
const leavingSuffix = '_leaving'

/**
 * Takes a month out of its history and names the table that it leaves behind: from then on nobody reads it or writes to it.
 * Undefined: observations in it still wait for the aggregation, which could make nothing of them any more.
 */
export async function detachMonth(
  tx: BatchTx,
  { history, table, to }: Pick<MonthTable, 'history' | 'table' | 'to'>,
  lockTimeoutMs: number,
): Promise<string | undefined> {
  const leaving = `${table}${leavingSuffix}`
  await sql`set local lock_timeout = ${sql.lit(Math.trunc(lockTimeoutMs))}`.execute(tx)
  if (history === 'volume_observation' && !(await closeVolumes(tx, to))) return undefined
  if (history === 'rank') await keepBest(tx, table)
  await sql`alter table batch.${sql.id(history)} detach partition batch.${sql.id(table)}`.execute(tx)
  await sql`alter table batch.${sql.id(table)} rename to ${sql.id(leaving)}`.execute(tx)
  return leaving
}

/**
 * Keeps writers of observations out, makes sure that what they wrote is in the monthly volumes, and moves the day from which
 * observations are kept. All on one connection per node of a cluster, for the tables' shards are altered next.
 */
async function closeVolumes(tx: BatchTx, to: Day): Promise<boolean> {
  await sql`set local citus.multi_shard_modify_mode = 'sequential'`.execute(tx)
  await sql`lock table batch.volume_observation in share row exclusive mode`.execute(tx)
  if (await hasDirtyMonthsBefore(tx, to)) return false
  await moveKeptFrom(tx, to)
  return true
}

/**
 * Keeps what a month of ranks tells about the best places, as it stands when the month goes: nobody corrects a rank of it
 * meanwhile, and everybody reads on. A large month takes its time, so whoever keeps us from detaching it is met before.
 */
async function keepBest(tx: BatchTx, table: string): Promise<void> {
  await sql`set local statement_timeout = 0`.execute(tx)
  await sql`set local citus.multi_shard_modify_mode = 'sequential'`.execute(tx)
  await sql`savepoint trying`.execute(tx)
  await sql`lock table batch.rank in access exclusive mode`.execute(tx)
  await sql`rollback to savepoint trying`.execute(tx)
  await sql`lock table batch.${sql.id(table)} in share mode`.execute(tx)
  await keepBestRanks(tx, table)
}

export type LeavingMonth = {
  readonly history: MonthlyHistory
  readonly table: string
  readonly bytes: number
}

/** Months of these histories that an earlier run took out and did not bring to an end. */
export async function listLeaving(
  db: BatchDb,
  histories: readonly MonthlyHistory[],
): Promise<LeavingMonth[]> {
  const { rows } = await sql<LeavingMonth>`
     select h.history, c.relname as "table",
            greatest(pg_total_relation_size(c.oid), batch.heap_bytes(c.oid))::float8 as bytes
     from unnest(${[...histories]}::text[]) as h (history)
     join pg_class c on c.relname ~ ('^' || h.history || '_\\d{4}(_\\d\\d)?_leaving$')
     where c.relnamespace = 'batch'::regnamespace and c.relkind = 'r'
     order by h.history, c.relname`.execute(db)
  return rows
}

export async function countRowsOfMonth(db: BatchDb, table: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*)::float8 as n from batch.${sql.id(table)}`.execute(
    db,
  )
  return rows[0]!.n
}

export async function dropLeaving(db: BatchDb, table: string): Promise<void> {
  await sql`drop table batch.${sql.id(table)}`.execute(db)
}

/** `rank_2024_03_leaving` → `2024-03`. */
export function periodOf(table: string): string {
  return /_(\d{4}(?:_\d\d)?)(?:_leaving)?$/.exec(table)![1]!.replace('_', '-')
}
