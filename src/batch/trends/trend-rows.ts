import type { BatchDb, BatchTx } from '../app.ts'
import type { StoredTrend } from './trend.ts'

/** Writes a series whole: what was there had another scale. One that was asked for later stays. */
export async function upsertTrend(tx: BatchTx, trend: StoredTrend): Promise<void> {
  const row = {
    key: trend.key,
    source: trend.source,
    every: trend.every,
    from_day: trend.from,
    to_day: trend.to,
    series: JSON.stringify(trend.values.map(({ period, ratio }) => [period, ratio])),
    asked_on: trend.askedOn,
  }
  const { key: _key, source: _source, ...changed } = row
  await tx
    .insertInto('batch.keyword_trend')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(['key', 'source'])
        .doUpdateSet(changed)
        .where('batch.keyword_trend.asked_on', '<=', trend.askedOn),
    )
    .execute()
}

/** The trend that was asked for last. */
export async function findTrend(db: BatchDb, key: string): Promise<StoredTrend | undefined> {
  const row = await db
    .selectFrom('batch.keyword_trend')
    .select(['key', 'source', 'every', 'from_day as from', 'to_day as to', 'series', 'asked_on as askedOn'])
    .where('key', '=', key)
    .orderBy('asked_on', 'desc')
    .orderBy('source')
    .limit(1)
    .executeTakeFirst()
  if (!row) return undefined
  const { series, ...rest } = row
  return { ...rest, values: series.map(([period, ratio]) => ({ period, ratio })) }
}
