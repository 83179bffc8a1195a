-- Observations of volumes stand in one table per month, as ranks do, so that old ones leave as whole tables.

-- Makes sure that a month of a history can be stored. Attaching a finished table, unlike creating a partition in place,
-- stops neither readers nor writers of the other months; the lock lets two makers of one month go one by one.
-- It runs with its owner's rights: the role that serves may write rows, and make no tables but these. Before 2025 a year
-- is one table: little is stored from then, and one request of scattered days makes tens of tables, not hundreds.
-- Where the history is spread over machines, attaching spreads the month too.
create function batch.ensure_month(history text, month date) returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  unit  text := case when month < date '2025-01-01' then 'year' else 'month' end;
  name  text := history || '_' || to_char(month, case unit when 'year' then 'YYYY' else 'YYYY_MM' end);
begin
  if history not in ('rank', 'volume_observation') then
    raise exception 'no history is called %', history;
  end if;
  perform pg_advisory_xact_lock(hashtext('batch.ensure_rank_month'));
  -- Asked by a query, which sees what was committed while we waited; to_regclass may remember an older answer.
  if exists (select from pg_class c where c.relname = name and c.relnamespace = 'batch'::regnamespace) then
    return;
  end if;
  execute format('create table batch.%I (like batch.%I including defaults including constraints)', name, history);
  execute format('alter table batch.%I attach partition batch.%I for values from (%L) to (%L)',
    history, name, date_trunc(unit, month)::date, (date_trunc(unit, month) + ('1 ' || unit)::interval)::date);
end $$;
revoke execute on function batch.ensure_month(text, date) from public;

-- The release before this one asks for it by this name.
create or replace function batch.ensure_rank_month(month date) returns void language sql
security definer set search_path = pg_catalog, pg_temp as $$ select batch.ensure_month('rank', month) $$;

alter table batch.volume_observation rename to volume_observation_whole;
alter table batch.volume_observation_whole rename constraint volume_observation_pkey to volume_observation_whole_pkey;

create table batch.volume_observation (
  key         text collate "C" not null,
  source      text collate "C" not null,
  day         date not null,                   -- the day, the last of the 30 days, or any day of the month
  kind        text collate "C" not null check (kind in ('day', 'rolling_30d', 'month')),
  volume      bigint check (volume >= 0),
  volume_max  bigint check (volume_max >= 0),  -- censored: the source said no more than "at most this"
  pc          bigint check (pc >= 0),
  mobile      bigint check (mobile >= 0),
  revision    integer not null default 1,      -- 1 when stored first; each correction adds one
  primary key (key, source, day, kind),
  check (num_nonnulls(volume, volume_max) = 1)
) partition by range (day);

select batch.ensure_month('volume_observation', m.month)
from (select distinct date_trunc('month', day)::date as month from batch.volume_observation_whole
      union select date_trunc('month', now())::date
      union select (date_trunc('month', now()) + interval '1 month')::date) m
order by m.month;

insert into batch.volume_observation (key, source, day, kind, volume, volume_max, pc, mobile, revision)
select key, source, day, kind, volume, volume_max, pc, mobile, revision from batch.volume_observation_whole;

-- Whoever might read and write the old table may read and write the new one, and make its months.
do $$
declare
  held record;
begin
  for held in
    select a.grantee::regrole as role, a.privilege_type as privilege from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'batch.volume_observation_whole'::regclass and a.grantee <> c.relowner and a.grantee <> 0
  loop
    execute format('grant %s on batch.volume_observation to %s', held.privilege, held.role);
    execute format('grant execute on function batch.ensure_month(text, date) to %s', held.role);
  end loop;
end $$;

drop table batch.volume_observation_whole;
