import type { Stage } from './stage.ts'

/** Gives every keyword there is a rank a day since then that follows its momentum, so that there is something to learn. */
export async function addMovingRanks(stage: Stage, since: string): Promise<void> {
  await stage.db.query(`
    select batch.ensure_month('rank', m::date) from generate_series('2026-01-01'::date, '2026-08-01', '1 month') m`)
  await stage.db.query(`
    insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, checked_at)
    select k.workspace_id, k.id, d::date, 'naver', 'mobile', 'KR', 'ranked',
           greatest(1, (20 + k.id % 60 + 15 * sin(extract(doy from d) / (3 + k.id % 11)) + 6 * (random() - 0.5))::int), 100, d
    from generate_series('${since}'::date, '2026-07-19'::date, '1 day') d, batch.keyword k`)
}
