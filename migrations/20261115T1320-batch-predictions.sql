-- What a model expects of a keyword, told from what was known on a day. The newest one is what callers see; older ones
-- wait for their outcome, which is added to their model's live quality when they go. Each speaks of the keyword's leading
-- series: its engine, device and location.
create table batch.prediction (
  workspace_id  text collate "C" not null,
  keyword_id    bigint not null,
  day           date not null,
  model_id      text not null references batch.model (id),
  horizon_days  smallint not null,
  rise          double precision not null,
  hold          double precision not null,
  fall          double precision not null,
  predicted     text not null check (predicted in ('rise', 'hold', 'fall')),
  engine        text collate "C" not null,
  device        text collate "C" not null,
  location      text collate "C" not null,
  predicted_at  timestamptz not null,
  primary key (workspace_id, keyword_id, day)
);
create index prediction_age on batch.prediction (day, workspace_id, keyword_id);
