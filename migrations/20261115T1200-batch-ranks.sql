-- Rank history: one row per keyword, engine, device, location and day, in one partition per month.
-- Workspace comes first in every unique key, so that the table can be spread over machines by workspace.
-- It has no foreign key to batch.keyword: keywords are never deleted, every row is written from a join with them, and
-- a check per row would lock the keyword once for each of its ranks.
create table batch.rank (
  keyword_id      bigint not null,
  checked_at      timestamptz not null,        -- of two checks of one day, the later one is kept
  day             date not null,
  position        smallint,
  searched_depth  smallint not null,
  revision        smallint not null default 1, -- 1 when stored first; each correction adds one
  workspace_id    text collate "C" not null,
  engine          text collate "C" not null,
  device          text collate "C" not null,
  location        text collate "C" not null,
  status          text not null,
  url             text,
  reason          text,                        -- of a failed check: why
  primary key (workspace_id, keyword_id, day, engine, device, location),
  check (status in ('ranked', 'not_in_depth', 'failed')),
  check ((status = 'ranked') = (position is not null)),
  check (position between 1 and searched_depth),
  check (reason is null or status = 'failed')
) partition by range (day);

-- Makes sure that a month of ranks can be stored. Attaching a finished table, unlike creating a partition in place,
-- stops neither readers nor writers of the other months; the lock lets two makers of one month go one by one.
-- It runs with its owner's rights: the role that serves may write rows, and make no tables but these. Before 2025 a year
-- is one table: little is stored from then, and one request of scattered days makes tens of tables, not hundreds.
create function batch.ensure_rank_month(month date) returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  unit  text := case when month < date '2025-01-01' then 'year' else 'month' end;
  name  text := 'rank_' || to_char(month, case unit when 'year' then 'YYYY' else 'YYYY_MM' end);
begin
  perform pg_advisory_xact_lock(hashtext('batch.ensure_rank_month'));
  -- Asked by a query, which sees what was committed while we waited; to_regclass may remember an older answer.
  if exists (select from pg_class c where c.relname = name and c.relnamespace = 'batch'::regnamespace) then
    return;
  end if;
  execute format('create table batch.%I (like batch.rank including defaults including constraints)', name);
  execute format('alter table batch.rank attach partition batch.%I for values from (%L) to (%L)',
    name, date_trunc(unit, month)::date, (date_trunc(unit, month) + ('1 ' || unit)::interval)::date);
end $$;
revoke execute on function batch.ensure_rank_month(date) from public;
