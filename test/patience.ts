import type pg from 'pg'
import { openPool } from '../src/platform/database/db.ts'

// What is healthy and slow is waited for: tests run where others take most of the cores. Tests of silence say less.

/** For a service under test. */
export const patience = {
  DATABASE_CONNECT_TIMEOUT_MS: '60000',
  DATABASE_QUERY_TIMEOUT_MS: '600000',
  PROVIDER_TIMEOUT_MS: '15000',
  ANSWER_WITHIN_MS: '60000',
}

export function openPatientPool(url: string, max: number, name: string): pg.Pool {
  return openPool({ url, max, name, connectTimeoutMs: 60_000, queryTimeoutMs: 600_000, onError() {} })
}

/** How many sessions of this database wait for a lock just now. */
export async function countLockWaits(pool: pg.Pool): Promise<number> {
  const { rowCount } = await pool.query(
    `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rowCount ?? 0
}
