import type pg from 'pg'
import { openPool } from '../src/platform/database/db.ts'

/** A pool that waits for what is healthy and slow: tests run where others take most of the cores. */
export function openPatientPool(url: string, max: number, name: string): pg.Pool {
  return openPool({ url, max, name, connectTimeoutMs: 60_000, queryTimeoutMs: 600_000, onError() {} })
}
