import type pg from 'pg'

/** Twelve months of volume, which is what a lookup without a source or months reads: of one keyword, or of so many, numbered. */
export async function storeYearOf(
  db: Pick<pg.Pool, 'query'>,
  keyword: string,
  numbered?: number,
): Promise<void> {
  await db.query(
    `insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
     select $1 || n, 'naver', m::date, 1000, 1000, 1000, 'reported', 30, now()
     from unnest($2::text[]) n, generate_series('2025-11-01'::date, '2026-10-01', '1 month') m`,
    [keyword, numbered === undefined ? [''] : Array.from({ length: numbered }, (_, n) => String(n))],
  )
  await db.query('analyze batch.monthly_volume')
}
