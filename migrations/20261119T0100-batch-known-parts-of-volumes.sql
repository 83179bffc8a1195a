-- A censored volume of which one surface is known exactly comes to at least that part. Months that were worked out without it are
-- worked out anew, each with the marks that a correction of the same observation would bring, in the order in which all lock them.
insert into batch.dirty_month (key, source, month)
select distinct key, source, date_trunc('month', touched)::date
from (
  select key, source,
    unnest(case when kind = 'rolling_30d' then array[day - 29, day - 15, day] else array[day] end) as touched
  from batch.volume_observation
  where volume is null and (pc is not null or mobile is not null)
) known
order by 1, 2, 3
on conflict (key, source, month) do update set mark = excluded.mark;
