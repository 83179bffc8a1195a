import type pg from 'pg'
import type { Day } from '../../platform/time.ts'

/** The first day of which no observation was ever dropped; null where all are kept. */
export async function findKeptFrom(db: pg.Pool | pg.PoolClient): Promise<Day | null> {
  const { rows } = await db.query<{ keptFrom: Day }>({
    name: 'find-volumes-kept-from',
    text: 'select kept_from as "keptFrom" from batch.volume_horizon',
  })
  return rows[0]?.keptFrom ?? null
}

/** Whether months before a day still wait for the aggregation. */
export async function hasDirtyMonthsBefore(client: pg.PoolClient, day: Day): Promise<boolean> {
  const { rows } = await client.query('select 1 from batch.dirty_month where month < $1 limit 1', [day])
  return rows.length > 0
}

/** From now on observations before this day count as gone, whatever is stored of them again. */
export async function moveKeptFrom(client: pg.PoolClient, day: Day): Promise<void> {
  await client.query(
    `insert into batch.volume_horizon as h (kept_from) values ($1)
     on conflict (single) do update set kept_from = greatest(h.kept_from, excluded.kept_from)`,
    [day],
  )
}
