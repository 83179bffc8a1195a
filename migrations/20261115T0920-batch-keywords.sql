create schema batch;

-- Texts that are keys compare by their bytes: the same order on every machine, and the quickest one.
create table batch.keyword (
  workspace_id  text collate "C" not null,
  key           text collate "C" not null,     -- folded form: two spellings of one keyword share it; never shown
  id            bigint generated always as identity,
  display       text not null,
  created_at    timestamptz not null,
  removed_at    timestamptz,                   -- its history stays; registering it again revives it
  primary key (workspace_id, key),             -- also the order in which lists are read
  unique (workspace_id, id)
);

-- The stored monthly search volumes, shared by all workspaces.
create table batch.monthly_volume (
  key            text collate "C" not null,
  source         text collate "C" not null,
  month          date not null check (extract(day from month) = 1),
  volume         bigint check (volume >= 0),   -- null: only the bounds are known
  volume_min     bigint not null check (volume_min >= 0),
  volume_max     bigint not null,
  quality        text not null check (quality in ('reported', 'measured', 'estimated')),
  days_observed  integer not null check (days_observed between 0 and 31),
  -- What was known of it on the day the month ended, for features of later days; null: too little to go by.
  at_month_end   double precision check (at_month_end >= 0),
  updated_at     timestamptz not null,
  primary key (key, source, month),
  check (volume_min <= volume_max and (volume is null or volume between volume_min and volume_max))
);
