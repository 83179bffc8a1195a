import type pg from 'pg'

/** Twelve months of one keyword's volume: what a lookup without a source or months reads. */
export async function storeYearOfShoes(db: Pick<pg.Pool, 'query'>): Promise<void> {
  await db.query(`
    insert into batch.monthly_volume (key, source, month, volume, volume_min, volume_max, quality, days_observed, updated_at)
    select 'shoes', 'naver', m::date, 1000, 1000, 1000, 'reported', 30, now()
    from generate_series('2025-11-01'::date, '2026-10-01', '1 month') m`)
}
