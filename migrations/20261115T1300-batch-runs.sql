-- One execution of a batch task. Runs belong to the installation, not to a workspace.
create table batch.run (
  id           text collate "C" primary key,
  task         text not null check (task in ('train_classifier', 'predict', 'aggregate_volumes', 'collect_ranks', 'collect_volumes')),
  trigger      text not null check (trigger in ('manual', 'schedule')),
  status       text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'skipped')),
  queued_at    timestamptz not null,
  started_at   timestamptz,
  finished_at  timestamptz,
  progress     double precision not null default 0 check (progress between 0 and 1),
  error_code   text,                           -- why it failed or was skipped
  model_id     text,
  metrics      jsonb,
  takes        integer not null default 0,     -- how often a worker took it up; tells a late worker from the one in charge
  by_tenant    boolean not null default false, -- a token of one workspace started it: of trainings, one an hour
  leased_until timestamptz not null,           -- real time; a run under way that nobody renews is put into the queue again
  check ((status in ('failed', 'skipped')) = (error_code is not null)),
  check ((status in ('succeeded', 'failed', 'skipped')) = (finished_at is not null)),
  check (status <> 'running' or started_at is not null)
);
create index run_by_tenant on batch.run (task, queued_at) where by_tenant;
create unique index run_in_progress on batch.run (task) where status in ('queued', 'running');

-- When each task starts by itself next. A slot that was missed is one start, however many it were.
create table batch.schedule (
  task     text primary key,
  cron     text not null,
  zone     text not null,
  next_at  timestamptz not null
);
