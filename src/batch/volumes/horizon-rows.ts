import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BatchDb, BatchTx } from '../app.ts'

/** The first day of which no observation was ever dropped; null where all are kept. */
export async function findKeptFrom(db: BatchDb): Promise<Day | null> {
  const { rows } = await sql<{ keptFrom: Day }>`
    select kept_from as "keptFrom" from batch.volume_horizon`.execute(db)
  return rows[0]?.keptFrom ?? null
}

/** Whether months before a day still wait for the aggregation. */
export async function hasDirtyMonthsBefore(tx: BatchTx, day: Day): Promise<boolean> {
  const { rows } = await sql`select 1 from batch.dirty_month where month < ${day} limit 1`.execute(tx)
  return rows.length > 0
}

/** From now on observations before this day count as gone, whatever is stored of them again. */
export async function moveKeptFrom(tx: BatchTx, day: Day): Promise<void> {
  await sql`
    insert into batch.volume_horizon as h (kept_from) values (${day})
    on conflict (single) do update set kept_from = greatest(h.kept_from, excluded.kept_from)`.execute(tx)
}
