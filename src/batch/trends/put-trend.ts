import type { BatchApp } from '../app.ts'
import type { StoredTrend } from './trend.ts'
import { upsertTrend } from './trend-rows.ts'

/** Keeps what a source told of a keyword, in place of what it told before. */
export async function putTrend(app: BatchApp, trend: StoredTrend): Promise<void> {
  await app.db.transaction().execute(async (tx) => {
    await app.fence(tx)
    await upsertTrend(tx, trend)
  })
}
