import type pg from 'pg'
import type { Day } from '../../platform/time.ts'
import type { BatchTx } from '../app.ts'

/** What a source last told of a keyword's course: one answer, with the span that its scale was drawn from. */
export type StoredTrend = {
  readonly key: string
  readonly source: string
  readonly every: 'date' | 'week' | 'month'
  readonly from: Day
  readonly to: Day
  readonly values: readonly { readonly period: Day; readonly ratio: number }[]
  readonly askedOn: Day
}

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
export async function findTrend(pool: pg.Pool, key: string): Promise<StoredTrend | undefined> {
  const { rows } = await pool.query<Omit<StoredTrend, 'values'> & { series: [Day, number][] }>(
    `select key, source, every, from_day as "from", to_day as "to", series, asked_on as "askedOn"
     from batch.keyword_trend where key = $1
     order by asked_on desc, source limit 1`,
    [key],
  )
  const [row] = rows
  if (!row) return undefined
  const { series, ...rest } = row
  return { ...rest, values: series.map(([period, ratio]) => ({ period, ratio })) }
}
