-- What each finished day took and gave back, added up from the ledger once. The ledger is only ever appended to, at the
-- time it is written, so that a day that is over does not change.
create table billing.day_total (
  zone      text not null,                      -- whose midnights
  day       date not null,
  currency  text not null,
  paid      bigint not null,
  refunded  bigint not null,
  primary key (zone, day, currency)
);
create table billing.day_total_until (
  zone   text primary key,
  until  date not null                          -- every day before this one is added up
);

-- Comparisons of the provider's book with ours that were asked for over HTTP, and what they found.
create table billing.reconciliation (
  id           bigint generated always as identity primary key,
  from_at      timestamptz not null,
  to_at        timestamptz not null,
  status       text not null check (status in ('running', 'done', 'failed')),
  compared     integer not null default 0,
  repaired     integer not null default 0,
  differences  integer not null default 0,
  examples     jsonb not null default '[]',     -- the first differences; ids and amounts, no personal data
  actor        text not null,
  started_at   timestamptz not null,
  finished_at  timestamptz,
  leased_until timestamptz not null             -- real time; a run that stops renewing this is dead
);
create unique index reconciliation_one_running on billing.reconciliation ((true)) where status = 'running';
