import type pg from 'pg'

const perWorkspace = 500
const firstDay = Date.UTC(2026, 0, 1)
const msPerDay = 86_400_000

/**
 * Stores keywords and a rank of each of them for each day, day after day as they come in life: each keyword has a place
 * it returns to and a momentum it loses slowly, sites drift, and some checks find nothing. All of it is made by the server.
 */
export async function storeWanderingRanks(
  db: pg.Client,
  { keywords, days }: { keywords: number; days: number },
): Promise<void> {
  const dayAt = (day: number) => new Date(firstDay + day * msPerDay).toISOString().slice(0, 10)
  await db.query(`
    insert into batch.keyword (workspace_id, key, display, created_at)
    select 'ws_' || n / ${perWorkspace}, 'word ' || n, 'word ' || n, now() from generate_series(1, ${keywords}) n`)
  await db.query(`
    select batch.ensure_month('rank', m::date) from generate_series('${dayAt(0)}'::date, '${dayAt(days - 1)}', '1 month') m`)
  // What was made is made again, should this machine stop: nothing waits for the disk.
  await db.query(`set synchronous_commit = off`)
  await db.query(`select setseed(0.5)`)
  await db.query(`
    create temp table wandering as
    select workspace_id, id, home, home + 0.4 * random_normal() as level, 0::float8 as momentum, 1 + id % 3 as page
    from (select workspace_id, id, ln(3) + random() * ln(25) as home from batch.keyword order by id) k`)
  for (let day = 0; day < days; day++) {
    await db.query(`
      create temp table wandered as
      select workspace_id, id, home, level + 0.07 * (home - level) + step + drift as level, step as momentum,
             case when random() < 0.01 then 1 + (random() * 2)::int else page end as page
      from (select *, 0.85 * momentum + 0.025 * random_normal() as step,
                   0.006 * sin(${day} / 9.0 + hashtext(workspace_id) % 60) as drift from wandering) w`)
    await db.query('drop table wandering')
    await db.query('alter table wandered rename to wandering')
    await db.query(
      `insert into batch.rank (workspace_id, keyword_id, day, engine, device, location, status, position, searched_depth, url, checked_at)
       select workspace_id, id, $1::date, 'naver', 'mobile', 'KR', case when place <= 100 then 'ranked' else 'not_in_depth' end,
              case when place <= 100 then place end, 100,
              case when place <= 100 then 'https://shop.example/goods/' || page end, $1::date + interval '21 hours'
       from (select *, greatest(1, exp(level + 0.06 * random_normal()))::int as place from wandering) w`,
      [dayAt(day)],
    )
  }
  await db.query('drop table wandering')
  await db.query('vacuum analyze')
}
