import { sql } from 'kysely'
import type pg from 'pg'
import type { BatchDb, BatchTx } from './app.ts'
import type { Month } from './month.ts'

/** A table that stands in one part per month. */
export type MonthlyHistory = 'rank' | 'volume_observation'

// Asking costs a round trip, so each process asks once for each month.
const madeMonths = new WeakMap<BatchDb, Set<string>>()

/** The months that this process has not yet seen to. */
export function unmadeMonths(db: BatchDb, history: MonthlyHistory, months: ReadonlySet<Month>): Set<Month> {
  const made = madeMonths.get(db)
  return new Set([...months].filter((month) => !made?.has(nameOf(history, month))))
}

/** Sees to it that there is a place for each month. */
export async function ensureMonths(
  db: BatchDb,
  history: MonthlyHistory,
  months: Iterable<Month>,
): Promise<void> {
  const made = madeMonths.get(db) ?? new Set()
  madeMonths.set(db, made)
  for (const month of months) {
    const name = nameOf(history, month)
    if (made.has(name)) continue
    await sql`select batch.ensure_month(${history}, ${`${month}-01`}::date)`.execute(db)
    made.add(name)
  }
}

/** Of these months those that have a place, made by whomever: one that `retention` dropped has none. */
export async function findMonths(
  db: BatchDb | BatchTx,
  history: MonthlyHistory,
  months: ReadonlySet<Month>,
): Promise<Set<Month>> {
  const { rows } = await sql<{ month: Month }>`
    select month from unnest(${[...months]}::text[]) as month
    where exists (
      select from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = ${`batch.${history}`}::regclass
        -- Before 2025 a year is one table.
        and c.relname in (${`${history}_`} || replace(month, '-', '_'), ${`${history}_`} || left(month, 4)))`.execute(
    db,
  )
  return new Set(rows.map(({ month }) => month))
}

/**
 * Makes the months that are missing, then does the work. `retention` may have dropped one that this process believes in:
 * then they are made once more. Work inside a transaction leaves it usable when it fails.
 */
export async function withMonths<T>(
  db: BatchDb,
  make: () => Promise<void>,
  work: () => Promise<T>,
): Promise<T> {
  await make()
  try {
    return await work()
  } catch (error) {
    if (!isMonthMissing(error)) throw error
    madeMonths.delete(db)
    await make()
    return work()
  }
}

/** Does work of a transaction in the same way: its failure leaves the transaction as it was. */
export function withMonthsInside<T>(
  db: BatchDb,
  client: pg.PoolClient,
  make: () => Promise<void>,
  work: () => Promise<T>,
): Promise<T> {
  return withMonths(db, make, async () => {
    await client.query('savepoint storing')
    try {
      return await work()
    } catch (error) {
      await client.query('rollback to savepoint storing')
      throw error
    }
  })
}

/** Whether a row found no month to stand in. From a node of Citus a copy brings the words, but not the code. */
function isMonthMissing(error: unknown): boolean {
  const { code, routine, message } = error as { code?: string; routine?: string; message: string }
  if (code === '23514' && routine === 'ExecFindPartition') return true
  return (
    (code === '23514' || code === 'XX000') && /^no partition of relation "\w+" found for row/.test(message)
  )
}

function nameOf(history: MonthlyHistory, month: Month): string {
  return `${history} ${month}`
}
