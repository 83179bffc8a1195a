import { sql } from 'kysely'
import type { Day } from '../../platform/time.ts'
import type { BatchDb, BatchTx } from '../app.ts'

export type RankCounts = { rows: number; usableRows: number; days: number }

/** A history larger than this is counted from a sample: a caller waits for the answer. */
const exactUpToBytes = 256 * 1024 * 1024
const bytesPerSample = 32 * 1024 * 1024

/** How many rows the rank history holds, over all workspaces, up to a day: exact up to about two million, an estimate above. */
export async function countRanks(db: BatchDb | BatchTx, until?: Day): Promise<RankCounts> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(batch.heap_bytes(relid)), 0)::float8 as bytes
    from pg_partition_tree('batch.rank') where isleaf`.execute(db)
  const { bytes } = rows[0]!
  return countIn(db, bytes <= exactUpToBytes ? 1 : bytesPerSample / bytes, until)
}

async function countIn(db: BatchDb | BatchTx, share: number, until: Day | undefined): Promise<RankCounts> {
  const ranks =
    share === 1
      ? sql`batch.rank`
      : sql`batch.rank tablesample system (${sql.lit(share * 100)}) repeatable (1)`
  const days = until === undefined ? sql`` : sql` where day <= ${until}::date`
  const { rows } = await sql<RankCounts>`
    select coalesce(sum(rows), 0)::float8 as rows, coalesce(sum(usable), 0)::float8 as "usableRows", count(*)::int as days
    from (
      select day, count(*) as rows, count(*) filter (where status <> 'failed') as usable from ${ranks}${days} group by day
    ) d`.execute(db)
  const counts = rows[0]!
  return {
    rows: Math.round(counts.rows / share),
    usableRows: Math.round(counts.usableRows / share),
    days: counts.days,
  }
}
