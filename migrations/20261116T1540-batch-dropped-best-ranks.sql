-- The best place that each series had in the months which `retention` dropped. Ranks that are stored tell their own best, so
-- whoever writes or corrects them keeps nothing here: only rows that leave do. A dropped rank can no longer be corrected.
create table batch.dropped_best_rank (
  keyword_id     bigint not null,
  day            date not null,               -- the first on which it stood there
  position       smallint not null check (position >= 1),
  mean_position  real check (mean_position >= 1),
  workspace_id   text collate "C" not null,
  engine         text collate "C" not null,
  device         text collate "C" not null,
  location       text collate "C" not null,
  primary key (workspace_id, keyword_id, engine, device, location)
);
