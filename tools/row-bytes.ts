import pg from 'pg'
import { migrate } from '../src/platform/database/migrate.ts'
import { migrateQueue } from '../src/platform/queue/queue.ts'
import { grow, stored } from '../test/plans/grow.ts'
import { openThrowawayServer } from '../test/throwaway-server.ts'

/** How many bytes a row takes with its indexes, freshly written: `npx tsx tools/row-bytes.ts`. */
const server = await openThrowawayServer('row-bytes')
const pool = new pg.Pool({ connectionString: server.url })
// The server may end what the pool is still closing.
pool.on('error', () => {})
try {
  await migrate(server.url)
  await migrateQueue(server.url)
  await pool.query(`
    insert into billing.plan values ('pro-monthly', 'Pro', 29000, 'KRW', 'month', 1, 14, true, now());
    insert into billing.account (id, time_zone, created_at) values ('model', 'UTC', now());
    insert into billing.subscription (id, account_id, plan_id, description, amount, currency, interval_unit, interval_count, time_zone,
      status, anchor, last_k, next_billing_at, period_start, period_end, payment_method_id, created_at)
    values ('sub_model', 'model', 'pro-monthly', 'Pro', 29000, 'KRW', 'month', 1, 'UTC', 'active', now(), 0, now() + interval '1 month',
      now(), now() + interval '1 month', 'pm', now());
    select batch.ensure_rank_month('2030-01-01'), batch.ensure_month('volume_observation', '2029-12-01')`)
  await grow(pool, 'model')
  const { rows } = await pool.query(
    `select n.nspname || '.' || c.relname as table, c.reltuples::bigint as rows,
      round(pg_total_relation_size(c.oid) / c.reltuples::numeric) as bytes
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('billing', 'batch', 'platform') and c.relkind = 'r' and c.reltuples >= $1 order by 1`,
    [stored],
  )
  for (const row of rows)
    process.stdout.write(`${row.table.padEnd(36)}${row.bytes.padStart(6)} bytes a row\n`)
} finally {
  await pool.end()
  await server.close()
}
