-- What sources said about how often a keyword is searched; shared by all workspaces.
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
);

-- Months that an observation has changed since they were worked out. A new change brings a new mark, never one that
-- was there before: whoever clears a mark knows that it has seen everything up to it.
create sequence batch.volume_mark;
create table batch.dirty_month (
  key     text collate "C" not null,
  source  text collate "C" not null,
  month   date not null check (extract(day from month) = 1),
  mark    bigint not null default nextval('batch.volume_mark'),
  primary key (key, source, month)
);
