-- What training made. The artifact lives here, so that every process has it.
create table batch.model (
  id               text collate "C" primary key,
  task             text not null,
  version          integer not null,
  status           text not null check (status in ('candidate', 'active', 'retired', 'rejected')),
  status_history   jsonb not null,             -- [{status, at}], oldest first
  run_id           text not null unique references batch.run (id), -- a run makes one model, however often it was taken up
  manifest         jsonb not null,             -- all that never changes after training
  artifact         bytea,                      -- the model in use: learnt from all rows; null once it was pruned
  artifact_sha256  text not null,
  judged           bytea,                      -- the model as the gate saw it: it knows nothing of the hold-out
  judged_sha256    text not null,
  samples          jsonb not null,             -- rows and the probabilities the artifact gave them when it was made
  revision         integer not null default 1, -- each change of what its manifest shows adds one: files follow it
  created_at       timestamptz not null,
  activated_at     timestamptz,
  unique (task, version),
  check (status in ('retired', 'rejected') or (artifact is not null and judged is not null))
);
-- Artifacts are compact already.
alter table batch.model alter artifact set storage external, alter judged set storage external;
create unique index model_active on batch.model (task) where status = 'active';

-- How past predictions of a model turned out, by the day they were told from: the sum of their log-losses, beside what
-- class shares and the best naive rule would have lost on the same rows.
create table batch.live_quality (
  model_id    text not null references batch.model (id),
  day         date not null,
  examples    integer not null,
  loss        double precision not null,
  prior_loss  double precision not null,
  naive_loss  double precision not null,
  primary key (model_id, day)
);
