-- What training made. The artifact lives here, so that every process has it.
create table batch.model (
  id               text collate "C" primary key,
  task             text not null,
  version          integer not null,
  status           text not null check (status in ('candidate', 'active', 'retired', 'rejected')),
  status_history   jsonb not null,             -- [{status, at}], oldest first
  run_id           text not null unique references batch.run (id), -- a run makes one model, however often it was taken up
  manifest         jsonb not null,             -- all that never changes after training
  artifact         bytea not null,             -- the model in use: learnt from all rows
  artifact_sha256  text not null,
  judged           bytea not null,             -- the model as the gate saw it: it knows nothing of the hold-out
  judged_sha256    text not null,
  samples          jsonb not null,             -- rows and the probabilities the artifact gave them when it was made
  live_examples    integer not null default 0, -- predictions whose horizon has passed, and their mean log-loss
  live_log_loss    double precision,
  live_until       date,
  created_at       timestamptz not null,
  activated_at     timestamptz,
  unique (task, version)
);
-- Artifacts are compact already.
alter table batch.model alter artifact set storage external, alter judged set storage external;
create unique index model_active on batch.model (task) where status = 'active';
